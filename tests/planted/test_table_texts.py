"""Rows of a table as JSON: rows that are unlike are never alike, whatever years and bytes they have; all columns are read."""

import json
from itertools import combinations

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.contract import read_table

YEARS = [
    "DATE'-0001-06-01'",
    "DATE'0000-06-01'",
    "DATE'0001-06-01'",
    "DATE'0002-06-01'",
    "DATE'12026-06-01'",
    "DATE'2026-06-01'",
]
TEXTS = ["X'FF'", "X'FE'", "X'FFFE'", "X'C328'", "'\ufffd'", "''", "'a'", "'\ufffd\ufffd'"]


def shown(spark, rows):
    """The JSON of rows, each as SQL."""
    frame = spark.sql(" UNION ALL ".join(f"SELECT {row} AS c" for row in rows))
    return [row[0] for row in frame.select(read_table.as_json(frame.dtypes)).collect()]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_years_before_1(spark, kind):
    """The year is that of the calendar, and not of its era."""
    found = shown(spark, [f"CAST({year} AS {kind})" for year in YEARS])

    assert len(set(found)) == len(YEARS)
    assert '"-0001-06-01' in found[0]
    assert '"2026-06-01' in found[-1]


@pytest.mark.parametrize(
    "form", ["{}", "array({}, 'b')", "named_struct('t', {})", "map('k', {})", "map({}, 'v')", "array(map('k', {}))"]
)
def test_bytes_that_are_not_utf8(spark, form):
    """However deep they are; of other texts the JSON is what it was."""
    rows = [form.format(f"CAST({text} AS STRING)") for text in TEXTS]

    found, again = shown(spark, rows), shown(spark, rows)

    assert found == again
    assert all(one != other for one, other in combinations(found, 2))
    assert " bytes " not in found[5] + found[6]


def test_files_of_a_table_with_other_columns(spark, tmp_path):
    """A column that only the later file has is one of the table, whichever file Spark reads first."""
    place = str(tmp_path / "table")
    spark.range(3).select(F.col("id").cast("string").alias("a")).coalesce(1).write.parquet(place)
    spark.range(2).selectExpr("CAST(id AS STRING) AS a", "'x' AS b").coalesce(1).write.mode("append").parquet(place)
    spec = {"format": "parquet", "place": place, "options": {}, "identity": ""}

    about = read_table._landed(spark, spec, tmp_path / "rows")

    rows = [json.loads(row["value"]) for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert [name for name, _ in about["columns"]] == ["a", "b"]
    assert sorted(row["b"] or "" for row in rows) == ["", "", "", "x", "x"]
