"""A folder of JSON lines, as a file sink of Spark's leaves it; it runs in the Spark of the job that wrote it."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession


def json_lines(spark: SparkSession, places: Mapping[str, str], columns: str, where: str = "true") -> DataFrame:
    """Read the rows of the run's folder ``large`` that satisfy this condition."""
    return spark.read.schema(columns).json(f"{places['folder']}/large").where(where)
