"""Convert between Spark's rows and Arrow tables; PySpark has public functions for both from 4.0 on."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
IS_PUBLIC = hasattr(DataFrame, "toArrow")
"""Whether Spark can make a frame from an Arrow table; earlier versions need a slow list of rows."""


def table(rows: DataFrame) -> pa.Table:
    """Load all rows into the memory of this process."""
    if IS_PUBLIC:
        return rows.toArrow()
    batches = getattr(rows, "_collect_as_arrow")()  # noqa: B009 - `toPandas` calls it in 3.5; later types lack it
    with _without_warnings():
        return pa.Table.from_batches(batches, to_arrow_schema(rows.schema))


def require_alive(spark: SparkSession) -> None:
    """Raise Py4J's error or ConnectionError if the JVM has ended: its unfinished stream of rows looks complete."""
    spark.conf.get("spark.app.name")


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Make a frame of these rows."""
    if IS_PUBLIC:
        return spark.createDataFrame(rows)
    columns = [column.to_pylist() for column in rows.columns]
    with _without_warnings():
        return spark.createDataFrame(list(zip(*columns, strict=True)), from_arrow_schema(rows.schema))


def made(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> DataFrame:
    """Make a frame of Python tuples; given a list of them, Spark itself would start a Python process.

    Args:
        columns: name -> SQL type, one of those in `verifiers.evidence`.
    """
    if not IS_PUBLIC:
        return spark.createDataFrame(list(rows), ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    types = (_TYPES[kind] for kind in columns.values())
    arrays = [pa.array(column, kind) for column, kind in zip(values, types, strict=True)]
    return frame(spark, pa.Table.from_arrays(arrays, names=list(columns)))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore deprecations: PySpark 3.5 uses distutils, Python 3.11 warns of it, and pytest may turn warnings into errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
