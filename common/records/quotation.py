"""Quotations: the lines of a strategy's script that its own comments say make it distributed."""

import ast
import textwrap
from functools import cache

from common.paths import ROOT
from common.records.header import Part, Positive

MARK = "The line that makes it distributed"
"""What a comment says of the line below it."""


class Quotation(Part, frozen=True, kw_only=True):
    """A part of a source file."""

    line: Positive
    """Number of its first line, from 1."""
    code: str
    """Its lines as they are, but for the indentation that all of them share."""


_Located = ast.stmt | ast.expr | ast.keyword
"""What stands on lines of its own."""


@cache
def distributing_lines(script: str) -> tuple[Quotation, ...]:
    """Each comment of `script`, a path from the root, that has the MARK, with the statement that it stands above.

    Inside a call it is the argument below the comment. Nothing is quoted of a script that isn't there or can't be read.
    """
    try:
        source = (ROOT / script).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return ()
    # From the outside in, so the first node that begins on a line is the whole of what does.
    begun_on: dict[int, _Located] = {}
    for node in ast.walk(tree):
        if isinstance(node, _Located):
            begun_on.setdefault(node.lineno, node)
    lines = source.splitlines()
    quotations: list[Quotation] = []
    is_comment = [line.lstrip().startswith("#") for line in lines]
    for index, line in enumerate(lines):
        if not is_comment[index] or MARK not in line:
            continue
        first, below = index, index
        while first and is_comment[first - 1]:
            first -= 1
        while below < len(lines) and is_comment[below]:
            below += 1
        if node := begun_on.get(below + 1):
            code = textwrap.dedent("\n".join(lines[first : node.end_lineno]))
            quotations.append(Quotation(line=first + 1, code=code))
    return tuple(quotations)
