"""Names of transactions, logs, offsets and times in the messages about transactions."""

from datetime import UTC, datetime

from verifiers.transactions.logs import Log, Start
from verifiers.transactions.steps import Step
from verifiers.transactions.together import Piece, Transaction


def named(one: Transaction | None) -> str:
    if one is None:
        return "no transaction"
    who = f"producer {one.producer_id} epoch {one.epoch}"
    return f"transaction {one.number} of {one.transactional_id!r}, {who}, decided {time_of(one.decided_ms)}"


def time_of(at_ms: int) -> str:
    """Return the time of day in UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3] + "Z"


def rows(piece: Piece) -> str:
    return f"[{piece.first}, {piece.last}]" if piece.records else "none"


def ranged(step: Step) -> str:
    topic, partition = step.source
    return f"{topic}-{partition} {step.begin} to {step.end}"


def shown(log: Log) -> str:
    return f"partition {log[1]} of {log[0]}"


def begun(start: Start) -> str:
    """Describe who began, where and when."""
    member = f"{start.client_id!r}, generation {start.generation}" if start.generation >= 0 else repr(start.client_id)
    return f"a reader ({member}) began at {start.position} at {time_of(start.answered_ms)}"
