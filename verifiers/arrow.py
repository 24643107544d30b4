"""Rows of Spark as an Arrow table, and the reverse; PySpark has public functions for both from 4.0 on."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

_IS_PUBLIC = hasattr(DataFrame, "toArrow")


def table(rows: DataFrame) -> pa.Table:
    """All rows, in the memory of this process."""
    if _IS_PUBLIC:
        return rows.toArrow()
    batches = getattr(rows, "_collect_as_arrow")()  # noqa: B009 - what `toPandas` calls there; later types do not have it
    return pa.Table.from_batches(batches, to_arrow_schema(rows.schema))


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of these rows."""
    if _IS_PUBLIC:
        return spark.createDataFrame(rows)
    columns = [column.to_pylist() for column in rows.columns]
    return spark.createDataFrame(list(zip(*columns, strict=True)), from_arrow_schema(rows.schema))
