"""Atomicity: a transaction is visible as a whole or not at all, and readers see the committed ones only.

    torn           a transaction that was committed in one partition and aborted in another
    zombie write   a row that is committed, or in no transaction, though its writer was fenced: its epoch is below one that its
                   producer id had before in this partition, or below that of another row of its transaction here
    aborted read   a read_committed reader gets a row of an aborted transaction
    early read     a read_committed reader gets a row of a transaction that has no marker in the partition: it has not ended
    withheld       a row below the last stable offset that is committed, or in no transaction, but hidden from read_committed
    split view     a row that the two views show differently, or that only the committed one shows
    unaccounted    an offset between low and high watermark that is neither a row nor a marker, so that not
                   HW - low = committed + aborted + open rows + markers

    aborted        rows of aborted transactions, rightly hidden
    open           rows above the last stable offset: of a transaction that has not ended, or behind one (not decided yet)
    not ended      transactions without a marker; the evidence is then UNKNOWN, since they may still end (`verifiers.hanging`)
    undecided      producers whose transactions may be torn, as far as the log shows

The rows that a marker ends are known exactly: in one partition, those of its producer id since that producer's last marker.
Markers of different partitions are known to belong to one transaction only if the epoch was raised to end it (transactions v2,
KIP-890; or a new instance fenced the old one): then all markers of a producer id and epoch are of one transaction. A producer
that keeps its epoch (transactions v1) may commit one transaction and abort the next; if it wrote to several partitions, the log
cannot tell this from a torn transaction. It is undecided then, and reports show that beside the verdict, unless the writer
reported its outcomes (`verifiers.outcomes`). A marker without rows (nothing was appended, or retention removed it) does not
show whether the epoch was raised: the other markers decide.

Easily confused with a zombie write: an epoch that rises. A marker's epoch may be above that of its rows: the coordinator raises
it to fence an instance and, in transactions v2, to end any transaction; later rows must be that high. An idempotent producer
may raise its epoch between two rows (KIP-360), a transactional one only where a transaction ended: rows of two epochs before
one marker are those of a zombie, whose transaction nothing had ended, and of its successor (before KIP-890). As long as a
zombie's rows are aborted or open, no reader gets them, and they are not counted. A zombie's row is not seen if the successor's
marker committed it and the successor wrote nothing: a transaction of v2 looks like that. And if offsets are unaccounted for,
a marker may have been among them: the rows around it are then taken for one transaction.

Easily confused with a torn one: output that is committed without the input's position, which is one whole transaction where two
belong together (`verifiers.offsets`). Easily confused with unaccounted offsets: those that compaction removed. The log must not
be a compacted one.

Sources: KIP-98 (markers, LSO), KIP-360, KIP-890; Kafka's `ProducerStateManager`, `ProducerAppendInfo`.
"""

from dataclasses import dataclass
from operator import attrgetter

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow
from verifiers.base import ANY_LOG, Evidence, Example, Finding
from verifiers.details import joined
from verifiers.findings import EXAMPLES, absent, by_partition, decoded, example, first, kinds, rule

_WRONG_ROWS = ("aborted read", "early read", "withheld", "split view")
_RIGHT_ROWS = ("aborted", "open")
_BUCKET = 4096  # offsets; a row is joined only with the hidden stretches of its bucket
_BY_PRODUCER = "PARTITION BY partition, producer_id ORDER BY first_offset ROWS BETWEEN"
_BACKWARDS = "PARTITION BY partition, producer_id ORDER BY first_offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
"""This batch and all after it; Spark would compute a frame up to UNBOUNDED FOLLOWING anew for each row, in n² steps."""


@dataclass(frozen=True, slots=True)
class Atomicity:
    """Compares both views with the transactions of the log; ``checked`` are the rows of either, except open ones."""

    name: str = "atomicity"
    guarantee: str = "a transaction is visible as a whole or not at all"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = frozenset({"uncommitted", "batches"})
    anomalies: tuple[str, ...] = ("torn", "zombie write", *_WRONG_ROWS, "unaccounted")

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.uncommitted is None or evidence.batches is None:
            return absent(self.name, evidence, "the uncommitted view and the record batches")
        batches = _ended(evidence.batches)
        rows, holes = _judged(evidence, evidence.uncommitted, batches), _holes(evidence, evidence.uncommitted)
        zombies, (torn, undecided) = _zombies(batches), _torn(batches)
        found = kinds(rows)
        fenced = zombies.selectExpr("coalesce(sum(length), 0)").collect()[0][0]
        hidden = holes.selectExpr("coalesce(sum(hole), 0)").collect()[0][0]
        wrong = {kind: found.get(kind, 0) for kind in _WRONG_ROWS}
        counts = {"torn": len(torn), "zombie write": fenced} | wrong | {"unaccounted": hidden}
        count, checked = sum(counts.values()), sum(found.values()) - found.get("open", 0)
        examples = [
            *torn,
            *_zombie_writes(zombies, fenced),
            *_wrong_rows(rows, sum(wrong.values())),
            *_wrong_offsets(holes, hidden),
        ]
        examples.sort(key=attrgetter("partition", "offset"))
        verdict, doubts = rule(evidence, count, checked)
        transactional, not_ended = _transactions(batches)
        untold = undecided if evidence.told is None else 0
        counts |= {kind: found.get(kind, 0) for kind in _RIGHT_ROWS} | {"not ended": not_ended, "undecided": untold}
        plain = "" if transactional or not checked else "this log has no transactions"
        note = joined((doubts, _undecided(undecided, untold), plain))
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, tuple(examples[:EXAMPLES]), note)


