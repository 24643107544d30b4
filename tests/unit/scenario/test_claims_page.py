"""Every number of docs/claims.md is what the scenario beside it declares, so a run that passes has found it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.scenario.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|.*\| `([a-z0-9-]+)` \| (.+?) \|$", PAGE, re.MULTILINE)
MOST_WORDS = 1500


@pytest.fixture(scope="module")
def declared() -> Mapping[str, Any]:
    """Scenario -> what it expects, of all files of this repository."""
    examples = [path for path in sorted(ROOT.glob("examples/**/scenarios.yaml")) if "node_modules" not in path.parts]
    files = [load(path) for path in (ROOT / "scenarios.yaml", *examples)]
    return {scenario.name: scenario.expect for file in files for scenario in file.scenarios}


def in_words(expected: Any) -> str:
    """`duplicate 100, inversion 99`, or `valid`."""
    if isinstance(expected, str):
        return expected
    return ", ".join(f"{name} {count}" for counts in expected.values() for name, count in counts.items())


def test_every_row_of_the_page_is_read() -> None:
    """A row that is written in another way would not be compared."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| claim", "|---"))]

    assert len(ROWS) == len(rows) > 0


@pytest.mark.parametrize(("name", "found"), ROWS, ids=[name for name, _ in ROWS])
def test_a_number_of_the_page_is_what_its_scenario_declares(declared: Mapping[str, Any], name: str, found: str) -> None:
    assert name in declared
    assert in_words(declared[name]) == found


def test_the_page_is_short_enough_to_be_read() -> None:
    assert len(PAGE.split()) <= MOST_WORDS


def test_every_link_of_the_page_is_defined_and_used() -> None:
    used = set(re.findall(r"\]\[([a-z0-9]+)\]", PAGE))

    assert used == set(re.findall(r"^\[([a-z0-9]+)\]: https://", PAGE, re.MULTILINE))
