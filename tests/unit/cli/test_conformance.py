import json
from pathlib import Path

import pytest

from chaos.cli import conformance
from chaos.cli.conformance import Asked, Shard
from chaos.common.errors import RuntimeUnavailableError, ScenarioError
from tests.unit.wording import raised

SCENARIOS = """\
version: 2
topics: {orders: {}, copies: {}}
pipelines:
  one: &client
    kind: command
    reads: [orders]
    sink: {topic: copies}
    run: ["{python}"]
    group: copy
    packages: {pypi: [a==1], python: python3}
  two: {<<: *client, packages: {pypi: [a==1], python: python0.9}}
scenarios:
  - name: step
    title: "${step} (${client})"
    matrix: {step: [Produce, EndTxn, Fetch], client: [one, two]}
    pipeline: "${client}"
  - {name: other, title: Other, pipeline: one}
"""
NOT_ASKED = "step: {scaled out: {two: it has no members}}"


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """Two clients, one of which needs a Python that no machine has."""
    folder = tmp_path / "conformance"
    folder.mkdir()
    (folder / "scenarios.yaml").write_text(SCENARIOS, encoding="utf-8")
    (folder / "not_asked.yaml").write_text(NOT_ASKED, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    return Asked(folder=folder, runs=tmp_path / "runs")


@pytest.fixture
def ran(monkeypatch) -> list[list[str]]:
    """What pytest would be called with."""
    calls: list[list[str]] = []
    monkeypatch.setattr(conformance, "run_pytest", lambda words: calls.append(words) or 1)
    return calls


def names(words: list[str]) -> list[str]:
    """The scenarios among pytest's words."""
    return [word.partition("[")[2].removesuffix("]") for word in words if "::" in word]


def with_(asked: Asked, **changes) -> Asked:
    return Asked(**{**{name: getattr(asked, name) for name in Asked.__slots__}, **changes})


def test_shards_share_the_cases(asked, ran):
    """Each case is in one of them, and the clients are in all."""
    for number in (1, 2, 3):
        conformance.run(with_(asked, clients=("one",), shard=Shard(number, 3)), print)

    assert [names(words) for words in ran] == [["step-produce-one"], ["step-endtxn-one"], ["step-fetch-one"]]


def test_shards_of_unlike_machines_share_the_cases(asked, ran, monkeypatch):
    """What one machine lacks another may have: the cases of a shard are the same on both."""
    conformance.run(with_(asked, shard=Shard(1, 2)), print)
    monkeypatch.setattr(conformance, "lacking", lambda _: "")
    conformance.run(with_(asked, shard=Shard(1, 2)), print)
    conformance.run(with_(asked, shard=Shard(2, 2)), print)

    lacking, first, second = map(names, ran)
    assert sorted(first + second) == [
        f"step-{step}-{client}" for step in ("endtxn", "fetch", "produce") for client in ("one", "two")
    ]
    assert lacking == [name for name in first if name.endswith("-one")]


def test_what_cannot_run_here_is_told(asked, ran):
    """It is left out; if it is named, it is an error."""
    said: list[str] = []

    conformance.run(asked, said.append)

    assert len(names(ran[0])) == 3
    assert said[0].startswith("not run: two: python0.9")
    with raised(RuntimeUnavailableError, "two", "python0.9"):
        conformance.run(with_(asked, clients=("two",)), print)


@pytest.mark.usefixtures("ran")
def test_a_red_cell_is_a_result(asked, monkeypatch):
    """The exit code says whether the table was made, not what is in it; pytest's own errors are passed on."""
    assert conformance.run(asked, print) == 0
    assert (asked.runs / "conformance.md").read_text(encoding="utf-8").startswith("# Conformance")
    assert (asked.runs / "conformance.json").exists()

    monkeypatch.setattr(conformance, "run_pytest", lambda _: 4)
    assert conformance.run(asked, print) == 4


def test_an_earlier_table_goes_on(asked, ran, tmp_path):
    """What it has is not run again, and stays in the table; a new run takes its place."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    of_run = {"outcome": "VALID", "found": {}, "why": "", "version": "a==1", "versions": {}, "restarted": False}
    of_run |= {"runs": 1, "began_ms": None, "seed": 5, "replay": "pytest --chaos-seed 5", "story": []}
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps([{"scenario": "step-endtxn-one", **of_run}]), encoding="utf-8")

    conformance.run(with_(asked, clients=("one",), earlier=earlier), print)
    conformance.write(with_(asked, earlier=earlier), page, print)

    assert [names(words) for words in ran] == [["step-produce-one", "step-fetch-one"]]
    assert "| EndTxn | [VALID](page/one.md#endtxn) | not run |" in page.read_text(encoding="utf-8")
    assert "--chaos-seed 5" in (page.parent / "page" / "one.md").read_text(encoding="utf-8")
    assert conformance.write(with_(asked, earlier=page.with_suffix(".json")), page, print) == 0
    with raised(ScenarioError, "--earlier: ", hidden={str(tmp_path): "<folder>"}):
        conformance.write(with_(asked, earlier=tmp_path / "none.json"), page, print)


def test_an_empty_shard_runs_nothing(asked, ran):
    assert conformance.run(with_(asked, shard=Shard(9, 9)), print) == 0
    assert ran == []


def test_the_list(asked, snapshot):
    said: list[str] = []

    assert conformance.show(with_(asked, shard=Shard(1, 2)), said.append) == 0

    assert said == snapshot


def test_the_page_has_the_cases_that_are_not_asked(asked, tmp_path):
    """Of the named clients only."""
    for clients, there in ((), True), (("one",), False):
        conformance.write(with_(asked, clients=clients), tmp_path / "page.md", print)
        assert ("it has no members" in (tmp_path / "page.md").read_text(encoding="utf-8")) is there


def test_a_report_that_cannot_be_read_is_named(asked, tmp_path):
    said: list[str] = []
    (asked.runs / "run").mkdir()
    (asked.runs / "run" / "report.json").write_text("{", encoding="utf-8")

    assert conformance.write(asked, tmp_path / "page.md", said.append) == 3
    assert "report.json cannot be read" in said[0]


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "a/b", "1/2/3", "-1/2"])
def test_a_shard_that_is_none(text):
    with raised(ScenarioError, f"--shard {text}"):
        Shard.of(text)


def test_bad_input_is_told_in_one_line(asked, tmp_path):
    hidden = {str(tmp_path): "<folder>"}
    with raised(ScenarioError, "there is no client tow (did you mean two?)"):
        conformance.show(with_(asked, clients=("tow",)), print)
    with raised(ScenarioError, "has no scenarios.yaml", hidden=hidden):
        conformance.show(with_(asked, folder=tmp_path), print)
    with raised(ScenarioError, "is no folder", hidden=hidden):
        conformance.write(with_(asked, runs=tmp_path / "none"), tmp_path / "page.md", print)
    with raised(ScenarioError, "cannot be written", hidden=hidden):
        conformance.write(asked, tmp_path / "none" / "page.md", print)
    for text in ("[1]", "step: 1", "step: {a: {one: [1]}}"):
        (asked.folder / "not_asked.yaml").write_text(text, encoding="utf-8")
        with raised(ScenarioError, "write axis, word, client", hidden=hidden):
            conformance.show(asked, print)
