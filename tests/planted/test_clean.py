"""No false alarm: whatever a correct pipeline may leave behind, no verifier, and no way of judging, says INVALID.

``PLANTED_EXAMPLES=1000 pytest --timeout 0 tests/planted/test_clean.py`` tries a thousand of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Batch, Expected, Line, Log, Record, Told, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds, Verdict
from verifiers.single_scan import islands
from verifiers.single_scan.groups import Limits

LIMITS = st.sampled_from([Limits(), Limits(block_bits=2, least_run=0), Limits(block_bits=1, least_run=10**9)])
VIEWS = ("uncommitted", "again", "batches", "ledger", "told", "deliveries")


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
        outcome = {"COMMIT": "committed", "ABORT": "aborted"}.get(control or "") if learned else "unknown"
        if control:
            self.told += [Told(f"{self.home}-{self.end}", outcome, str(row.id)) for row in wanted]
        into = self.hidden if control == "ABORT" else self.rows
        producer = (1000 + self.home, self.epoch, True) if control else (-1, -1, False)
        for begin, end in pieces(len(wanted), cuts):
            first = self.end
            into += [
                Record(self.home, first + place, BEGAN_MS + row.id, str(row.id), row.value)
                for place, row in enumerate(wanted[begin:end])
            ]
            self.batches.append(Batch(self.home, first, first + end - begin - 1, *producer, None))
        if control:
            self.batches.append(Batch(self.home, self.end, self.end, *producer, control))


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
def correct(draw: st.DrawFn) -> Log:
    """What a transactional pipeline, or one that never fails, writes of what it has read so far.

    Transactions of any length, some aborted once or twice before they are committed, batches of any length, with a new epoch
    for each transaction or with one for all; partitions without a record; retention that has removed what was there before
    the run; records whose writer never learned of them, written or not; rows that are still to come; ids in turn in the
    partitions of the source, or scattered over them.
    """
    records, partitions = draw(st.integers(0, 48)), draw(st.integers(1, 4))
    cut = st.lists(st.integers(1, 11), max_size=3)
    transactional, bumps = draw(st.booleans()), draw(st.booleans())
    unknown = draw(st.sets(st.integers(0, 47), max_size=5))
    log = clean(records, partitions).demanding(*unknown, required=False)
    if draw(st.booleans()):
        log = replace(log, expected=tuple(scattered(log.expected, draw(st.integers(0, 10**9)), partitions)))
    written, positions = [], {}
    for home in range(partitions):
        wanted = [row for row in log.expected if row.partition == home]
        done = draw(st.sampled_from([len(wanted), len(wanted), draw(st.integers(0, len(wanted)))]))
        one = Partition(home, draw(st.sampled_from([0, 0, draw(st.integers(1, 10**12))])), epoch=draw(st.integers(0, 9)))
        there = [row for row in wanted[:done] if row.required or draw(st.booleans())]
        for begin, end in pieces(len(there), draw(cut)):
            for control in [*["ABORT"] * draw(st.sampled_from([0, 0, 0, 1, 2])), "COMMIT"] if transactional else [None]:
                one.write(there[begin:end], draw(cut), control, learned=draw(st.sampled_from([True, True, False])))
                one.epoch += bumps
        written.append(one)
        positions[home] = done
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
        told_rows=tuple(row for one in written for row in one.told) if transactional else None,
        lines=tuple(
            _line(row, places.get(str(row.id)), told=row.id in told)
            for row in log.expected
            if str(row.id) in places or not row.required
        ),
    )


def _line(row: Expected, there: Record | None, *, told: bool) -> Line:
    """Of what was acknowledged, where it is, if the writer was told; of what it never learned, nothing."""
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
    return all(line.outcome == "unknown" or line.offset is not None for line in log.all_lines()) and all(
        str(row.id) in there or not row.required for row in log.expected
    )


def test_the_generator_makes_what_it_promises() -> None:
    """A thousand cases of nothing would raise no alarm either."""
    seen: dict[str, int] = dict.fromkeys(("whole", "rows", "aborted", "empty", "retention", "pending", "absent", "markers"), 0)

    @settings(EXAMPLES, max_examples=100)
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
        seen["markers"] += any(batch.control == "COMMIT" for batch in log.batches or ())

    look()

    assert all(seen.values()), seen
