"""Random damage, judged twice: by Spark, and by plain Python that follows the definitions word by word."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.disordered import out_of_place
from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Batch, Expected, Line, Log, Record, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds

PARTITIONS = 3
KEYS = st.one_of(st.integers(0, 35).map(str), st.sampled_from([None, "", "007", "-1", "x"]))
WRITES = st.tuples(st.integers(0, PARTITIONS - 1), KEYS, st.sampled_from(["right", "right", "wrong", None]))


@st.composite
def damaged(draw: st.DrawFn) -> Log:
    """Records left out, and anything written anywhere in between, at offsets with holes."""
    log = clean(30, PARTITIONS)
    left_out = draw(st.sets(st.integers(0, 29), max_size=6))
    writes = [(one.partition, one.key, one.value) for one in log.without(*left_out).observed]
    for partition, key, value in draw(st.lists(WRITES, max_size=8)):
        right = str(int(key) ** 2) if value == "right" and key and key.isdigit() else value
        writes.insert(draw(st.integers(0, len(writes))), (partition, key, right))
    step = draw(st.integers(1, 3))
    observed = tuple(Record(home, step * place, BEGAN_MS, key, value) for place, (home, key, value) in enumerate(writes))
    unknown = draw(st.sets(st.integers(0, 29), max_size=6))
    positions = {home: draw(st.integers(0, 10)) for home in range(PARTITIONS)}
    log = replace(log.demanding(*unknown, required=False), observed=observed, positions=positions)
    lines = tuple(_line(draw, id_, log) for id_ in range(0, 36, 2))
    return replace(log, lines=lines, again_read=tuple(_read_again(draw, observed)))


def _line(draw: st.DrawFn, id_: int, log: Log) -> Line:
    """Where it is, where another is, or nowhere."""
    places = [(row.partition, row.offset) for row in log.observed if row.key == str(id_)]
    place = draw(st.sampled_from([*places, *places, (id_ % PARTITIONS, 7), (id_ % PARTITIONS, None), (None, None)]))
    return Line(id_, draw(st.sampled_from(["ok", "ok", "ok", "unknown", "fail"])), *place)


def _read_again(draw: st.DrawFn, rows: tuple[Record, ...]) -> Iterator[Record]:
    """Some are gone, some are others, some are new, and some ends are cut off."""
    cut = draw(st.integers(len(rows) // 2, 2 * len(rows)))
    for place, row in enumerate(rows):
        fate = draw(st.sampled_from(["same"] * 20 + ["gone", "other", "new"]))
        if fate != "gone" and place < cut:
            yield row._replace(value="other") if fate == "other" else row
        if fate == "new":
            yield row._replace(partition=(row.partition + 1) % PARTITIONS)


@st.composite
def transactions(draw: st.DrawFn) -> Log:
    """Batches of two producers and of one without transactions, their markers, holes, and two views of the rows."""
    batches, rows, bounds = [], list[Record](), {}
    for home in range(PARTITIONS):
        begin = end = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(0, 8))):
            first = end + draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
            control = draw(st.sampled_from([None, None, "COMMIT", "ABORT"]))
            end = first + (1 if control else draw(st.integers(1, 3)))
            producer = draw(st.sampled_from([7, 8] if control else [7, 7, 8, -1]))
            epoch = draw(st.integers(0, 2)) if producer > 0 else -1
            batches.append(Batch(home, first, end - 1, producer, epoch, transactional=producer > 0, control=control))
            offsets = () if control else range(first, end)
            rows += [Record(home, offset, BEGAN_MS, str(len(rows)), "x") for offset in offsets]
        hw = end + draw(st.integers(0, 1))
        bounds[home] = Bounds(begin, draw(st.integers(begin, hw)), hw)
    seen = draw(st.lists(st.sampled_from(["both", "both", "both", "later", "only", "other", "none"]), min_size=len(rows)))
    fates = list(zip(rows, seen, strict=False))
    return Log(
        expected=(),
        observed=tuple(row for row, fate in fates if fate in {"both", "only", "other"}),
        bounds=bounds,
        positions={},
        uncommitted=tuple(
            row._replace(value="y") if fate == "other" else row for row, fate in fates if fate in {"both", "later", "other"}
        ),
        batches=tuple(batches),
    )


def reference(log: Log) -> Mapping[str, Mapping[str, int]]:
    """Verifier -> its counts."""
    expected = {row.id: row for row in log.expected}
    decoded = [(record, _id(record.key)) for record in log.observed]
    ids = Counter(id_ for _, id_ in decoded if id_ is not None)
    numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for record, id_ in sorted(decoded, key=lambda pair: pair[0].offset):
        if id_ in expected:
            numbers[record.partition, id_ % PARTITIONS].append(id_ // PARTITIONS)
    inversions = sum(len(out_of_place(one)) for one in numbers.values())
    gaps = Counter(_gap(row, row.id in ids, log.positions) for row in log.expected)
    values = Counter(_value(record, id_, expected) for record, id_ in decoded)
    return {
        "duplicates": {"duplicate": sum(ids.values()) - len(ids)},
        "gaps": {kind: gaps[kind] for kind in ("lost", "pending", "recovered", "absent")},
        "ordering": {"inversion": inversions},
        "offsets": _offsets(log, ids),
        "ledger": _ledger(log),
        "stability": _stability(log),
        "values": {kind: values[kind] for kind in ("wrong value", "phantom", "misrouted", "undecodable")},
    }


@EXAMPLES
@given(log=damaged())
def test_counts_are_those_of_the_definitions(spark: SparkSession, log: Log) -> None:
    """Whatever the damage, each anomaly is counted as often as its definition says."""
    evidence = log.evidence(spark, {"ledger", "again"})

    assert {name: dict(VERIFIERS[name].check(evidence).counts) for name in reference(log)} == reference(log)


@EXAMPLES
@given(log=transactions())
def test_transactions_are_judged_as_their_definitions_say(spark: SparkSession, log: Log) -> None:
    """Whatever was written and whichever rows a reader was given."""
    finding = VERIFIERS["atomicity"].check(log.evidence(spark, {"uncommitted", "batches"}))

    assert dict(finding.counts) == _atomicity(log)


def _id(key: str | None) -> int | None:
    return int(key) if key and key.isdigit() and key == str(int(key)) else None


def _gap(row: Expected, there: bool, positions: Mapping[int, int]) -> str:  # noqa: FBT001 - a truth table
    if not row.required:
        return "recovered" if there else "absent"
    return "there" if there else "lost" if row.position < positions[row.partition] else "pending"


def _value(record: Record, id_: int | None, expected: Mapping[int, Expected]) -> str:
    if id_ is None:
        return "undecodable"
    if id_ not in expected:
        return "phantom"
    if record.value != expected[id_].value:
        return "wrong value"
    return "right" if record.partition == expected[id_].partition else "misrouted"


def _offsets(log: Log, ids: Mapping[int, int]) -> Mapping[str, int]:
    past = {row.id: row.position < log.positions[row.partition] for row in log.expected}
    behind = sum(row.required and past[row.id] and row.id not in ids for row in log.expected)
    return {"behind": behind, "ahead": sum(not past[row.id] and row.id in ids for row in log.expected)}


def _ledger(log: Log) -> Mapping[str, int]:
    kinds = Counter[str]()
    for line in log.lines or ():
        places = [(row.partition, row.offset) for row in log.observed if row.key == str(line.id)]
        if line.outcome == "unknown":
            kinds["recovered" if places else "absent"] += 1
        elif line.outcome == "fail":
            kinds["refused"] += bool(places)
        elif not places:
            kinds["not written"] += 1
        elif line.offset is None:
            kinds["unplaced"] += 1
        else:
            kinds["elsewhere"] += (line.partition, line.offset) not in places
    return {kind: kinds[kind] for kind in ("not written", "elsewhere", "refused", "recovered", "absent", "unplaced")}


def _stability(log: Log) -> Mapping[str, int]:
    once, again = ({(row.partition, row.offset): row for row in rows} for rows in (log.observed, log.again_read or ()))
    ends = {home: max((offset for at, offset in again if at == home), default=-1) for home in range(PARTITIONS)}
    gone = [offset > ends[home] for home, offset in once if (home, offset) not in again]
    changed = sum(place in again and again[place] != row for place, row in once.items())
    appeared = sum(place not in once for place in again)
    return {"truncated": sum(gone), "vanished": len(gone) - sum(gone), "changed": changed, "appeared": appeared}


def _atomicity(log: Log) -> Mapping[str, int]:
    batches = sorted(log.batches or ())
    read, there = ({(row.partition, row.offset): row for row in rows} for rows in (log.observed, log.uncommitted or ()))
    fates = {(batch.partition, offset): _fate(batch, batches) for batch in batches for offset in _span(batch)}
    kinds = Counter(_seen(read.get(place), there.get(place), fates[place], log.bounds[place[0]]) for place in {*read, *there})
    marked = {(batch.partition, offset) for batch in batches if batch.control for offset in _span(batch)}
    taken = {*there, *marked}
    kinds["unaccounted"] = sum(
        (home, offset) not in taken for home, ends in log.bounds.items() for offset in range(ends.low, ends.hw)
    )
    kinds["not ended"] = len(
        {(batch.partition, batch.producer_id) for batch in batches if not batch.control and _fate(batch, batches) == "open"}
    )
    kinds["torn"], kinds["undecided"] = _torn(batches)
    kinds["zombie write"] = sum(len(_span(batch)) for batch in batches if _is_zombie(batch, batches))
    named = (
        "torn",
        "zombie write",
        "aborted read",
        "early read",
        "withheld",
        "split view",
        "unaccounted",
        "aborted",
        "open",
        "not ended",
        "undecided",
    )
    return {kind: kinds[kind] for kind in named}


def _span(batch: Batch) -> range:
    return range(batch.first_offset, batch.last_offset + 1)


def _fate(batch: Batch, batches: list[Batch]) -> str:
    """COMMIT, ABORT or open: what the next marker of its producer in its partition says."""
    if not batch.transactional:
        return "COMMIT"
    later = (one for one in batches if one[:1] == batch[:1] and one.first_offset > batch.first_offset)
    return next((one.control for one in later if one.producer_id == batch.producer_id and one.control), "open")


def _seen(read: Record | None, there: Record | None, fate: str, ends: Bounds) -> str:
    if there is None or (read is not None and read != there):
        return "split view"
    if read is not None:
        return {"COMMIT": "committed", "ABORT": "aborted read", "open": "early read"}[fate]
    if fate == "ABORT":
        return "aborted"
    return "withheld" if fate == "COMMIT" and there.offset < ends.lso else "open"


def _is_zombie(batch: Batch, batches: list[Batch]) -> bool:
    """Rows that are given though their producer had a newer epoch before, or has one before the next marker."""
    if batch.control or batch.producer_id < 0 or _fate(batch, batches) != "COMMIT":
        return False
    same = [one for one in batches if (one.partition, one.producer_id) == (batch.partition, batch.producer_id)]
    later = same[same.index(batch) :]
    end = next((place for place, one in enumerate(later) if one.control), 0)
    return any(one.producer_epoch > batch.producer_epoch for one in [*same[: same.index(batch)], *later[:end]])


def _torn(batches: list[Batch]) -> tuple[int, int]:
    """Producers and epochs with both kinds of marker; those of them that ended rows all raised the epoch of these.

    And those, of several partitions, of which one did not, or none ended a row.
    """
    endings, homes = defaultdict(set), defaultdict(set)
    kept, raised = set[tuple[int, int]](), set[tuple[int, int]]()
    written: dict[tuple[int, int], int] = {}
    for batch in batches:
        line, transaction = (batch.partition, batch.producer_id), (batch.producer_id, batch.producer_epoch)
        if batch.control is None:
            written[line] = max(batch.producer_epoch, written.get(line, -1))
            continue
        endings[transaction].add(batch.control)
        homes[transaction].add(batch.partition)
        if (epoch := written.pop(line, None)) is not None:
            (raised if epoch < batch.producer_epoch else kept).add(transaction)
    mixed = {transaction for transaction, kinds in endings.items() if len(kinds) > 1}
    single = raised - kept
    return len(mixed & single), sum(len(homes[transaction]) > 1 for transaction in mixed - single)
