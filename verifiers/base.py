"""The contract of verifiers: the evidence that they get, and the finding that they return.

A key identifies its record. The workload writes the ids 0, 1, 2, … as decimal strings; id ``i`` belongs to partition
``i mod P`` of the source and is number ``i div P`` there. A value alone does not identify it: x and -x have equal squares.
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
"""The position of a row that the whole processed source demands, and no single record of it; also the partition of an
example of such a row that is missing."""


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
        low: first offset of the log.
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
            ``required`` is false if the writer never learned the outcome: such a record may be there, once.
            ``position`` is the offset, in the source partition, of the input record that demands this row; null for the
            ledger, and `NO_PLACE` if no single record demands it.
        observed: columns partition int, offset long, timestamp_ms long, key string, value string; the log read
            read_committed up to ``bounds``.
        bounds: partition of the observed log -> how far it was read.
        positions: partition of the source -> committed position of the pipeline (exclusive); empty if there is none.
        uncommitted: as ``observed``, but read with read_uncommitted up to HW: aborted and open transactions, too.
        again: as ``observed``, read once more afterwards.
        batches: columns partition int, first_offset long, last_offset long (inclusive), producer_id long (-1: none),
            producer_epoch int, transactional boolean, control string (``COMMIT`` or ``ABORT`` for a transaction's marker,
            else null); every record batch from ``low`` to HW.
        ledger: columns id long, outcome string (``ok``, ``fail``: refused for good, ``unknown``), partition int, offset long
            (both null if the writer did not learn them); one row for every record that the writer sent.
        open_transactions: columns partition int, producer_id long, producer_epoch int, first_offset long,
            last_timestamp_ms long (of the producer's last batch), asked_at_ms long; and from its coordinator transactional_id
            string (null: none knows one for this producer id), coordinator_state string, coordinator_producer_id long,
            coordinator_epoch int (all three null: the id is no longer known), timeout_ms long (the broker's longest if the id
            is not known), listed boolean (whether the coordinator counts this partition in the transaction); one row for
            every transaction that was open in the partition both before and after its coordinator was asked.
        told: columns transaction string, told string (``committed``, ``aborted``, ``unknown``: also if its writer never learned
            or never reported it), id string (a key); one row for each key that the transaction wrote, as often as it wrote it,
            and one with a null id for a transaction without known keys.
        deliveries: columns instance string (one consumer, from one start of its process), seq long (grows with time within an
            instance), event string (``got``: handed to the application; ``start``: from here it reads on purpose), partition
            int, offset long (of a start: null if it is left to the client); what consumers read from this log.
        commits: columns partition int, seq long (grows with time), position long (the next offset to read; null: removed),
            committed_at_ms long (milliseconds since the epoch); the positions in this log that the pipeline's consumer group
            committed and that compaction has left.
        looks: columns partition int, seq long (grows with time), end long (the high watermark, exclusive, of this log),
            asked_at_ms long (when the last request with this answer was sent), answered_at_ms long (when the first one was
            answered); milliseconds since the epoch, by the observer's clock. A row for each change.
        reached: columns partition int (of the source, as positions are numbered), position long, committed_at_ms long (when it
            took effect, by the coordinator's clock: in a transaction with its marker), producer_id long (of the transaction
            that moved it; -1: outside of any); each position that the pipeline's consumer group committed.
        answers: columns partition int, offset long, id long (null: none), ordered boolean (false: it is one of several equal
            records, and which one is unknown, so its order is, too); for rows that are not integers: the id of each row of
            `observed`.
        keys: columns id long, key string; the keys of these ids.
        places: columns partition int, offset long, place string; for a table, whose rows are numbered like those of a log:
            where a row is, for people (a file, a version of the table).
        anywhere: whether a record may be in any partition of the log; an expected row then has the partition of its source
            record.
        source_partitions: number of the source's partitions, if it is not that of ``bounds``; else 0.
        state: whether the log is a state: only rows with an answer count, the last of each key.
        unordered: why the order of the expected rows is not known; empty if it is.
        ended: whether the pipeline had to end before it had done everything, so that pending records are not missed.
        unsaid: why the expected rows are not known; empty if they are.

    Only some verifiers need the views from ``uncommitted`` to ``reached``; only some logs have those from ``answers`` on.
    A view that was not landed is None.
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
        """P, the divisor of ids: id ``i`` is in partition ``i mod P`` of the source."""
        return self.source_partitions or max(1, len(self.bounds))


@dataclass(frozen=True, slots=True)
class Example:
    """One record that went wrong, with everything needed to find it in the log.

    Attributes:
        anomaly: one of the finding's ``counts``.
        partition: of the observed log (or the one it should be in; below 0 if that is not known), offset: there (None if it
            is absent).
        id: the record's id, or its key if rows are not integers (`Evidence.answers`); None if the key is not an id.
        timestamp_ms: of the observed record, milliseconds since the epoch. For a lost one, when a position past its input
            was committed first; None if that is not known.
        detail: the rest, e.g. ``also at offset 17``: a `Detail` with its facts, or plain words without any.
        since_ms: when all was still right: for a duplicate, the time of the copy before it. The damage was done after that.
        place: where it is in a table, in words; "" in a log, where partition and offset suffice.
        topic: the topic, if logs of several topics are judged; else "".
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
        """The detail in words, after its topic if it has one."""
        return f"in {self.topic}: {self.detail}" if self.topic else str(self.detail)

    def to_json(self) -> dict[str, Any]:
        """Return the fields; ``detail`` is in words, and ``said`` has its template and facts."""
        fields = asdict(self)
        return fields | {"detail": str(self.detail), "said": fields["detail"]} if isinstance(self.detail, Detail) else fields


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one verifier for one log.

    Attributes:
        verifier: its name in ``verify:``.
        subject: the log, as in the evidence.
        verdict: UNKNOWN if nothing was compared (``checked == 0``), whatever else is true.
        count: records that went wrong.
        checked: records compared.
        counts: anomaly -> records, with every anomaly of this verifier, e.g. {"lost": 0, "pending": 3}.
        examples: the first ones, at most 32, ordered by (partition, offset).
        note: why it is UNKNOWN, or what else a reader should know; may be empty.
        asked: whether the log was judged; if False, the note says what it lacks.
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
        """Return the fields; the verdict by its name, the note in words."""
        own = {"verdict": self.verdict.name, "note": str(self.note), "examples": [one.to_json() for one in self.examples]}
        return {name: getattr(self, name) for name in self.__slots__} | own


class Verifier(Protocol):
    """A verifier; it is pure: equal evidence gives equal findings."""

    @property
    def name(self) -> str:
        """Its name in scenarios."""
        ...

    @property
    def guarantee(self) -> str:
        """Its demand, as a sentence without a full stop; reports show it beside the finding."""
        ...

    @property
    def subjects(self) -> frozenset[str]:
        """The logs that it judges; it is not asked about others."""
        ...

    @property
    def views(self) -> frozenset[str]:
        """Fields of `Evidence` that it needs beyond ``expected`` and ``observed``."""
        ...

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The names in its finding's ``counts`` that make the verdict INVALID."""
        ...

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        ...
