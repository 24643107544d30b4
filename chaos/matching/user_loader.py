"""Number the records of a source that a user's own loader filled, from the loader's reports.

The records are not known beforehand, so a record is right if the loader reported it. An acknowledgement with a place belongs to
the record there; if there is none, or an earlier acknowledgement named that place, the record is missing. The records that no
acknowledgement names are, as many as there are of each, and in this order:

    acknowledged without a place   of this partition
    of unknown outcome             sent, and never answered
    duplicates                     of an acknowledged record with the same key and value in this partition
    refused                        but in the log all the same
    phantoms                       no report says that they were sent

Acknowledged records of a partition have the order in which they were sent; the order of the rest is not known. Ids are those
of `chaos.matching.row_ids`. A missing record has the loader's own name, since its key is not known.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.matching.row_ids import Numbered, Numbering, keyed

_LEDGER = "id long, outcome string, partition int, offset long, name string"
_PLACE = ["partition", "offset"]


def of_source(spark: SparkSession, ledger: Path, lines: int) -> Numbering:
    """Make the numbering of the source from the reports of its loader (`chaos.loader.user_loader`)."""
    told = spark.read.csv(str(ledger), header=True, schema=f"{_LEDGER}, error string", escape='"').drop("error")

    def number(observed: DataFrame) -> Numbered:
        rows, sent = keyed(observed).localCheckpoint(), _numbered(told, lines).localCheckpoint()
        named = _named(rows, sent, lines).localCheckpoint()
        there = named.selectExpr("id", "partition AS here", "value", "key")
        found = sent.join(there.dropDuplicates(["id"]), "id", "left")
        expected = found.where("outcome <> 'fail'").selectExpr(
            "id",
            f"coalesce(IF(outcome = 'ok', partition, here), CAST(id % {lines} AS INT)) AS partition",
            "value",
            "outcome = 'ok' AS required",
            "CAST(NULL AS BIGINT) AS position",
        )
        strays = named.join(sent.select("id"), "id", "left_anti").select("id", "key").distinct()
        keys = found.selectExpr("id", "coalesce(key, name, CAST(id AS STRING)) AS key").unionByName(strays)
        answers = named.select(*_PLACE, "id", "ordered")
        return Numbered(expected, answers, keys, sent.select("id", "outcome", *_PLACE))

    return number


def _numbered(told: DataFrame, lines: int) -> DataFrame:
    """Number the ledger by ids; column added: claim (the rank among acknowledgements of its place, in the order of sending).

    Records acknowledged in a partition are numbered by their order there. All others come after them, in the first line.
    """
    order = "row_number() OVER (PARTITION BY outcome, partition ORDER BY id) - 1"
    claim = "IF(offset IS NULL, NULL, row_number() OVER (PARTITION BY outcome, partition, offset ORDER BY id)) AS claim"
    total = told.count()
    others = f"({total} + id) * {lines}"
    return told.selectExpr(
        f"CAST(IF(outcome = 'ok', ({order}) * {lines} + partition, {others}) AS LONG) AS id",
        "id AS turn",
        "outcome",
        *_PLACE,
        "name",
        claim,
    )


def _named(rows: DataFrame, sent: DataFrame, lines: int) -> DataFrame:
    """Give every record of the source its id, and whether its order is known."""
    claims = sent.where("outcome = 'ok' AND claim = 1").select(*_PLACE, "id")
    placed = rows.join(claims, _PLACE).withColumn("ordered", F.lit(True)).localCheckpoint()  # noqa: FBT003 - a column
    left = rows.join(claims, _PLACE, "left_anti")
    if not left.take(1):
        return placed
    twins = placed.groupBy("partition", "key", "value").agg(F.min("id").alias("twin")).toDF("_p", "_key", "_value", "twin")
    alike = F.expr("partition = _p AND key <=> _key AND value <=> _value")
    left = left.join(twins, alike, "left").drop("_p", "_key", "_value")
    left = left.withColumn("id", F.expr("CAST(NULL AS LONG)"))
    left = _taken(left, sent.where("outcome = 'ok' AND offset IS NULL"), ["partition"])
    left = _taken(left, sent.where("outcome = 'unknown'"), [])
    left = left.withColumn("ordered", F.expr("id IS NULL")).withColumn("id", F.expr("coalesce(id, twin)"))
    left = _taken(left, sent.where("outcome = 'fail'"), [])
    stray = f"(offset * {lines - 1} + partition) * {lines} + {lines - 1}"
    return placed.unionByName(left.withColumn("id", F.expr(f"coalesce(id, {stray})")).select(*placed.columns))


def _taken(rows: DataFrame, wanted: DataFrame, by: Sequence[str]) -> DataFrame:
    """Give ids to rows without one, as far as there are any: first to rows that equal no acknowledged one.

    Args:
        wanted: id and turn of records that may be there; any row may be one.
        by: columns in which both must be equal.
    """
    if not wanted.take(1):
        return rows
    of = f"PARTITION BY {', '.join(by)}" if by else ""
    offered = wanted.selectExpr(*by, "id AS offered", f"row_number() OVER ({of} ORDER BY turn) AS nth")
    had, free = rows.where("id IS NOT NULL"), rows.where("id IS NULL").drop("id")
    turn = f"row_number() OVER ({of} ORDER BY twin IS NOT NULL, partition, offset) AS nth"
    found = free.selectExpr("*", turn).join(offered, [*by, "nth"], "left").withColumnRenamed("offered", "id")
    return had.unionByName(found.select(*had.columns))
