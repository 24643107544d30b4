"""A Structured Streaming job that copies a topic into another, as the guide of Spark's Kafka source has it.

spark-submit … copy_topic.py BOOTSTRAP SOURCE SINK CHECKPOINT
"""

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Run until it is ended."""
    bootstrap, source, sink, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("copy-topic").getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    read = spark.readStream.format("kafka").options(subscribe=source, startingOffsets="earliest", **kafka).load()
    rows = read.selectExpr("key", "value")
    written = rows.writeStream.format("kafka").options(topic=sink, checkpointLocation=checkpoint, **kafka)
    written.trigger(processingTime="500 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main()
