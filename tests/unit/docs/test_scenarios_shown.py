"""A scenarios file on a page can be loaded, and so can a part of one, in the place that it has; Python can be parsed.

What a page leaves out with ``...`` is not asked, nor what is marked: ``<!-- not run -->`` before a block, or ``yaml fragment``
behind its fence.
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.external import declaration
from chaos.scenario.load import load_text
from tests.unit.docs.pages import PAGES, ROOT, Block, blocks

SHORTENED = re.compile(r"(^|[\s\[{,])\.\.\.", re.MULTILINE)
KEY = re.compile(r"^([a-z_]+):", re.MULTILINE)
CODE = re.compile(r"\[([a-z-]+)\]$")
OF_A_FILE = frozenset({"system", "topics", "pipelines"})
OF_A_SCENARIO = frozenset({"expect", "faults", "matrix", "random", "workload"})
OURS = (ROOT / "scenarios.yaml").read_text(encoding="utf-8").partition("\nscenarios:")[0]
AROUND = frozenset({"filled-topic-open", "missing-key", "no-such-fault", "no-such-function", "unknown-placeholder"})
"""What a part may lack, because it is elsewhere in its file; and functions of packages that a reader installs."""
TWICE = "key-twice"
"""Several ways to write one key, one below the other."""
NO_FILE = "not-a-file"
"""The files of a reader are not here."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def is_whole(text: str) -> bool:
    return {"version", "scenarios"} <= set(KEY.findall(text))


def completed(text: str) -> str:
    """A part of a scenarios file, with what is around it; "" if it is a part of something else."""
    keys = set(KEY.findall(text))
    scenario = "scenarios: [{name: shown, title: Shown, pipeline: none}]\n"
    if text.startswith("- name:"):
        return f"{OURS}\nscenarios:\n{text}"
    if keys and keys <= OF_A_SCENARIO:
        inside = re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)
        return f"{OURS}\nscenarios:\n  - name: shown\n    title: Shown\n    pipeline: square\n{inside}"
    if keys and keys <= OF_A_FILE | {"scenarios"}:
        topics = "" if "topics" in keys else "topics: {orders: {}, enriched: {}}\n"
        return f"version: 2\n{topics}{text}{'' if 'scenarios' in keys else scenario}"
    return ""


def mistakes(block: Block) -> list[str]:
    """The errors of a block, except those for files that cannot exist."""
    if block.not_run or block.info != "yaml" or SHORTENED.search(block.text):
        return []
    whole = is_whole(block.text)
    text = block.text if whole else completed(block.text)
    allowed = {NO_FILE} if whole else {NO_FILE, TWICE, *AROUND}
    try:
        if "bootstrap" in KEY.findall(block.text):
            declaration.load_text(block.text, ROOT / "page.yaml")
        elif text:
            load_text(text, ROOT / "page.yaml")
    except ScenarioError as error:
        said = [line.partition(": ")[2] for line in str(error).splitlines()]  # its place is one in the completed text
        return [f"{block}: {line}" for line in said if allowed.isdisjoint(CODE.findall(line))]
    return []


def shown(text: str, info: str = "yaml") -> Block:
    """A block of a page that is nowhere."""
    (only,) = blocks(ROOT / "page.md", f"```{info}\n{text}```\n")
    return only


def all_blocks() -> Sequence[Block]:
    return [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_shows_of_a_scenarios_file_is_right(page: Path) -> None:
    assert [said for block in blocks(page) for said in mistakes(block)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_on_a_page_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.info == "python" and not block.not_run:
            ast.parse(block.text, str(block))


def test_the_pages_have_whole_files_and_parts() -> None:
    """A reader that finds none would be content with all."""
    asked = [one.text for one in all_blocks() if one.info == "yaml" and not one.not_run and not SHORTENED.search(one.text)]

    assert [text for text in asked if is_whole(text)]
    assert len([text for text in asked if completed(text)]) > 5


def test_a_language_has_one_name() -> None:
    """Another one would leave a block out."""
    others = {"yml", "YAML", "py", "python3", "pycon", "shell-session", "zsh"}

    assert [f"{block}: {block.info}" for block in all_blocks() if block.info.partition(" ")[0] in others] == []


WHOLE = "version: 2\ntopics: {a: {}}\nscenarios: [{name: shown, title: Shown, pipeline: none}]\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (WHOLE.replace("title", "titel"), "unknown-key"),
        (WHOLE.replace("version: 2", "version: 1"), "former-grammar"),
        ("faults:\n  - {kind: kill_brokers, target: any, when: {after: 1s}}\n", "unknown-kind"),
        ("- name: shown\n  title: Shown\n  pipeline: squares\n", "no-such-pipeline"),
        ("pipelines:\n  copy: {kind: command, reads: [orders], sink: {topic: enriched}, runs: [a]}\n", "unknown-key"),
        ("workload: {records: 1, rates: 4/s}\n", "unknown-key"),
        ("version: 1\nbootstrap: [a:9092]\nprefixes: x-\n", "unknown-key"),
    ],
)
def test_what_cannot_be_loaded_is_noticed(text: str, code: str) -> None:
    assert code in [found for said in mistakes(shown(text)) for found in CODE.findall(said)]


@pytest.mark.parametrize(
    ("text", "info"),
    [
        (WHOLE, "yaml"),
        (WHOLE.replace("title: Shown", "..."), "yaml"),
        ("faults:\n  - {kind: of_a_package}\n", "yaml fragment"),
        ("version: 1\nbootstrap: [a:9092]\nprefix: chaos-x-\n", "yaml"),
    ],
)
def test_what_is_right_shortened_or_marked_is_not_blamed(text: str, info: str) -> None:
    assert mistakes(shown(text, info)) == []
