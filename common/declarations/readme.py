"""The README's tables of strategies and of their options, written from the declarations.

To start it: `nox -s readme`. Each table stands between two comments, `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import ast
import dataclasses
import inspect
import re
from functools import cache
from itertools import pairwise

from common.command_line import option_name
from common.declarations.catalogue import strategies
from common.declarations.strategy import Options
from common.errors import exit_with_one_line
from common.files import write_atomically
from common.paths import ROOT

README = ROOT / "README.md"


def main() -> None:
    """Write the tables into the README. Raises UserError when it can't be written to."""
    write_atomically(README, with_tables(README.read_text(encoding="utf-8")).encode())


def with_tables(text: str) -> str:
    """The README's text with the tables as the declarations have them.

    Options have one row for each with the same words, and the strategies that have it, in the order of the catalogue.
    """
    rows = ["| strategy | file | what it is | start one by hand |", "|---|---|---|---|"]
    having: dict[tuple[str, str], list[str]] = {}
    for name, strategy in strategies().items():
        rows.append(f"| `{name}` | [{strategy.script}]({strategy.script}) | {strategy.summary} | `nox -s {name}` |")
        for each in dataclasses.fields(strategy.options):
            option = option_name(each.name)
            if each.default is True:
                option = option.replace("--", "--no-", 1)
            having.setdefault((option, _words_of(strategy.options, each.name)), []).append(f"`{name}`")
    option_rows = ["| option | what it does | strategies |", "|---|---|---|"]
    for (option, words), names in having.items():
        others = [f"`{name}`" for name in strategies() if f"`{name}`" not in names]
        having_it = f"all but {', '.join(others)}" if len(others) < len(names) / 2 else ", ".join(names)
        option_rows.append(f"| `{option}` | {words} | {having_it} |")
    for name, lines in (("strategies", rows), ("options", option_rows)):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        table = "\n".join([begin, *lines, end])
        text = re.sub(f"{begin}.*?{end}", lambda _, table=table: table, text, flags=re.DOTALL)
    return text


@cache
def _words_of(options: type[Options], field_name: str) -> str:
    """The sentences that stand below a field of an options class, or of one that it inherits from."""
    for each in options.__mro__:
        if issubclass(each, Options):
            definitions = ast.parse(inspect.getsource(each)).body
            [body] = [definition.body for definition in definitions if isinstance(definition, ast.ClassDef)]
            for field, words in pairwise(body):
                is_named = isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == field_name
                if is_named and isinstance(words, ast.Expr):
                    return " ".join(ast.literal_eval(words.value).split())
    raise LookupError(f"{options.__name__}.{field_name} isn't documented.")


if __name__ == "__main__":
    exit_with_one_line(main)
