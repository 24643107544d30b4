import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaos.common.errors import ScenarioError
from chaos.grammar.yaml_source import copied, parse, place_of
from chaos.scenario.load import load_text
from tests.unit.scenario.declared import HEAD, errors_in, errors_of, loaded, read
from tests.unit.wording import mistakes_in

LINE = re.compile(r"scenarios\.yaml:[1-9][0-9]*:[1-9][0-9]*: \S.* \[[a-z0-9-]+\]")
FULL = HEAD + (
    "    workload: {records: 100, rate: 50/s}\n"
    '    faults: [{kind: cut_link, link: "spark->broker-1", for: 1s, when: {progress: 5%}}]\n'
    "    expect: {gaps: invalid}\n"
)


def answer(text: str) -> list[str]:
    """The message for a text; empty if it is right."""
    try:
        loaded(text)
    except ScenarioError as error:
        return str(error).split("\n")
    return []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("title: B", ("6:5", "key-twice")),
        ("tags: [a", ("6:11", "not-yaml")),
        ("\ttags: [a]", ("6:1", "not-yaml")),
        ("tags: *b", ("6:11", "not-yaml")),
        ("tags: [\x01]", ("6:12", "bad-character")),
        ("? [a]", ("6:7", "not-yaml")),
        ("? {a: {b: c}}", ("6:7", "not-yaml")),
        ("workload: {records: !!int x}", ("6:25", "not-yaml")),
    ],
)
def test_a_mistake_in_yaml_itself(line: str, error: tuple[str, str]) -> None:
    """YAML stops at its first mistake: one line, at the place where something can be mended."""
    text = HEAD + (line if line.startswith("\t") else f"    {line}") + "\n"

    with pytest.raises(ScenarioError) as caught:
        load_text(text, Path("scenarios.yaml"))
    assert mistakes_in(caught.value) == [error]


def test_two_documents_in_one_file() -> None:
    """Only one is wanted; the second is not silently left out."""
    assert errors_of(f"{HEAD}---\n{HEAD}") == [("6:1", "not-yaml")]


def test_a_file_that_is_nested_without_end() -> None:
    """It is refused in one line."""
    assert errors_of("[" * 5000) == [("1:1", "nested-too-deeply")]


def test_a_title_that_looks_like_a_date_is_a_text() -> None:
    """YAML would make a date of it, or stumble over the thirteenth month."""
    assert errors_of(HEAD.replace("title: A", "titel: 2026-13-45"))[1:] == [("4:5", "unknown-key")]
    assert loaded(HEAD.replace("title: A", "title: 2026-13-45")).scenarios[0].title == "2026-13-45"


def test_anchors_and_merges_are_followed_to_where_the_value_stands() -> None:
    """Scenarios may share a part that is written once; a mistake in it is shown where it was written."""
    shared = read("workload: &w {records: 50}", "tags: [&t a, &t b]").scenarios[0]
    text = HEAD + "    workload: &w {records: 0}\n  - {<<: {title: T}, name: b, pipeline: none, workload: *w}\n"

    assert (shared.workload.records, shared.tags) == (50, ("a", "b"))
    assert errors_of(text)[0] == ("6:28", "too-small")
    assert errors_of(HEAD + "  - <<: {titel: T, workload: {records: 0}}\n    name: b\n    pipeline: none\n") == [
        ("6:5", "missing-key"),
        ("6:10", "unknown-key"),
        ("6:40", "too-small"),
    ]


def test_a_copy_has_the_places_and_nothing_in_common() -> None:
    """Also of what was merged, and of an alias, which is one value in the copy too."""
    text = "a: &a\n  x: 1\nb:\n  <<: *a\n  y: [2, {z: 3}]\nc: *a\nd:\n"
    tree = parse(text)
    whole = copied(tree)
    places = [("a", "x"), ("b", "x"), ("b", "y", 0), ("b", "y", 1, "z"), ("c", "x"), ("d",)]

    assert whole == tree
    assert [place_of(whole, place) for place in places] == [place_of(tree, place) for place in places]
    assert whole["c"] is whole["a"]
    whole["b"]["y"][1]["z"] = whole["b"]["y"].lc.data[0] = 9
    assert tree == parse(text)
    assert tree["b"]["y"].lc.data[0] != 9


def test_a_key_without_value_is_shown_at_the_key() -> None:
    """The value that is missing has no place of its own."""
    assert errors_in("tags:", "workload: {records: 9}") == [("6:5", "not-a-list")]


@given(
    place=st.integers(0, len(FULL)), removed=st.integers(0, 12), put=st.text("{}[]:,-&*!|>'\"%@#<~ \n\t\x00é12ae", max_size=4)
)
@example(place=0, removed=len(FULL), put="? [a]\n: b")
@example(place=FULL.index("A"), removed=1, put="!x A")
@example(place=FULL.index("100"), removed=3, put="9" * 5000)
@example(place=FULL.index("title"), removed=0, put="~: 1\n    ")
@example(place=FULL.index("/"), removed=0, put="\n\n")
@example(place=FULL.index("/"), removed=0, put="9" * 5000)
def test_no_text_gets_more_than_an_answer_in_lines(place: int, removed: int, put: str) -> None:
    """A file is right, or every line of the answer has a place and a sentence; there is no traceback."""
    text = FULL[:place] + put + FULL[place + removed :]

    assert [line for line in answer(text) if not LINE.fullmatch(line)] == []
