"""The tables of strategies and of their options in README.md and in the folders' READMEs, from the declarations.

To start it: `nox -s readme`. Each table stands between two comments, `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

from common.command_line import option_name
from common.declarations.catalogue import strategies
from common.declarations.strategy import Options, Strategy
from common.errors import exit_with_one_line
from common.files import write_atomically
from common.paths import ROOT


def main() -> None:
    """Write the tables into all documents. Raises UserError when one can't be written to."""
    for path, text in documents().items():
        write_atomically(path, text.encode())


def documents() -> dict[Path, str]:
    """README.md and the README of each folder of strategies, by path, with the tables as the declarations have them.

    README.md has the tables of all strategies, a folder's README those of its own strategies.
    """
    listed: dict[Path, dict[str, Strategy]] = {ROOT: dict(strategies())}
    for name, strategy in strategies().items():
        listed.setdefault((ROOT / strategy.script).parent, {})[name] = strategy
    texts = {folder / "README.md": own for folder, own in listed.items() if (folder / "README.md").exists()}
    return {path: with_tables(path.read_text(encoding="utf-8"), own) for path, own in texts.items()}


def with_tables(text: str, listed: Mapping[str, Strategy]) -> str:
    """A document's text with the tables of the listed strategies.

    Options have one row for each with the same words, and the strategies that have it, in the order of the catalogue.
    """
    rows = ["| strategy | file | what it is |", "|---|---|---|"]
    having: dict[tuple[str, str], list[str]] = {}
    for name, strategy in listed.items():
        rows.append(f"| `{name}` | [{strategy.script}]({strategy.script}) | {strategy.summary} |")
        for each in dataclasses.fields(strategy.options):
            option = option_name(each.name)
            if each.default is True:
                option = option.replace("--", "--no-", 1)
            having.setdefault((option, _words_of(strategy.options, each.name)), []).append(f"`{name}`")
    option_rows = ["| option | what it does | strategies |", "|---|---|---|"]
    for (option, words), names in having.items():
        others = [f"`{name}`" for name in listed if f"`{name}`" not in names]
        having_it = f"all but {', '.join(others)}" if len(others) < len(names) / 2 else ", ".join(names)
        option_rows.append(f"| `{option}` | {words} | {having_it if others else 'all'} |")
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
