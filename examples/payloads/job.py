"""A Structured Streaming job as it may stand in any repository: orders in Avro come in, large ones go out with their region.

spark-submit … job.py BOOTSTRAP SOURCE SINK CHECKPOINT

It needs the package spark-avro, and writes by Spark's own Kafka sink.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it
from pyspark.sql.avro.functions import from_avro, to_avro

SMALLEST = 100


def main() -> None:
    """Run until it is ended."""
    bootstrap, source, sink, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("payloads").getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    read = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest")
    records = read.option("maxOffsetsPerTrigger", 3000).load()
    order = from_avro("value", schema("order.avsc"))
    large = records.withColumn("o", order).where(F.col("o.amount") >= SMALLEST)
    number = F.substring(F.col("key").cast("string"), 10, 9).cast("int")
    region = F.element_at(F.array(F.lit("north"), F.lit("south"), F.lit("west")), number % 3 + 1)
    row = F.struct("o.order", "o.amount", region.alias("region"))
    written = large.select("partition", "key", to_avro(row, schema("large.avsc")).alias("value"))
    writer = written.writeStream.format("kafka").options(**kafka, topic=sink)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def schema(name: str) -> str:
    """A schema that stands beside this file."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
