"""Rows of Spark as an Arrow table, and the reverse; PySpark has public functions for both from 4.0 on."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
IS_PUBLIC = hasattr(DataFrame, "toArrow")
"""Whether Spark makes a frame of an Arrow table; earlier ones make a list of rows of it, which takes long."""


def table(rows: DataFrame) -> pa.Table:
    """All rows, in the memory of this process."""
    if IS_PUBLIC:
        return rows.toArrow()
    batches = getattr(rows, "_collect_as_arrow")()  # noqa: B009 - what `toPandas` calls there; later types do not have it
    with _without_warnings():
        return pa.Table.from_batches(batches, to_arrow_schema(rows.schema))


def require_alive(spark: SparkSession) -> None:
    """Raise an error of Py4J's, or ConnectionError, where the JVM has ended: rows that it was sending then look like all."""
    spark.conf.get("spark.app.name")


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of these rows."""
    if IS_PUBLIC:
        return spark.createDataFrame(rows)
    columns = [column.to_pylist() for column in rows.columns]
    with _without_warnings():
        return spark.createDataFrame(list(zip(*columns, strict=True)), from_arrow_schema(rows.schema))


def made(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> DataFrame:
    """A frame of rows that this process has; with a list of tuples, Spark would start a process of Python for them.

    Args:
        columns: name -> type, as SQL writes it; the types are those of `verifiers.evidence`.
    """
    if not IS_PUBLIC:
        return spark.createDataFrame(list(rows), ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    types = (_TYPES[kind] for kind in columns.values())
    arrays = [pa.array(column, kind) for column, kind in zip(values, types, strict=True)]
    return frame(spark, pa.Table.from_arrays(arrays, names=list(columns)))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """PySpark 3.5 uses distutils, which Python 3.11 warns of, and a repository may make errors of warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
