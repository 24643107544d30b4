"""A Structured Streaming job that reads a source of its own, a queue, and copies it to a topic.

spark-submit queue_job.py BOOTSTRAP SOURCE SINK GROUP CHECKPOINT --hands-out=again|once

A batch of the job is a hundred records. When it has to be done again, `again` answers with the same records. `once` is a group
whose position is past a record as soon as it was handed out, as queues, sockets and webhooks do it: it has nothing to answer.
"""

import argparse

from pyspark.sql import SparkSession
from queue_source import Queue


def main() -> None:
    """Copy until it is ended."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "sink", "group", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--hands-out", choices=["again", "once"], required=True)
    options = parser.parse_args()
    spark = SparkSession.builder.appName("queue-job").getOrCreate()
    spark.dataSource.register(Queue)
    of_queue = {"topic": options.source, "group": options.group, "hands_out": options.hands_out}
    records = spark.readStream.format("queue").options(bootstrap=options.bootstrap, **of_queue).load()
    written = (
        records.writeStream.format("kafka").option("kafka.bootstrap.servers", options.bootstrap).option("topic", options.sink)
    )
    written.option("checkpointLocation", options.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
