"""Doubles: records of the source that demand the same row as an earlier one.

A producer without idempotence makes them when it sends a batch again. A sink that answers each record has equal rows, too, and
they are right.
"""

from pyspark.sql import DataFrame


def count(wanted: DataFrame) -> int:
    """Count the records that equal an earlier one in key and value.

    Equal ones are found by hashes of 96 bits: of 10^9 different records, two are taken for equal in one of 10^11 audits.

    Args:
        wanted: key and value of demanded records.
    """
    prints = wanted.where("key IS NOT NULL").selectExpr("xxhash64(key, value) AS long", "hash(key, value) AS short")
    found = prints.groupBy("long", "short").count().where("count > 1").selectExpr("coalesce(sum(count - 1), 0)")
    return int(found.collect()[0][0])
