"""Hanging transactions: open in a partition, and nothing will end them, because their coordinator does not count them.

    hanging   open beyond the transaction timeout, but not part of any transaction that a coordinator still has to end

    ongoing   the coordinator has this partition in a transaction of this producer id: its end, or its timeout, will end it
    young     not ongoing, but not open for longer than the timeout either

A hanging transaction holds the last stable offset for ever: no committed row behind it can be read, and nothing behind it can
be compacted away. It begins with a write that reaches a partition after its transaction was ended there, or that was never
added to one; since KIP-890, brokers ask the coordinator before they append such a write.

The rule is that of ``kafka-transactions.sh find-hanging``: the coordinator (DescribeTransactions) does not list the partition.
It lists the partitions of an Ongoing transaction, and in PrepareCommit and PrepareAbort those whose marker is still to come.
The producer id is added to this rule: a transactional id with a new producer id will not end rows of the old one. The epoch is
not part of it. A coordinator raises the epoch of a transaction before it aborts it, so a newer one is often that of this
transaction, and if it is of the next one, its marker will end both.

The timeout is that of the transactional id. If no coordinator knows one for the producer id, or no longer, it is the longest
that the broker allows (``transaction.max.timeout.ms``, 15 minutes by default): a younger transaction is UNKNOWN. As in
find-hanging, the time begins at the timestamp of the producer's last batch, which the producer sets by its own clock.

Easily confused with a hanging transaction: one that is open at the end of a run because its producer lives, or died a moment
ago. It is ongoing, and makes the evidence UNKNOWN, since it hides the end of the log. One that ended after the ends of the log
were read, and before its coordinator was asked, is none of the three. Whoever can wait for the timeouts before the log is read
learns more: what is ongoing has ended by then, and what is young hangs.

Sources: KIP-664, KAFKA-12671, KIP-890; Kafka's ``TransactionsCommand`` (``filterHangingTransactions``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row

from verifiers.base import ANY_LOG, Evidence, Example, Finding
from verifiers.details import Detail, Facts, Partition, Place, Wording, joined
from verifiers.findings import EXAMPLES, absent, rule

HANGING = "hanging"
_ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, slots=True)
class Hanging:
    """Compares the open transactions of partitions with those of coordinators; ``checked`` are the partitions with records."""

    name: str = "hanging"
    guarantee: str = "every open transaction will be ended"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = frozenset({"open_transactions"})
    anomalies: tuple[str, ...] = ("hanging",)

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.open_transactions is None:
            return absent(self.name, evidence, "the open transactions")
        found = evidence.open_transactions.orderBy("partition", "first_offset").collect()
        kinds = Counter(map(kind, found))
        counts = {one: kinds[one] for one in (HANGING, "ongoing", "young")}
        checked = sum(ends.low < ends.hw for ends in evidence.bounds.values())
        verdict, note = rule(evidence, counts[HANGING], checked, _undecided(found))
        examples = tuple(_example(row) for row in found if kind(row) == HANGING)[:EXAMPLES]
        return Finding(self.name, evidence.subject, verdict, counts[HANGING], checked, counts, examples, note)


def kind(row: Row | Mapping[str, Any]) -> str:
    """Return the kind of an open transaction, by the fields of `verifiers.evidence.OPEN_TRANSACTIONS`, as above."""
    if row["listed"] and row["coordinator_producer_id"] == row["producer_id"] and row["coordinator_state"] not in _ENDED:
        return "ongoing"
    return HANGING if _open_ms(row) > row["timeout_ms"] else "young"


def _undecided(found: Sequence[Row]) -> Wording:
    """Why open transactions may still end, with the first of each kind."""
    reasons = {"ongoing": "ongoing at their coordinator", "young": "not open for longer than their timeout"}
    firsts = {one: [row for row in found if kind(row) == one] for one in reasons}
    return joined(_of_kind(reasons[one], rows) for one, rows in firsts.items() if rows)


def _of_kind(reason: str, rows: Sequence[Row]) -> Detail:
    first = rows[0]
    facts: Mapping[str, Facts] = {
        "count": len(rows),
        "place": Place(first["first_offset"], Partition(first["partition"])),
        "first": _detail(first),
    }
    return Detail(f"open transactions, {reason}: {{count}}, the first at {{place}}: {{first}}", facts)


def _example(row: Row) -> Example:
    """Place the example at the first record; its time is that of the last."""
    return Example(HANGING, row["partition"], row["first_offset"], None, row["last_timestamp_ms"], _detail(row))


def _detail(row: Row) -> str:
    opened = f"open for {_open_ms(row) / 1000:.1f} s, timeout {row['timeout_ms'] / 1000:g} s"
    return f"producer {row['producer_id']} epoch {row['producer_epoch']}: {opened}; {_said(row)}"


def _said(row: Row) -> str:
    """Describe the transaction as its coordinator knows it."""
    if row["transactional_id"] is None:
        return "no coordinator knows a transactional id of this producer"
    if row["coordinator_state"] is None:
        return f"its coordinator no longer knows {row['transactional_id']!r}"
    without = "" if row["listed"] or row["coordinator_state"] in _ENDED else " without this partition"
    producer = f"producer {row['coordinator_producer_id']} epoch {row['coordinator_epoch']}"
    return f"its coordinator has {row['transactional_id']!r} in state {row['coordinator_state']}{without}, {producer}"


def _open_ms(row: Row | Mapping[str, Any]) -> int:
    return int(row["asked_at_ms"] - row["last_timestamp_ms"])
