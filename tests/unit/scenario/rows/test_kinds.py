"""The contract of every kind of rows: how its rows become the file of a run, or what sends them."""

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from chaos.loader import rows_file
from chaos.loader.declaration import UserLoader
from chaos.scenario.one_of import OneOf
from chaos.scenario.rows import KINDS, Rows, RowsBase
from chaos.scenario.rows.base import Making
from chaos.scenario.rows.file import FileRows


class Letters(RowsBase):
    """Rows of single letters.

    Attributes:
        letters: one after the other.
    """

    letters: str

    def count(self) -> int | None:
        return len(self.letters)

    def make(self, making: Making) -> int:
        return making.write(({"value": letter} for letter in self.letters), " of the letters")


def making(folder: Path, wanted: int | None = None) -> Making:
    """Nothing here asks for Spark."""
    return Making(folder / rows_file.FILE, 3, 5, wanted, 7, folder, lambda: pytest.fail("Spark was asked for"))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_made_or_sent(kind: type[RowsBase]) -> None:
    """And never both, so that a run knows which of them to do."""
    overrides = [name for name in ("make", "loader") if getattr(kind, name) is not getattr(RowsBase, name)]

    assert overrides == ["loader" if kind.SENDS_ITSELF else "make"]


def test_a_kind_of_rows_gets_into_the_grammar_by_one_class(tmp_path: Path) -> None:
    """A run sends the rows of that class."""
    of_loaders = OneOf((*KINDS, Letters), "Rows", "Where rows come from", ("wrong", "rows come from one of"))
    declared = TypeAdapter(Annotated[FileRows | Letters, of_loaders]).validate_python({"letters": "abc"})

    assert declared.count() == declared.make(making(tmp_path)) == 3
    assert [row.value for row in rows_file.read(tmp_path / rows_file.FILE)] == [b"a", b"b", b"c"]
    with pytest.raises(rows_file.RowsError, match="there are 3 rows, but records: 9"):
        declared.make(making(tmp_path, wanted=9))


def test_a_row_is_named_by_its_number_and_its_file(tmp_path: Path) -> None:
    """So that it can be found there."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"value": "a"}\n{"value": 5}\n', encoding="utf-8")

    with pytest.raises(rows_file.RowsError, match=rf"^row 1 of {file}: value is a value of type int"):
        FileRows(file=str(file)).make(making(tmp_path))


def test_a_loader_of_ones_own_sends_what_the_workload_says() -> None:
    """With the programs, the seed and the ledger of the run."""
    declared = TypeAdapter(Rows).validate_python({"command": ["a"], "environment": {"B": 1}})

    found = declared.loader(20, 5.0, 7, {"java": "/java"}, "ledger.csv")

    assert found == UserLoader(("a",), 20, 5.0, 7, {"java": "/java"}, {"B": "1"}, "", "ledger.csv")
