"""Compare the rows of a transaction with the number that its consumed records can make."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from verifiers.transactions.case import Case
from verifiers.transactions.steps import Step
from verifiers.transactions.together import Transaction

if TYPE_CHECKING:
    from verifiers.transactions.verifier import Transactions

RIGHT, SURPLUS, DEFICIT, LATE, UNKNOWN = "right", "surplus", "deficit", "late", "unknown"


@dataclass(frozen=True, slots=True)
class Count:
    """The result of a comparison.

    Attributes:
        kind: right, surplus, or deficit; ``late`` is a deficit unless one of its readers, the first of a partition, did not
            begin at the beginning; ``unknown`` if records were removed, or were not read.
        records: how many it moved past; 0 if that is not known.
    """

    kind: str
    records: int = 0


def counted(one: Transaction, judged: Case, asked: "Transactions") -> Count:
    """Compare one transaction; one that stood still or went back has another anomaly, and is right here."""
    said = asked.rows_per_record
    if said is None:
        return Count(UNKNOWN)
    if not is_countable(one, judged):
        return Count(RIGHT if all(log in judged.contents for log in one.logs) else UNKNOWN)
    moved = judged.moved[id(one)]
    known = [count for step in moved if (count := records_of(step, judged)) is not None]
    if len(known) < len(moved):
        return Count(UNKNOWN)
    records = sum(known)
    if one.rows > said.max * records and not asked.timers:
        return Count(SURPLUS, records)
    if one.rows >= said.min * records:
        return Count(RIGHT, records)
    certain = sum(count for step, count in zip(moved, known, strict=True) if step.begin is not None or judged.of_a_run)
    return Count(DEFICIT if one.rows < said.min * certain else LATE, records)


def is_countable(one: Transaction, judged: Case) -> bool:
    """Whether all of its rows were read, and its steps went forward."""
    moved = judged.moved.get(id(one), ())
    forward = any(step.begin != step.end for step in moved) and all((step.begin or 0) <= (step.end or 0) for step in moved)
    return forward and all(step.taken for step in moved) and all(log in judged.contents for log in one.logs)


def records_of(step: Step, judged: Case) -> int | None:
    """Count the records of a step. A first one is counted from offset 0: its reader may have begun later, never earlier."""
    if step.source not in judged.visible or step.end is None or (step.begin is None and not step.first):
        return None
    if not judged.is_same_topic(step) or judged.is_beyond(step):
        return None
    return judged.visible[step.source].between(step.begin or 0, step.end)


def is_proved(step: Step, judged: Case, asked: "Transactions") -> bool:
    """Whether the rows of a transaction show that the reader of a step began where the one before had ended.

    They do if every record makes the same number of rows, and no other step of the transaction has a doubtful beginning.
    """
    one, said = step.transaction, asked.rows_per_record
    if one is None or said is None or not 0 < said.min == said.max or asked.timers:
        return False
    others = [each for each in judged.moved[id(one)] if each is not step]
    known = all(each.begin is not None and each.removed_ms is None for each in others)
    return known and is_countable(one, judged) and counted(one, judged, asked).kind == RIGHT
