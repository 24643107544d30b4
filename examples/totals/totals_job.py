"""The same on Spark, as it may stand in any repository: a Structured Streaming query with state.

spark-submit … totals_job.py BOOTSTRAP ORDERS TOTALS CHECKPOINT [in-memory]

The totals are in Spark's state store, which is a part of the checkpoint, and each batch writes those that it has changed. With
``in-memory`` they are in a dictionary of the driver instead, and only the positions are in the checkpoint.
"""

import sys
from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

AT_ONCE = 1500


def main() -> None:
    """Run until it is ended."""
    bootstrap, source, totals, checkpoint, *how = sys.argv[1:]
    spark = SparkSession.builder.appName("totals").config("spark.sql.shuffle.partitions", 3).getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    full = {"minOffsetsPerTrigger": AT_ONCE, "maxOffsetsPerTrigger": AT_ONCE, "maxTriggerDelay": "15s"}
    read = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest", **full).load()
    amount = F.get_json_object(F.col("value").cast("string"), "$.amount").cast("bigint")
    sums = read.select(F.col("key").cast("string").alias("customer"), amount.alias("amount"))
    if how == ["in-memory"]:
        writer = sums.writeStream.foreachBatch(InMemory(kafka, totals))
    else:
        changed = as_rows(sums.groupBy("customer").agg(F.sum("amount").alias("total")))
        together = {"kafka.linger.ms": 20}  # so that a task writes its totals in one request
        writer = changed.writeStream.outputMode("update").format("kafka").options(**kafka, **together, topic=totals)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def as_rows(totals: DataFrame) -> DataFrame:
    return totals.select(F.col("customer").alias("key"), F.to_json(F.struct("total")).alias("value"))


class InMemory:
    """What a batch is added to, as long as this driver lives."""

    def __init__(self, kafka: dict[str, str], topic: str) -> None:
        """All totals are zero."""
        self.kafka, self.topic = kafka, topic
        self.totals: Counter[str] = Counter()

    def __call__(self, batch: DataFrame, _number: int) -> None:
        """Add the batch, and write the totals that it has changed."""
        of_batch = batch.groupBy("customer").agg(F.sum("amount").alias("total")).collect()
        sums = {row["customer"]: row["total"] for row in of_batch}
        self.totals.update(sums)
        changed = [(customer, self.totals[customer]) for customer in sums]
        rows = as_rows(batch.sparkSession.createDataFrame(changed, "customer string, total bigint"))
        rows.write.format("kafka").options(**self.kafka, topic=self.topic).save()


if __name__ == "__main__":
    main()
