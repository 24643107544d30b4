"""A cell of the supported versions is green only where the run was VALID, with the versions that were asked for."""

import json

import pytest

from tests.supported import Cell, checked

INSTALLED = {"python": "3.11.7", "pyspark": "4.0.1", "pytest": "8.4.2"}
RAN = {"java": "17.0.15+6", "kafka": "4.3.0", "spark": "4.0.1"}


@pytest.fixture
def run(tmp_path):
    """A run directory, as far as it is read."""

    def written(verdict="VALID", **versions):
        (tmp_path / "report.json").write_text(json.dumps({"verdict": verdict}), encoding="utf-8")
        (tmp_path / "versions.json").write_text(json.dumps(RAN | versions), encoding="utf-8")
        return tmp_path

    return written


@pytest.mark.parametrize("cell", [Cell("python3"), Cell("python3", "4.0", "8"), Cell("python3", "4.0.1", "8.4.2")])
def test_what_was_asked_for_is_green(run, cell):
    """One line has all versions."""
    said = checked(cell, INSTALLED, run())

    assert all(version in said for version in ("VALID", "3.11.7", "4.0.1", "8.4.2", "17.0.15+6", "4.3.0"))


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        (Cell("python3"), {"verdict": "UNKNOWN"}),
        (Cell("python3", pyspark="4.2"), {}),
        (Cell("python3", pyspark="4.0.10"), {}),
        (Cell("python3", pytest="9"), {}),
        (Cell("python3", pytest="8.4.20"), {}),
        (Cell("python3"), {"spark": "4.2.0"}),
    ],
    ids=[
        "no proof",
        "another PySpark",
        "its numbers begin alike",
        "another pytest",
        "they begin alike",
        "the run had another Spark",
    ],
)
def test_anything_else_is_red(run, cell, options):
    with pytest.raises(ValueError, match="wanted VALID"):
        checked(cell, INSTALLED, run(**options))


def test_a_version_is_the_first_numbers_of_one():
    """Pip takes the newest of them."""
    assert list(Cell("python3", "4.0", "8").requirements()) == ["pyspark==4.0.*", "pytest==8.*"]
    assert list(Cell("python3").requirements()) == []