def _ended(batches: DataFrame) -> DataFrame:
    """Add columns about the batch's transaction in this partition: number, ending and written_under.

    ``ending`` is its marker, null if it has not ended; ``written_under`` is the highest epoch of its rows, null without rows.
    """
    of_one = "PARTITION BY partition, producer_id, number"
    return batches.selectExpr(
        "*",
        f"count_if(control IS NOT NULL) OVER ({_BY_PRODUCER} UNBOUNDED PRECEDING AND 1 PRECEDING) AS number",
        f"last_value(control, true) OVER ({_BACKWARDS}) AS ending",
    ).selectExpr("*", f"max(IF(control IS NULL, producer_epoch, NULL)) OVER ({of_one}) AS written_under")


def _judged(evidence: Evidence, uncommitted: DataFrame, batches: DataFrame) -> DataFrame:
    """Every row of either view: partition, offset, timestamp_ms, key, value, id, and its kind (``committed`` when right)."""
    both = _in_both(evidence.observed, uncommitted)
    within = f"bucket = offset DIV {_BUCKET} AND offset BETWEEN first_offset AND last_offset"
    same_place = F.expr(f"row.partition = hidden.partition AND {within}")
    joined = both.alias("row").join(_hidden(batches).alias("hidden"), same_place, "left")
    stable = by_partition({partition: ends.lso for partition, ends in evidence.bounds.items()})
    kind = f"""CASE WHEN NOT in_all OR in_committed AND NOT same THEN 'split view'
                    WHEN in_committed AND ending = 'ABORT' THEN 'aborted read'
                    WHEN in_committed AND ending = 'none' THEN 'early read'
                    WHEN in_committed THEN 'committed'
                    WHEN ending = 'ABORT' THEN 'aborted'
                    WHEN ending IS NULL AND offset < {stable} THEN 'withheld'
                    ELSE 'open' END AS kind"""
    return decoded(joined.selectExpr("row.*", "ending")).selectExpr("*", kind)


def _in_both(committed: DataFrame, uncommitted: DataFrame) -> DataFrame:
    """A row for each place in either view, as the committed one shows it if it does; with in_committed, in_all, same."""
    content = "timestamp_ms, key, value"
    return (
        committed.selectExpr("partition", "offset", f"struct({content}) AS read")
        .join(uncommitted.selectExpr("partition", "offset", f"struct({content}) AS there"), ["partition", "offset"], "full")
        .selectExpr(
            "partition",
            "offset",
            "coalesce(read, there) AS shown",
            "read IS NOT NULL AS in_committed",
            "there IS NOT NULL AS in_all",
            "read <=> there AS same",
        )
        .selectExpr("*", "shown.*")
    )


def _hidden(batches: DataFrame) -> DataFrame:
    """Stretches of offsets that are not committed: partition, first_offset, last_offset, ending (ABORT, none), bucket."""
    return batches.where("transactional AND control IS NULL AND NOT ending <=> 'COMMIT'").selectExpr(
        "partition",
        "first_offset",
        "last_offset",
        "coalesce(ending, 'none') AS ending",
        f"explode(sequence(first_offset DIV {_BUCKET}, last_offset DIV {_BUCKET})) AS bucket",
    )


