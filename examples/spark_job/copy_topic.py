"""A Structured Streaming job as it may stand in any repository: it copies a topic, and knows nothing of a test.

spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 copy_topic.py BOOTSTRAP SOURCE SINK CHECKPOINT
"""

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Copy until it is ended."""
    bootstrap, source, sink, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("copy-topic").getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    read = spark.readStream.format("kafka").options(**kafka).option("subscribe", source)
    records = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4000).load()
    written = records.select("partition", "key", "value").writeStream.format("kafka").options(**kafka).option("topic", sink)
    written.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
