"""The orders job as it may stand in any repository: it keeps large orders, adds the region of the customer, and fills a table.

spark-submit … orders.py WAY BOOTSTRAP SOURCE TABLE CHECKPOINT [URL]

``parquet``, ``delta``, ``iceberg``  Structured Streaming's own sinks, ``json`` too: a batch is noted with its number
``delta_append``, ``parquet_append`` foreachBatch, and each batch is appended: a batch that is done again is there twice
``delta_once``                       the same with the number of the batch (txnAppId, txnVersion): Delta leaves it out then
``postgres_append``                  foreachBatch, and each batch is appended by Spark's JDBC writer
``postgres_rows``                    the same row by row: each is committed for itself, and stays when its task dies
``postgres_upsert``                  the same into a second table, from which new places of the source go to the first
``postgres_by_customer``             the same, but what is new is told by batch and customer: a batch has one order of each
"""

import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

SMALLEST = 100
ORDER = "order BIGINT, amount BIGINT"
AT_ONCE = 3000
SINCE_1970 = "36500d"  # when Spark takes the last batch of a new query to have been; with less, the first one may have fewer
COLUMNS = ("customer", "order", "amount", "region")
OF_TABLE = {"customer": "text", "order": "bigint", "amount": "bigint", "region": "text"}


def main() -> None:
    """Run until it is ended."""
    way, bootstrap, source, table, checkpoint, *url = sys.argv[1:]
    spark = SparkSession.builder.appName("orders").config("spark.sql.shuffle.partitions", 3).getOrCreate()
    kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    kafka["kafka.max.partition.fetch.bytes"] = "8192"  # a task needs several answers, one after the other
    full: dict[str, str | int] = {"minOffsetsPerTrigger": AT_ONCE, "maxOffsetsPerTrigger": AT_ONCE}
    full["maxTriggerDelay"] = SINCE_1970 if way == "postgres_by_customer" else "15s"  # what it loses is counted by batches
    orders = enriched(spark.readStream.format("kafka").options(**kafka, **full).load())
    if way in BY_BATCH:
        writer = orders.writeStream.foreachBatch(lambda batch, number: BY_BATCH[way](batch, number, table, *url))
    else:
        writer = orders.select(*COLUMNS).writeStream.format(way)
    writer = writer.option("checkpointLocation", checkpoint)
    if way == "iceberg":
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {table} (customer string, `order` long, amount long, region string) USING iceberg"
        )
        writer.toTable(table).awaitTermination()
    if way in {"parquet", "json", "delta"}:
        writer = writer.option("path", table)
    writer.start().awaitTermination()


def enriched(records: DataFrame) -> DataFrame:
    """The large orders, with the regions of their customers, and their places in the source."""
    customers = records.sparkSession.range(97).select(
        F.concat(F.lit("customer-"), "id").alias("customer"),
        F.element_at(F.array(F.lit("north"), F.lit("south"), F.lit("west")), (F.col("id") % 3 + 1).cast("int")).alias("region"),
    )
    orders = records.withColumn("o", F.from_json(F.col("value").cast("string"), ORDER)).where(F.col("o.amount") >= SMALLEST)
    return orders.join(F.broadcast(customers), F.col("key").cast("string") == F.col("customer")).select(
        F.col("partition").alias("source_partition"),
        F.col("offset").alias("source_offset"),
        *("customer", "o.order", "o.amount", "region"),
    )


def append(batch: DataFrame, _number: int, table: str) -> None:
    """As many do it."""
    batch.select(*COLUMNS).write.format("delta").mode("append").save(table)


def append_files(batch: DataFrame, _number: int, table: str) -> None:
    """Append each batch as files of Parquet."""
    batch.select(*COLUMNS).write.mode("append").parquet(table)


def append_once(batch: DataFrame, number: int, table: str) -> None:
    """The table remembers the last batch of this job, in the same commit as its rows."""
    once: dict[str, str | int] = {"txnAppId": "orders", "txnVersion": number}
    batch.select(*COLUMNS).write.format("delta").options(**once).mode("append").save(table)


def insert(batch: DataFrame, _number: int, table: str, url: str) -> None:
    """Each task inserts its rows in a transaction of its own."""
    _written(batch.select(*COLUMNS), table, url, "append")


def insert_rows(batch: DataFrame, _number: int, table: str, url: str) -> None:
    """No task has a transaction: what it had inserted when it died is there."""
    _written(batch.select(*COLUMNS), table, url, "append", isolationLevel="NONE", batchsize="1")


def upsert(batch: DataFrame, _number: int, table: str, url: str) -> None:
    """A place of the source that the table has already is left out."""
    key = {"source_partition": "int", "source_offset": "bigint"}
    _added(batch.select(*key, *COLUMNS), table, url, key)


def upsert_by_customer(batch: DataFrame, number: int, table: str, url: str) -> None:
    """As if a customer ordered once at most in a batch."""
    rows = batch.select(F.lit(number).cast("bigint").alias("batch"), *COLUMNS)
    _added(rows, table, url, {"batch": "bigint", "customer": "text"})


def _added(rows: DataFrame, table: str, url: str, key: dict[str, str]) -> None:
    """Write a second table, and add to the first what has a new key, in one statement.

    Args:
        key: its columns and their types.
    """
    of_batch = '"batch of orders"'
    _written(rows, of_batch, url, "overwrite")
    jvm = rows.sparkSession.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    connection = jvm.org.postgresql.Driver().connect(url, jvm.java.util.Properties())
    try:
        unique = ", ".join(key)
        columns = ", ".join(f'"{name}" {kind}' for name, kind in {**key, **OF_TABLE}.items())
        names = ", ".join(f'"{name}"' for name in {**key, **OF_TABLE})
        statement = connection.createStatement()
        statement.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY ({unique}))")
        statement.execute(f"INSERT INTO {table} SELECT {names} FROM {of_batch} ON CONFLICT ({unique}) DO NOTHING")  # noqa: S608
    finally:
        connection.close()


def _written(rows: DataFrame, table: str, url: str, mode: str, **how: str) -> None:
    options = {"url": url, "dbtable": table, "driver": "org.postgresql.Driver", **how}
    rows.write.format("jdbc").options(**options).mode(mode).save()


BY_BATCH: dict[str, Callable[..., None]] = {
    "delta_append": append,
    "delta_once": append_once,
    "parquet_append": append_files,
    "postgres_append": insert,
    "postgres_rows": insert_rows,
    "postgres_upsert": upsert,
    "postgres_by_customer": upsert_by_customer,
}


if __name__ == "__main__":
    main()
