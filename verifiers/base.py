"""What a verifier is given, and what it answers.

Identity is the key. The workload writes the ids 0, 1, 2, … as decimal strings; id ``i`` belongs to partition ``i mod P``
of the source and is number ``i div P`` there. A value alone never identifies: the square of x and of -x is the same.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from pyspark.sql import DataFrame

from verifiers.details import Detail, Wording

ANY_LOG = frozenset({"source", "sink"})
NO_VIEW: frozenset[str] = frozenset()
NO_PLACE = -1
"""The position of a row that no one record of the source demands, but all of it together, which was processed; and the
partition of an example of it that is missing."""


class Verdict(IntEnum):
    """Ordered, and merged by max: nothing upgrades a verdict (Jepsen's valid < unknown < invalid)."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this verdict; `chaos --help` names the others."""
        return {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3}[self]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far one partition is read, fixed before reading.

    Attributes:
        low: first offset there is.
        lso: last stable offset, exclusive: where read_committed ends.
        hw: high watermark, exclusive. ``lso < hw`` means a transaction is open.
    """

    low: int
    lso: int
    hw: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One log and what it must hold.

    Attributes:
        subject: which log is judged, ``source`` (against the loader's ledger) or ``sink`` (against the model of the source).
        expected: columns id long, partition int, value string, required boolean, position long.
            ``required`` is false where the writer never learned the outcome: such a record may be there, once.
            ``position`` is the offset of the input record in the source partition that demands this row, null for the ledger,
            and `NO_PLACE` where no one record does.
        observed: columns partition int, offset long, timestamp_ms long, key string, value string; the log read
            read_committed up to ``bounds``.
        bounds: partition of the observed log -> how far it was read.
        positions: partition of the source -> committed position of the pipeline (exclusive), empty when there is none.
        uncommitted: as ``observed``, but read read_uncommitted, up to HW: aborted and open transactions too.
        again: as ``observed``, read once more afterwards.
        batches: columns partition int, first_offset long, last_offset long (inclusive), producer_id long (-1: none),
            producer_epoch int, transactional boolean, control string (``COMMIT`` or ``ABORT`` for a transaction's marker,
            else null); every record batch from ``low`` to HW.
        ledger: columns id long, outcome string (``ok``, ``fail``: refused for good, ``unknown``), partition int, offset long
            (both null where the writer did not learn them); one row for every record that the writer handed in.
        open_transactions: columns partition int, producer_id long, producer_epoch int, first_offset long,
            last_timestamp_ms long (of the producer's last batch), asked_at_ms long; and of its coordinator transactional_id
            string (null: none knows one for this producer id), coordinator_state string, coordinator_producer_id long,
            coordinator_epoch int (all three null: the id is not known any more), timeout_ms long (the broker's longest where
            the id is not known), listed boolean (whether the coordinator counts this partition in the transaction); one row
            for every transaction that was open in the partition before its coordinator was asked and after.
        told: columns transaction string, told string (``committed``, ``aborted``, ``unknown``: also if its writer never learned
            or never said it), id string (a key); one row for each key that the transaction wrote, as often as it wrote it, and
            one with a null id for a transaction of which no key is known.
        deliveries: columns instance string (one consumer, from one start of its process), seq long (grows with time within an
            instance), event string (``got``: handed to the application; ``start``: from here it reads on purpose), partition
            int, offset long (of a start null where it is left to the client); what was read of this log.
        commits: columns partition int, seq long (grows with time), position long (the next offset to read; null: removed),
            committed_at_ms long (milliseconds since the epoch); the positions in this log that the pipeline's consumer group
            committed, as far as compaction has left them.
        looks: columns partition int, seq long (grows with time), end long (the high watermark, exclusive, of this log),
            asked_at_ms long (when that was asked for the last time with this answer, before it was sent), answered_at_ms long
            (when it was answered first); milliseconds since the epoch, by the observer's clock. A row for each change.
        reached: columns partition int (of the source, as positions are numbered), position long, committed_at_ms long (when it
            took effect, by the coordinator's clock: in a transaction with its marker), producer_id long (of the transaction
            that moved it; -1: outside of any); each position that the pipeline's consumer group committed.
        answers: columns partition int, offset long, id long (null: none), ordered boolean (false: which of several records that
            are alike it is cannot be told, so neither can its order); of rows that are not integers, what `observed` answers.
        keys: columns id long, key string; of these ids.
        places: columns partition int, offset long, place string; of a table, whose rows are numbered as if they were those of
            a log: where a row is, for people (a file, a version of the table).
        anywhere: whether a record may be in any partition of the log; what is demanded has the partition of its source record
            then.
        source_partitions: how many the source has, where that is not how many there are in ``bounds``; 0 where it is.
        state: whether the log is a state: only those of its rows count that have an answer, the last of each key.
        unordered: why the order of what is expected is not known; empty where it is.
        ended: whether the pipeline had to end before it had done everything, so that what is pending is not missed.
        unsaid: why it cannot be said what is expected; empty where it can.

    From ``uncommitted`` to ``reached`` they are views that only some verifiers need; from ``answers`` on, of some logs only.
    They are None when they were not landed.
    """

    subject: str
    expected: DataFrame
    observed: DataFrame
    bounds: Mapping[int, Bounds]
    positions: Mapping[int, int] = field(default_factory=dict)
    uncommitted: DataFrame | None = None
    again: DataFrame | None = None
    batches: DataFrame | None = None
    ledger: DataFrame | None = None
    open_transactions: DataFrame | None = None
    told: DataFrame | None = None
    deliveries: DataFrame | None = None
    commits: DataFrame | None = None
    looks: DataFrame | None = None
    reached: DataFrame | None = None
    answers: DataFrame | None = None
    keys: DataFrame | None = None
    places: DataFrame | None = None
    anywhere: bool = False
    source_partitions: int = 0
    unordered: str = ""
    ended: bool = False
    unsaid: str = ""
    state: bool = False

    @property
    def lines(self) -> int:
        """P, by which ids are dealt out: id ``i`` is in partition ``i mod P`` of the source."""
        return self.source_partitions or max(1, len(self.bounds))


@dataclass(frozen=True, slots=True)
class Example:
    """One record that went wrong, with everything needed to find it in the log.

    Attributes:
        anomaly: one of the finding's ``counts``.
        partition: of the observed log (or the one it should be in; below 0 if that is not known), offset: there (None if it
            is absent).
        id: the record's id, or its key where rows are not integers (`Evidence.answers`); None when the key is not an id.
        timestamp_ms: of the observed record, milliseconds since the epoch. Of one that is lost, when a position past its input
            was committed first; None if that is not known.
        detail: the rest, e.g. ``also at offset 17``: a `Detail` with the facts that stand in it, or plain words without any.
        since_ms: when it was still right: of a duplicate, the time of the copy before it. What broke it happened after that.
        place: where it is in a table, in words; "" in a log, whose partition and offset say it.
        topic: which one, where logs of several topics are judged; "" where it is known.
    """

    anomaly: str
    partition: int
    offset: int | None
    id: int | str | None
    timestamp_ms: int | None
    detail: Wording
    since_ms: int | None = None
    place: str = ""
    topic: str = ""

    @property
    def words(self) -> str:
        """The detail as people read it, with the topic where one is named."""
        return f"in {self.topic}: {self.detail}" if self.topic else str(self.detail)

    def to_json(self) -> dict[str, Any]:
        """Its fields; ``detail`` in words, and what stands in them as ``said``: template and facts."""
        fields = asdict(self)
        return fields | {"detail": str(self.detail), "said": fields["detail"]} if isinstance(self.detail, Detail) else fields


@dataclass(frozen=True, slots=True)
class Finding:
    """What one verifier says of one log.

    Attributes:
        verifier: its name in ``verify:``.
        subject: the log, as in the evidence.
        verdict: UNKNOWN when nothing was compared (``checked == 0``), whatever else is true.
        count: records that went wrong.
        checked: records compared.
        counts: the same by anomaly, every anomaly of this verifier present, e.g. {"lost": 0, "pending": 3}.
        examples: the first ones, at most 32, ordered by (partition, offset).
        note: why it is UNKNOWN, or what else a reader should know; empty when there is nothing to say.
        asked: whether the log was judged; False where it has nothing of what is asked, and the note says what it lacks.
    """

    verifier: str
    subject: str
    verdict: Verdict
    count: int
    checked: int
    counts: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    note: Wording = ""
    asked: bool = True

    def to_json(self) -> dict[str, Any]:
        """Its fields; the verdict by its name, the note in words."""
        own = {"verdict": self.verdict.name, "note": str(self.note), "examples": [one.to_json() for one in self.examples]}
        return {name: getattr(self, name) for name in self.__slots__} | own


class Verifier(Protocol):
    """Pure: the same evidence gives the same finding."""

    @property
    def name(self) -> str:
        """As scenarios name it."""
        ...

    @property
    def guarantee(self) -> str:
        """What it demands, as a sentence without its end: it stands in reports beside what was found."""
        ...

    @property
    def subjects(self) -> frozenset[str]:
        """The logs that it has something to say about; of others it is not asked."""
        ...

    @property
    def views(self) -> frozenset[str]:
        """What it needs beyond ``expected`` and ``observed``: names of fields of `Evidence`."""
        ...

    @property
    def anomalies(self) -> tuple[str, ...]:
        """What it calls wrong: those of its finding's ``counts`` that make a verdict INVALID."""
        ...

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        ...
