"""The conformance table of this repository has no cell without a question or a reason, and its page says the versions."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from chaos.cli.conformance import Asked
from chaos.report.conformance import CLIENT, Case
from chaos.scenario.model import Scenario

FOLDER = Path(__file__).parents[3] / "conformance"


@pytest.fixture(scope="module")
def declared() -> tuple[Sequence[Scenario], Sequence[Case]]:
    """The scenarios, and all cells."""
    return Asked(folder=FOLDER).cases()


@pytest.fixture(scope="module")
def clients(declared) -> Mapping[str, Scenario]:
    """Client -> one of its scenarios."""
    return {one.matrix[CLIENT]: one for one in declared[0]}


def test_every_cell_is_asked_or_has_a_reason(declared, clients) -> None:
    """A client that was forgotten in a list, or a word that was misspelt, would leave a cell empty."""
    cells = [(case.axes, case.row, case.client) for case in declared[1]]
    rows = {(axes, row) for axes, row, _ in cells}

    assert len(cells) == len(set(cells))
    assert set(cells) == {(axes, row, client) for axes, row in rows for client in clients}


def test_every_client_runs_without_a_fault(declared, clients) -> None:
    """If it is not VALID there, its other cells mean nothing."""
    unbroken = {one.matrix[CLIENT] for one in declared[0] if not one.faults}

    assert unbroken == clients.keys()


def test_the_page_has_each_client_in_its_version(clients) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page, re.MULTILINE))
    packages = {name: one.pipeline.required_packages for name, one in clients.items()}
    versions = {name: re.split(r"[:=@v]", own.packages[0])[-1] for name, own in packages.items() if own}

    assert clients.keys() <= rows.keys()
    assert {name: version for name, version in versions.items() if version not in rows[name]} == {}


def test_the_page_has_the_number_of_cases(declared) -> None:
    assert f"There are {len(declared[0])} cases" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_page_has_every_error_and_every_question(declared) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = {word for one in declared[0] for word in one.matrix.get("error", "").split()}

    assert {word for word in named if f"`{word}`" not in page} == set()
