"""Docstrings of declarations on pages: the descriptions of keys, and the rest as Markdown.

The docstring under a field describes its key; the field is in the class or in a class above it.
"""

import re
from inspect import cleandoc
from textwrap import dedent

_ATTRIBUTES = "Attributes:\n"
_DEFINED = re.compile(r" {4}(?P<name>\S+(?: \S+)*) {2,}(?P<meaning>\S.*)")
_RULE = re.compile(r"=+")
_PAGE = re.compile(r"\bdocs/([\w-]+\.md)")
_LITERAL = re.compile(r"``(.+?)``", re.DOTALL)


def prose(declared: type) -> str:
    """Return the docstring of a class without ``Attributes:``; "" if it has none."""
    return cleandoc(declared.__doc__ or "").partition(_ATTRIBUTES)[0].strip()


def meaning(declared: type, field: str) -> str:
    """Return the docstring under a field in one line; a field that is declared again without one inherits it."""
    fields = (getattr(above, "model_fields", {}).get(field) for above in declared.__mro__)
    texts = (described.description for described in fields if described)
    return " ".join(next(filter(None, texts), "").split())


def markdown(text: str) -> str:
    """Convert a docstring to Markdown: tables, examples of YAML, which are indented, and literals."""
    return "\n\n".join(_as_markdown(block) for block in text.split("\n\n"))


def _as_markdown(block: str) -> str:
    if block.startswith("=="):
        return _table(block.splitlines())
    if all(line.startswith("    ") for line in block.splitlines()):
        return f"```yaml\n{dedent(block)}\n```"
    return literals(block)


def definitions(text: str) -> dict[str, str]:
    """Read the indented list of definitions in a docstring: ``name  meaning``, with further lines indented more."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if defined := _DEFINED.fullmatch(line):
            found[defined["name"]] = defined["meaning"]
        elif found and line.startswith(" " * 6):
            found[next(reversed(found))] += f" {line.strip()}"
    return found


def literals(text: str) -> str:
    """Convert ``word`` to `word` of Markdown, and pages of `docs` to links for a page beside them."""
    return _PAGE.sub(r"[\1](\1)", _LITERAL.sub(r"`\1`", text))


def _table(lines: list[str]) -> str:
    """Convert a simple table of a docstring; a line without a first cell continues the one above it."""
    starts = [rule.start() for rule in _RULE.finditer(lines[0])]
    rows: list[list[str]] = []
    for line in lines[1:-1]:
        cells = [line[start:end].strip() for start, end in zip(starts, (*starts[1:], None), strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    return table(("",) * len(starts), rows)


def table(heading: tuple[str, ...], rows: list[list[str]]) -> str:
    """Format a table of Markdown."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "\n".join(f"| {' | '.join(literals(cell).replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines)
