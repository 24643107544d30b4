"""Rows of a query: ``{sql: SELECT …}``. The judge's Spark computes them."""

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import ClassVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chaos.common.errors import one_line
from chaos.loader import sources
from chaos.loader.rows_file import RowsError
from chaos.scenario.rows.base import Making, RowsBase
from chaos.scenario.texts import Written


class SqlRows(RowsBase):
    """Rows of a query."""

    KNOWS_COUNT: ClassVar[bool] = False

    sql: Written
    """a query over ``ids``, whose column ``id`` counts from 0 to ``records`` - 1; the judge's Spark computes it."""

    def make(self, making: Making) -> int:
        scratch = making.folder / "rows-of-sql"
        try:
            compute(making.spark(), self.sql, making.records, scratch)
            parts = sorted(scratch.glob("*.parquet"))
            return making.write(row for part in parts for row in sources.of_file(part))
        finally:
            rmtree(scratch, ignore_errors=True)


def compute(spark: SparkSession, sql: str, records: int, folder: Path) -> None:
    """Write the rows that a query makes of ``ids``.

    Raises:
        RowsError: Spark cannot read or compute the query, or its columns do not make rows.
    """
    session = spark.newSession()  # so that no other query sees the view
    session.range(0, records, 1, 1).createOrReplaceTempView("ids")
    try:
        found = session.sql(sql)
        wrong = sources.wrong_columns(_schema(found.dtypes))
        if wrong:
            raise RowsError(f"the query {wrong}")
        found.write.parquet(str(folder))
    except PySparkException as error:
        raise RowsError(one_line(str(error).strip().splitlines()[0], 300)) from error
    except Py4JJavaError as error:
        raise RowsError(one_line(str(error.java_exception.getMessage()), 300)) from error


def _schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Convert Spark's columns for `sources.wrong_columns`; an error names other types as Spark does."""
    known = {"string": pa.string(), "binary": pa.binary(), "void": pa.null()}
    fields = [(name, known.get(kind)) for name, kind in columns]
    for (name, kind), (_, found) in zip(columns, fields, strict=True):
        if found is None and name in {"key", "value"}:
            raise RowsError(f"the query has a {name} of type {kind}; write CAST({name} AS STRING), or return binary")
    return pa.schema([(name, found or pa.null()) for name, found in fields])
