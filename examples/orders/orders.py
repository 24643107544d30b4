"""A Structured Streaming job as it may stand in any repository: it keeps large orders, and adds the region of the customer.

spark-submit … orders.py DELIVERY BOOTSTRAP SOURCE SINK GROUP CHECKPOINT

``exactly_once``   each batch is one transaction of Kafka, written by the driver, with the positions of the batch in the group:
                   after a restart, rows of records that the group's positions are past are left out
``at_least_once``  Spark's own Kafka sink, whose tasks write again when they are run again
"""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

SMALLEST = 100
ORDER = "order BIGINT, amount BIGINT"
WITHIN_S = 30.0


def main() -> None:
    """Run until it is ended."""
    delivery, bootstrap, source, sink, group, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", 3).getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap}
    read = spark.readStream.format("kafka").options(**kafka).option("subscribe", source)
    records = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 3000).load()
    if delivery == "exactly_once":
        writer = records.writeStream.foreachBatch(lambda batch, _number: write(batch, bootstrap, sink, group))
    else:
        kept = enriched(records).select("partition", "key", "value")
        writer = kept.writeStream.format("kafka").options(**kafka).option("topic", sink)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def enriched(records: DataFrame) -> DataFrame:
    """The large orders, with the regions of their customers."""
    customers = records.sparkSession.range(97).select(
        F.concat(F.lit("customer-"), "id").alias("customer"),
        F.element_at(F.array(F.lit("north"), F.lit("south"), F.lit("west")), (F.col("id") % 3 + 1).cast("int")).alias("region"),
    )
    orders = records.withColumn("o", F.from_json(F.col("value").cast("string"), ORDER)).where(F.col("o.amount") >= SMALLEST)
    joined = orders.join(F.broadcast(customers), F.col("key").cast("string") == F.col("customer"))
    value = F.to_json(F.struct("o.order", "o.amount", "region"))
    return joined.select("topic", "partition", "offset", "key", value.alias("value"))


def write(batch: DataFrame, bootstrap: str, sink: str, group: str) -> None:
    """Write a batch and commit its positions, in one transaction; what an earlier attempt has committed is left out."""
    kafka = {"bootstrap.servers": bootstrap}
    rows = enriched(batch).orderBy("partition", "offset").collect()
    ends = batch.groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect()
    producer = Producer({**kafka, "transactional.id": group, "transaction.timeout.ms": 20000})
    producer.init_transactions(WITHIN_S)  # what an earlier driver left open is aborted
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False})
    try:
        asked = [TopicPartition(end["topic"], end["partition"]) for end in ends]
        done = {place.partition: place.offset for place in consumer.committed(asked, timeout=WITHIN_S)}
        producer.begin_transaction()
        for row in rows:
            if row["offset"] >= done[row["partition"]]:
                producer.produce(sink, row["value"], bytes(row["key"]), row["partition"])  # a bytearray until Spark 4.1
        positions = [TopicPartition(end["topic"], end["partition"], end["last"] + 1) for end in ends]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WITHIN_S)
        producer.commit_transaction(WITHIN_S)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
