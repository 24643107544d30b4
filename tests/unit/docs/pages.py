"""The content of pages: blocks between fences, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/README.md", "museum/**/README.md", "conformance/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md" and "node_modules" not in path.parts  # what was right once is not mended there
)
NOT_RUN = "<!-- not run -->"
"""Before a block that shows what is wrong, or what this machine cannot do."""
SHELL = ("", "bash", "console", "sh", "shell")
PROGRAMS = {"chaos": "chaos", "kafka-spark-chaos": "chaos", "make": "make", "pytest": "pytest"}  # typed -> what is meant

_BLOCK = re.compile(
    rf"(?P<not_run>{NOT_RUN}\s*)?^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTIONAL = re.compile(r"\[(--[^\]]+)\]")  # of a synopsis: `[--group G]`, `[--sink X | --shared-sink X]`
_VARIABLE = re.compile(r"[A-Z_]+=.*")


@dataclass(frozen=True)
class Block:
    """Lines between fences.

    Attributes:
        line: of the first of them, in the page.
        info: what is behind the opening fence, such as `yaml`.
    """

    page: Path
    line: int
    info: str
    text: str
    not_run: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a page: where it is, and its words, without the variables in front of them."""

    place: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place} {' '.join(self.words)}"


def blocks(page: Path, text: str = "") -> Iterator[Block]:
    """The blocks of a page, in order; of another text, if it is given."""
    text = text or page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        inside = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["info"].strip(), inside, found["not_run"] is not None)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block of shell that are this project's; one that goes on behind a backslash is one."""
    if block.not_run or block.info not in SHELL:
        return
    lines = block.text.split("\n")
    while lines:
        number = block.line + block.text.count("\n") + 1 - len(lines)
        line = lines.pop(0)
        while line.endswith("\\") and lines:
            line = line[:-1] + lines.pop(0)
        if words := _words(line):
            yield Command(f"{block.page.relative_to(ROOT)}:{number}", words)


def inline(page: Path) -> Iterator[Command]:
    """The commands with options or arguments that are in sentences."""
    text = page.read_text(encoding="utf-8")
    outside = _BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in _INLINE.finditer(outside):
        if len(words := _words(found[1])) > 1:
            yield Command(f"{page.relative_to(ROOT)}:{outside.count(chr(10), 0, found.start()) + 1}", words)


def _words(line: str) -> tuple[str, ...]:
    """The words of a command; none if it is another program's, or no command."""
    typed = _OPTIONAL.sub(lambda found: found[1].replace("|", ""), line.removeprefix("$ "))
    try:
        words = shlex.split(typed, comments=True)
    except ValueError:  # an apostrophe: a sentence
        return ()
    words = words[: min((words.index(end) for end in ("|", "&&", ">", ">>", ";") if end in words), default=None)]
    while words and _VARIABLE.fullmatch(words[0]):
        words = words[1:]
    program = PROGRAMS.get(words[0].removeprefix(".venv/bin/")) if words else None
    return (program, *(word for word in words[1:] if word != "…")) if program else ()
