"""Running totals on Spark: a Structured Streaming query with state.

spark-submit … totals_job.py BOOTSTRAP ORDERS TOTALS CHECKPOINT [in-memory | once]

The totals are in Spark's state store, which is a part of the checkpoint, and each batch writes those that it has changed. With
``in-memory`` they are in a dictionary of the driver instead, and only the positions are in the checkpoint. With ``once`` an
order that comes again counts once: the numbers of the orders that have come are in the state store, too.
"""

import sys
from collections import Counter

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

AT_ONCE = 1500


def main() -> None:
    """Run until it is ended."""
    bootstrap, source, totals, checkpoint, *how = sys.argv[1:]
    spark = SparkSession.builder.appName("totals").config("spark.sql.shuffle.partitions", 3).getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    full: dict[str, str | int] = {"minOffsetsPerTrigger": AT_ONCE, "maxOffsetsPerTrigger": AT_ONCE, "maxTriggerDelay": "15s"}
    read = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest", **full).load()
    value = F.col("value").cast("string")
    numbers = [F.get_json_object(value, f"$.{name}").cast("bigint").alias(name) for name in ("order", "amount")]
    sums = read.select(F.col("key").cast("string").alias("customer"), *numbers)
    if how == ["once"]:
        sums = sums.dropDuplicates(["customer", "order"])
    if how == ["in-memory"]:
        writer = sums.writeStream.foreachBatch(InMemory(kafka, totals))
    else:
        changed = as_rows(sums.groupBy("customer").agg(F.sum("amount").alias("total")))
        together = {"kafka.linger.ms": 20}  # so that a task writes its totals in one request
        writer = changed.writeStream.outputMode("update").format("kafka").options(**kafka, **together, topic=totals)
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        spark.stop()
        sys.exit(str(error).splitlines()[0])  # without the plan of the query, so that its last line says why it has ended


def as_rows(totals: DataFrame) -> DataFrame:
    return totals.select(F.col("customer").alias("key"), F.to_json(F.struct("total")).alias("value"))


class InMemory:
    """Totals in memory, which last as long as this driver."""

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
