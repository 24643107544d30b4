"""A Structured Streaming job that copies a topic into a table or another topic, a thousand records in a batch.

spark-submit … copy_table.py WAY BOOTSTRAP SOURCE SINK CHECKPOINT

WAY is a sink of Structured Streaming: ``delta`` for a table, ``kafka`` for a topic.
"""

import sys

from pyspark.sql import SparkSession

RECORDS = 1000
SINCE_1970 = "36500d"  # when Spark takes the last batch of a new query to have been; with less, the first one may have fewer


def main() -> None:
    """Run until it is ended."""
    way, bootstrap, source, sink, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("copy-table").getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    full: dict[str, str | int] = {"minOffsetsPerTrigger": RECORDS, "maxOffsetsPerTrigger": RECORDS}
    read = spark.readStream.format("kafka").options(**kafka, **full, maxTriggerDelay=SINCE_1970).load()
    rows = read.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
    into = {"path": sink} if way == "delta" else {"kafka.bootstrap.servers": bootstrap, "topic": sink}
    rows.writeStream.format(way).options(checkpointLocation=checkpoint, **into).start().awaitTermination()


if __name__ == "__main__":
    main()
