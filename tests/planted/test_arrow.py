"""Rows between Spark and Arrow, by what PySpark has from 4.0 on, and by what earlier ones have: the same rows and types."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from verifiers import arrow

COLUMNS = {"partition": "int", "offset": "bigint", "key": "string", "required": "boolean"}
SCHEMA = pa.schema(list(zip(COLUMNS, (pa.int32(), pa.int64(), pa.string(), pa.bool_()), strict=True)))
ROWS = [(0, 7, "a", True), (1, 2**40, None, False)]


@pytest.fixture(params=[True, False])
def _by_either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(arrow, "IS_PUBLIC", False)


@pytest.mark.usefixtures("_by_either")
@pytest.mark.parametrize("rows", [ROWS, []])
def test_rows_that_this_process_has(spark: SparkSession, rows: list[tuple[int, int, str | None, bool]]) -> None:
    """As a frame, and what is in it as a table."""
    made = arrow.made(spark, rows, COLUMNS)

    assert dict(made.dtypes) == COLUMNS
    assert [tuple(row) for row in made.collect()] == rows
    found = arrow.table(made)
    assert found.schema.types == SCHEMA.types
    assert found.to_pylist() == [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@pytest.mark.usefixtures("_by_either")
@pytest.mark.parametrize("rows", [ROWS, []])
def test_a_table(spark: SparkSession, rows: list[tuple[int, int, str | None, bool]]) -> None:
    """As a frame."""
    frame = arrow.frame(spark, pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA))

    assert dict(frame.dtypes) == COLUMNS
    assert [tuple(row) for row in frame.collect()] == rows
