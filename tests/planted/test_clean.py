"""No false alarm: whatever a correct pipeline may leave behind, no verifier, and no way of judging, says INVALID.

``PLANTED_EXAMPLES=1000 pytest tests/planted/test_clean.py`` tries a thousand of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Batch, Expected, Line, Log, Open, Record, Told, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds, Verdict
from verifiers.single_scan import islands
from verifiers.single_scan.groups import Limits

pytestmark = pytest.mark.timeout(80 * EXAMPLES.max_examples)  # each is asked of every verifier, and the machine may be busy
LIMITS = st.sampled_from([Limits(), Limits(block_bits=2, least_run=0), Limits(block_bits=1, least_run=10**9)])
VIEWS = ("uncommitted", "again", "batches", "ledger", "open_transactions", "told", "deliveries", "commits")
STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
NINE = 9  # a producer id
CUTS = st.lists(st.integers(1, 11), max_size=3)


@dataclass
class Partition:
    """A partition that is written to."""

    home: int
    low: int
    rows: list[Record] = field(default_factory=list)
    hidden: list[Record] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    epoch: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.low

    def write(self, wanted: list[Expected], cuts: list[int], control: str | None, *, learned: bool = True) -> None:
        """Batches of these rows, cut at these places, and the marker of their transaction if they are in one.

        Args:
            learned: whether the writer learned how the transaction ended.
        """
        producer = (1000 + self.home, self.epoch) if control else None
        name = f"{self.home}-{self.end}"
        self.add(wanted, cuts, producer, hidden=control == "ABORT")
        if control and producer:
            self.tell(wanted, name, control, learned=learned)
            self.mark(producer, control)

    def tell(self, wanted: list[Expected], transaction: str, control: str, *, learned: bool) -> None:
        """The outcome of a transaction with these rows, as the writer learned it."""
        outcome = {"COMMIT": "committed", "ABORT": "aborted"}[control] if learned else "unknown"
        self.told += [Told(transaction, outcome, str(row.id)) for row in wanted]

    def add(self, wanted: list[Expected], cuts: list[int], producer: tuple[int, int] | None, *, hidden: bool) -> None:
        """Batches of these rows, cut at these places, in a transaction of this producer id and epoch if there is one."""
        into = self.hidden if hidden else self.rows
        for begin, end in pieces(len(wanted), cuts):
            first = self.end
            into += [
                Record(self.home, first + place, BEGAN_MS + row.id, str(row.id), row.value)
                for place, row in enumerate(wanted[begin:end])
            ]
            writer = (*producer, True) if producer else (-1, -1, False)
            self.batches.append(Batch(self.home, first, first + end - begin - 1, *writer, None))

    def mark(self, producer: tuple[int, int], control: str) -> None:
        """The marker of a transaction."""
        self.batches.append(Batch(self.home, self.end, self.end, *producer, transactional=True, control=control))


@dataclass
class Shared:
    """Producers whose transactions are in several partitions: one, or two that take turns.

    Attributes:
        version: of transactions: with 2 a marker has the next epoch, and so has the producer's next transaction (KIP-890).
        epochs: producer id -> its epoch.
    """

    version: int
    epochs: dict[int, int]

    def write(self, draw: st.DrawFn, ones: list[Partition], there: dict[int, list[Expected]]) -> None:
        """All these rows, in transactions over some of the partitions, some aborted before they are committed.

        A partition may be part of a transaction that has no row in it: then there is just its marker.
        """
        left = {home: list(rows) for home, rows in there.items()}
        while any(left.values()):
            producer = draw(st.sampled_from(sorted(self.epochs)))
            homes = draw(st.permutations([one.home for one in ones if left[one.home]]))
            taken = {home: left[home][: draw(st.integers(1, 12))] for home in homes[: draw(st.integers(1, 4))]}
            taken |= {one.home: [] for one in ones if one.home not in taken and draw(st.booleans())}
            for control in [*["ABORT"] * draw(st.sampled_from([0, 0, 0, 1, 2])), "COMMIT"]:
                self._transaction(draw, producer, [one for one in ones if one.home in taken], taken, control)
            for home, rows in taken.items():
                del left[home][: len(rows)]

    def _transaction(
        self, draw: st.DrawFn, producer: int, ones: list[Partition], taken: dict[int, list[Expected]], control: str
    ) -> None:
        """A fencing abort has the next epoch, and the producer that comes after it the one after that (KIP-360)."""
        epoch = self.epochs[producer]
        name, learned = f"{producer}-{sum(len(one.batches) for one in ones)}", draw(st.sampled_from([True, True, False]))
        for one in draw(st.permutations(ones)):
            one.add(taken[one.home], draw(CUTS), (producer, epoch), hidden=control == "ABORT")
            one.tell(taken[one.home], name, control, learned=learned)
        is_fencing = control == "ABORT" and draw(st.booleans())
        ended = epoch + (is_fencing or self.version == 2)
        for one in draw(st.permutations(ones)):
            one.mark((producer, ended), control)
        self.epochs[producer] = ended + is_fencing


def pieces(length: int, cuts: list[int]) -> Iterator[tuple[int, int]]:
    """Begin and end of what lies between the cuts."""
    places = [0, *sorted({cut for cut in cuts if 0 < cut < length}), length]
    return pairwise(places) if length else iter(())


def scattered(rows: Iterable[Expected], seed: int, partitions: int) -> Iterator[Expected]:
    """Each in any partition, as a hash of the key would have it."""
    there, draw = Counter[int](), Random(seed)
    for row in rows:
        home = draw.randrange(partitions)
        yield row._replace(partition=home, position=there[home])
        there[home] += 1


@st.composite
def left_open(draw: st.DrawFn) -> tuple[Open, ...]:
    """None; or one that is going on, or being ended by its coordinator under a newer epoch, or that only began."""
    old, fences = draw(st.booleans()), draw(st.integers(0, 1))
    one = Open(0, asked_at_ms=BEGAN_MS + (10**6 if old else 2000), coordinator_epoch=3 + fences)
    ongoing = one._replace(coordinator_state=draw(st.sampled_from(STATES)))
    ended = one._replace(coordinator_state="CompleteCommit", listed=False, asked_at_ms=BEGAN_MS + 2000)
    return draw(st.sampled_from([(), (), (ongoing,), (ended,)]))


@st.composite
def correct(draw: st.DrawFn) -> Log:
    """The rows that a transactional or faultless pipeline writes for the records read so far.

    Transactions of any length, some aborted once or twice before they are committed, batches of any length, with a new epoch
    for each transaction or with one for all; transactions over several partitions, of version 1 or 2, aborted by the producer
    or because it was fenced; partitions without a record; retention that has removed what was there before
    the run; records whose writer never learned of them, written or not; rows that are still to come; ids in turn in the
    partitions of the source, or scattered over them; a transaction that is open when the brokers are asked.
    """
    records, partitions = draw(st.integers(0, 48)), draw(st.integers(1, 4))
    transactions, bumps = draw(st.sampled_from(["none", "of one partition", "over partitions"])), draw(st.booleans())
    unknown = draw(st.sets(st.integers(0, 47), max_size=5))
    log = clean(records, partitions).demanding(*unknown, required=False)
    if draw(st.booleans()):
        log = replace(log, expected=tuple(scattered(log.expected, draw(st.integers(0, 10**9)), partitions)))
    shared = Shared(draw(st.sampled_from([1, 2])), {NINE: 0, 10: 3}) if transactions == "over partitions" else None
    written, positions, for_all = [], {}, {}
    for home in range(partitions):
        wanted = [row for row in log.expected if row.partition == home]
        done = draw(st.sampled_from([len(wanted), len(wanted), draw(st.integers(0, len(wanted)))]))
        one = Partition(home, draw(st.sampled_from([0, 0, draw(st.integers(1, 10**12))])), epoch=draw(st.integers(0, 9)))
        there = for_all[home] = [row for row in wanted[:done] if row.required or draw(st.booleans())]
        for begin, end in pieces(len(there), draw(CUTS)) if shared is None else ():
            for control in (
                [*["ABORT"] * draw(st.sampled_from([0, 0, 0, 1, 2])), "COMMIT"] if transactions != "none" else [None]
            ):
                one.write(there[begin:end], draw(CUTS), control, learned=draw(st.sampled_from([True, True, False])))
                one.epoch += bumps
        written.append(one)
        positions[home] = done
    if shared is not None:
        shared.write(draw, written, for_all)
    rows = tuple(row for one in written for row in one.rows)
    places = {row.key: row for row in rows}
    told = draw(st.sets(st.integers(0, 47))) if draw(st.booleans()) else set(range(records))
    return replace(
        log,
        observed=rows,
        hidden=tuple(row for one in written for row in one.hidden),
        batches=tuple(batch for one in written for batch in one.batches),
        bounds={one.home: Bounds(one.low, one.end, one.end) for one in written},
        positions=positions,
        told_rows=tuple(row for one in written for row in one.told) if transactions != "none" else None,
        lines=tuple(
            _line(row, places.get(str(row.id)), told=row.id in told)
            for row in log.expected
            if str(row.id) in places or not row.required
        ),
        open_transactions=draw(left_open()),
    )


def _line(row: Expected, there: Record | None, *, told: bool) -> Line:
    """The place of an acknowledged record, if the writer learned it; otherwise nothing."""
    if there is None or not row.required:
        return Line(row.id, "unknown", None, None)
    return Line(row.id, "ok", there.partition, there.offset if told else None)


@EXAMPLES
@given(log=correct(), limits=LIMITS)
def test_what_a_correct_pipeline_leaves_is_no_alarm(spark: SparkSession, log: Log, limits: Limits) -> None:
    """Nothing is counted, by the verifiers and by islands; and what was not looked at is not called VALID."""
    evidence = log.evidence(spark, VIEWS)

    findings = [verifier.check(evidence) for verifier in VERIFIERS.values()]

    for finding in (*findings, *islands.check(evidence, limits)):
        assert (finding.count, finding.verdict is Verdict.INVALID) == (0, False), finding
        assert finding.verdict is Verdict.UNKNOWN or finding.checked, finding
        if is_whole(log):
            assert finding.verdict is (Verdict.VALID if finding.checked else Verdict.UNKNOWN), finding


def is_whole(log: Log) -> bool:
    """Nothing is still to come, and the writer was told where everything is: no verifier has a reason to be in doubt."""
    there = {row.key for row in log.observed}
    return (
        not log.open_transactions
        and all(line.outcome == "unknown" or line.offset is not None for line in log.all_lines())
        and all(str(row.id) in there or not row.required for row in log.expected)
    )


SEEN = (
    *("whole", "rows", "aborted", "empty", "retention", "pending", "absent", "open", "markers"),
    *("over partitions", "bumped marker", "marker alone", "fencing abort"),
)


def special(batches: Iterable[Batch]) -> Iterator[str]:
    """The special cases among the transactions of a log."""
    of_nine, open_under = set[int](), dict[tuple[int, int], int]()
    for batch in batches:
        who = batch.partition, batch.producer_id
        if batch.control is None:
            of_nine |= {batch.partition} if batch.producer_id == NINE else set()
            open_under[who] = batch.producer_epoch
        elif who not in open_under:
            yield "marker alone"
        elif open_under.pop(who) != batch.producer_epoch:
            yield "bumped marker" if batch.control == "COMMIT" else "fencing abort"
    if len(of_nine) > 1:
        yield "over partitions"


def test_the_generator_makes_what_it_promises() -> None:
    """A thousand cases of nothing would raise no alarm either."""
    seen: dict[str, int] = dict.fromkeys(SEEN, 0)

    @settings(EXAMPLES, max_examples=300)
    @given(log=correct())
    def look(log: Log) -> None:
        there = {row.key for row in log.observed}
        seen["whole"] += is_whole(log) and bool(log.observed)
        seen["rows"] += bool(log.observed)
        seen["aborted"] += bool(log.hidden)
        seen["empty"] += any(bounds.low == bounds.hw for bounds in log.bounds.values())
        seen["retention"] += any(bounds.low for bounds in log.bounds.values())
        seen["pending"] += any(row.position >= log.positions[row.partition] for row in log.expected if row.position is not None)
        seen["absent"] += any(not row.required and str(row.id) not in there for row in log.expected)
        seen["open"] += bool(log.open_transactions)
        seen["markers"] += any(batch.control == "COMMIT" for batch in log.batches or ())
        kinds = set(special(log.batches or ()))
        for kind in ("over partitions", "bumped marker", "marker alone", "fencing abort"):
            seen[kind] += kind in kinds

    look()

    assert all(seen.values()), seen
