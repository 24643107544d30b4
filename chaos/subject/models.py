"""What a pipeline must have written, as a pure function of what its source holds."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

MODELS: Mapping[str, str] = {  # name -> the value of a row, as SQL over a record of the source
    "identity": "value",
    "square": "CAST(CAST(value AS DECIMAL(38, 0)) * CAST(value AS DECIMAL(38, 0)) AS STRING)",
}


def expected(source: DataFrame, model: str) -> DataFrame:
    """Each id once, with the value of the model, in the partition of its first record; that record demands the row.

    Columns are those of `chaos.subject.base.Pipeline.expected`.
    """
    rows = source.selectExpr("CAST(key AS BIGINT) AS id", "partition", "offset", f"{MODELS[model]} AS value")
    firsts = rows.groupBy("id").agg(expr("min_by(struct(partition, value, offset), struct(partition, offset)) AS first"))
    return firsts.selectExpr("id", "first.partition", "first.value", "true AS required", "first.offset AS position")
