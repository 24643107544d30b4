"""Duplicates: a record that is in the log more than once.

Two offsets hold one id, committed and readable. Nobody can say which of them is "the" record: the first by partition and offset
is taken for it, and every other one counts. An id that is there three times has two records too many.

Easily confused with it: two records of one *value* (3 and -3 have the same square), which are two records; and the retry of an
aborted transaction, whose first attempt takes offsets that no read_committed reader sees.

Each example names its cause, as far as a comparison with the copy before it shows one:

    other partition  the copy before it is in another partition: it was routed anew
    producer retry   the same partition and the same timestamp: one record, that is one call of the producer, was sent twice
                     (if producers set the timestamp, which is Kafka's default)
    replay           another timestamp, and the record before or after it in the source's order is there again as well: a
                     task or a batch was done twice; the records do not show which of the two, or whether by a zombie
    none in the log  it has the same place as the copy before it: the evidence holds it twice, the log does not
    unknown          none of these

and, if the record batches were landed (as for `verifiers.atomicity`), the producers that wrote it and the copy before it.
A later epoch of one producer id is that of a producer that was started anew and has fenced the one before it (KIP-98).
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import ANY_LOG, NO_VIEW, Evidence, Example, Finding
from verifiers.details import Detail, Partition, Place, Producer, Record
from verifiers.findings import decoded, example, first, rule

_LARGEST = 2**63 - 1  # of a long, Spark's longest integer
_NEAREST = 4  # copies named on either side: even a million copies of an id make one line
RETRY = "producer retry (the timestamps are equal)"
LANDED_TWICE = "none in the log, the evidence holds this offset twice"


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Counts records too many; ``checked`` are the records with an id."""

    name: str = "duplicates"
    guarantee: str = "no record is in the log twice"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = ("duplicate",)

    def check(self, evidence: Evidence, proved: int = 0) -> Finding:
        """Judge one log.

        Args:
            proved: records outside the evidence that are known to be there once (`verifiers.single_scan.islands`).
        """
        records = decoded(evidence.observed).where("id IS NOT NULL")
        ids, there = records.groupBy("id").count().selectExpr("count(*)", "coalesce(sum(count), 0)").collect()[0]
        count, checked = there - ids, there + proved
        examples = _examples(_surplus(records), count, evidence)
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, {"duplicate": count}, examples, note)


def _examples(surplus: DataFrame, count: int, evidence: Evidence) -> tuple[Example, ...]:
    shown, partitions = first(surplus, count), evidence.lines
    beside = {row["id"] + step for row in shown for step in (-partitions, partitions)}
    wanted = surplus.where(F.col("id").isin([id_ for id_ in beside if id_ <= _LARGEST])).select("partition", "id").distinct()
    again = {(row["partition"], row["id"]) for row in (wanted.collect() if beside else ())}
    wrote = _writers(evidence.batches, shown)

    def detail(row: Row) -> Detail:
        return _others(row) + _cause(row, again, partitions, in_table=evidence.places is not None) + _by(row, wrote)

    return tuple(example("duplicate", row, detail(row), row["before"]["timestamp_ms"]) for row in shown)


def _writers(batches: DataFrame | None, shown: Sequence[Row]) -> Mapping[tuple[int, int], Producer]:
    """Partition and offset of an example, or of the copy before it -> its producer."""
    if batches is None or not shown:
        return {}
    places = sorted({(one["partition"], one["offset"]) for row in shown for one in (row, row["before"])})
    holds = (f"partition = {home} AND {offset} BETWEEN first_offset AND last_offset" for home, offset in places)
    found = batches.where("control IS NULL AND producer_id >= 0").where(" OR ".join(holds)).collect()
    return {
        (home, offset): Producer(one["producer_id"], one["producer_epoch"])
        for home, offset in places
        for one in found
        if one["partition"] == home and one["first_offset"] <= offset <= one["last_offset"]
    }


def _by(row: Row, wrote: Mapping[tuple[int, int], Producer]) -> Detail:
    """``; written by producer 7 epoch 2, the copy before it by producer 7 epoch 1``; nothing if producers have no ids."""
    mine, theirs = (wrote.get((one["partition"], one["offset"])) for one in (row, row["before"]))
    facts = {name: who for name, who in (("writer", mine), ("writer_before", theirs)) if who}
    if mine and mine == theirs:
        return Detail("; both written by {writer}", {"writer": mine})
    named = ["written by {writer}"] * bool(mine) + ["the copy before it by {writer_before}"] * bool(theirs)
    return Detail(f"; {', '.join(named)}" if named else "", facts)


def _cause(row: Row, again: AbstractSet[tuple[int, int]], partitions: int, *, in_table: bool) -> Detail:
    """Name the cause, and what shows it.

    Args:
        again: partition and id of records that are there again as well, the neighbours of the examples at least.
        in_table: of a table no producer sets the times: they are those of its writes, if it has any.
    """
    before = row["before"]
    if before["partition"] != row["partition"]:
        return Detail("; cause: other partition")
    if before["offset"] == row["offset"]:
        return Detail(f"; cause: {LANDED_TWICE}")
    if None not in (before["timestamp_ms"], row["timestamp_ms"]) and before["timestamp_ms"] == row["timestamp_ms"]:
        known = "unknown (written at the same time)" if in_table else RETRY
        return Detail(f"; cause: {known}")
    neighbours = [row["id"] + step for step in (-partitions, partitions) if (row["partition"], row["id"] + step) in again]
    if neighbours:
        return Detail("; cause: replay (also of {again}, ", {"again": Record(tuple(neighbours))}) + _later(row) + Detail(")")
    if in_table and None in (before["timestamp_ms"], row["timestamp_ms"]):
        return Detail("")
    return Detail("; cause: unknown (") + _later(row) + Detail(")")


def _later(row: Row) -> Detail:
    if None in (row["timestamp_ms"], row["before"]["timestamp_ms"]):
        return Detail("without timestamps")
    return Detail("{later_ms} ms", {"later_ms": f"{row['timestamp_ms'] - row['before']['timestamp_ms']:+}"})


def _surplus(records: DataFrame) -> DataFrame:
    """All records but the first of each id, with the places of its copies; columns added: copies, before, nearby."""
    in_order = "PARTITION BY id ORDER BY partition, offset"
    return records.selectExpr(
        "*",
        f"row_number() OVER ({in_order}) AS occurrence",
        "count(*) OVER (PARTITION BY id) AS copies",
        f"lag(struct(partition, offset, timestamp_ms)) OVER ({in_order}) AS before",
        f"""collect_list(struct(partition, offset))
            OVER ({in_order} ROWS BETWEEN {_NEAREST} PRECEDING AND {_NEAREST} FOLLOWING) AS nearby""",
    ).where("occurrence > 1")


def _others(row: Row) -> Detail:
    """``also at offset 17, partition 2 offset 4 and 3 more``; another partition is named."""
    others = list(row["nearby"])
    others.remove((row["partition"], row["offset"]))
    named = Detail("also at {others}", {"others": tuple(_place(place, row["partition"]) for place in others)})
    more = row["copies"] - 1 - len(others)
    return named + Detail(" and {more} more", {"more": more}) if more else named


def _place(place: Row, home: int) -> Place:
    return Place(place["offset"], None if place["partition"] == home else Partition(place["partition"]))
