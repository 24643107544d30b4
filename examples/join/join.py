"""A Structured Streaming job as it may stand in any repository: it joins the orders of customers with what is known of these.

spark-submit … join.py WAY BOOTSTRAP ORDERS CUSTOMERS SINK CHECKPOINT

``parquet``  into a folder, by Spark's file sink: a batch is noted with its number, and is there once
``kafka``    into a topic, by Spark's own Kafka sink, whose tasks write again when they are run again

Both topics are streams, so either may come first: an order waits in the state of the query for its customer, and a customer for
orders. Nothing is forgotten, as there is no watermark.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

ORDER = "order BIGINT, amount BIGINT"
CUSTOMER = "region STRING"


def main() -> None:
    """Run until it is ended."""
    way, bootstrap, orders, customers, sink, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.appName("join").config("spark.sql.shuffle.partitions", 3).getOrCreate()
    joined = enriched(stream(spark, bootstrap, orders), stream(spark, bootstrap, customers))
    if way == "parquet":
        writer = joined.writeStream.format("parquet").option("path", sink)
    else:
        row = joined.select(F.col("customer").alias("key"), F.to_json(F.struct("order", "amount", "region")).alias("value"))
        writer = row.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", sink)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def stream(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Keys and values of a topic, from its begin on."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    read = records.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 3000).load()
    return read.select(F.col("key").cast("string").alias("customer"), F.col("value").cast("string").alias("value"))


def enriched(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Each order with the region of its customer."""
    known = customers.select("customer", F.from_json("value", CUSTOMER).alias("c"))
    return (
        orders.withColumn("o", F.from_json("value", ORDER))
        .join(known, "customer")
        .select("customer", "o.order", "o.amount", "c.region")
    )


if __name__ == "__main__":
    main()