def _holes(evidence: Evidence, uncommitted: DataFrame) -> DataFrame:
    """Stretches of offsets that are neither row nor marker: partition, begin (the first of them), hole (how many)."""
    assert evidence.batches is not None  # noqa: S101 - asked before
    markers = evidence.batches.where("control IS NOT NULL").select("partition", "first_offset", "last_offset")
    ends = [(partition, place, place) for partition, bound in evidence.bounds.items() for place in (bound.low - 1, bound.hw)]
    columns = {"partition": "int", "first_offset": "bigint", "last_offset": "bigint"}
    fixed = arrow.made(uncommitted.sparkSession, ends, columns)
    rows = uncommitted.selectExpr("partition", "offset AS first_offset", "offset AS last_offset")
    before = """max(last_offset) OVER (PARTITION BY partition ORDER BY first_offset
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""
    return (
        rows.unionAll(markers)
        .unionAll(fixed)
        .selectExpr("partition", "first_offset", f"{before} + 1 AS begin")
        .selectExpr("partition", "begin", "first_offset - begin AS hole")
        .where("hole > 0")
    )


def _torn(batches: DataFrame) -> tuple[list[Example], int]:
    """Find transactions with both kinds of marker, if the epoch identifies them; and count the producers that kept theirs."""
    mixed = (
        batches.where("control IS NOT NULL")
        .groupBy("producer_id", "producer_epoch")
        .agg(
            F.expr(
                "bool_and(written_under < producer_epoch) AS single"
            ),  # markers without rows do not count; null if there are no others
            F.expr("array_sort(collect_list(struct(control, partition, first_offset))) AS markers"),
        )
        .where("markers[0].control <> markers[size(markers) - 1].control")
        .collect()
    )
    undecided = sum(not row["single"] and len({marker["partition"] for marker in row["markers"]}) > 1 for row in mixed)
    return [_torn_example(row) for row in mixed if row["single"]], undecided


def _undecided(producers: int, untold: int) -> str:
    """Word a note about undecided producers; it names the verifier that decides about them, if there is one."""
    if not producers:
        return ""
    by_outcomes = "" if untold else " (the verifier outcomes decides it)"
    return f"{producers} producers kept their epoch: the log does not show whether their transactions are torn{by_outcomes}"


def _torn_example(row: Row) -> Example:
    """Place the example at the first ABORT."""
    aborted, *others = row["markers"]
    committed = next(marker for marker in others if marker["control"] == "COMMIT")
    detail = (
        f"producer {row['producer_id']} epoch {row['producer_epoch']}: aborted here, "
        f"committed at partition {committed['partition']} offset {committed['first_offset']}"
    )
    return Example("torn", aborted["partition"], aborted["first_offset"], None, None, detail)


def _zombies(batches: DataFrame) -> DataFrame:
    """Visible batches of fenced writers; columns added: seen (highest epoch before it), length (rows)."""
    # Markers count as seen, since the broker takes no row below them; the rows that they end may rightly be below them.
    seen = f"max(producer_epoch) OVER ({_BY_PRODUCER} UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen"
    return (
        batches.where("producer_id <> -1")
        .selectExpr("*", seen, "last_offset - first_offset + 1 AS length")
        .where("control IS NULL AND (NOT transactional OR ending = 'COMMIT')")
        .where("producer_epoch < seen OR transactional AND producer_epoch < written_under")
    )


def _zombie_writes(zombies: DataFrame, count: int) -> list[Example]:
    return [_zombie_write(row) for row in first(zombies, count, by=("partition", "first_offset"))]


def _zombie_write(row: Row) -> Example:
    """Make one example for each batch, at its first row."""
    fenced = row["seen"] is not None and row["producer_epoch"] < row["seen"]
    newer = f"epoch {row['seen']} had fenced it" if fenced else f"its transaction has rows of epoch {row['written_under']}, too"
    detail = f"{row['length']} rows from here on by producer {row['producer_id']} epoch {row['producer_epoch']}: {newer}"
    return Example("zombie write", row["partition"], row["first_offset"], None, None, detail)


def _transactions(batches: DataFrame) -> tuple[int, int]:
    """Count the batches in transactions, and the transactions that have not ended (one for each partition they are in)."""
    begun = "IF(transactional AND control IS NULL AND ending IS NULL, struct(partition, producer_id), NULL)"
    transactional, not_ended = batches.selectExpr("count_if(transactional)", f"count(DISTINCT {begun})").collect()[0]
    return transactional, not_ended


def _wrong_rows(rows: DataFrame, count: int) -> list[Example]:
    wrong = rows.where(F.col("kind").isin(*_WRONG_ROWS))
    return [example(row["kind"], row, _detail(row)) for row in first(wrong, count)]


def _detail(row: Row) -> str:
    details = {
        "aborted read": "its transaction was aborted",
        "early read": "its transaction has not ended",
        "withheld": "no transaction hides it, but a read_committed reader does not get it",
        "split view": "read_uncommitted shows another record here" if row["in_all"] else "only read_committed shows it",
    }
    return details[row["kind"]]


def _wrong_offsets(holes: DataFrame, count: int) -> list[Example]:
    return [
        Example("unaccounted", row["partition"], row["begin"], None, None, f"{row['hole']} from here on: no row, no marker")
        for row in first(holes, count, by=("partition", "begin"))
    ]
