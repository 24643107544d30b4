"""Retention removes the first records of a log: a sound copy is never INVALID, and what is wrong in the rest is found."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from zlib import crc32

import pytest

from chaos.audit import dense_keys, expired, prepared
from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit import query as audit_expected
from chaos.audit.judge import judge
from chaos.matching.fast import PLAIN
from tests.planted.examples import EXAMPLES
from tests.planted.log import land
from verifiers.base import Bounds, Verdict
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
COPY = "SELECT key, value, partition, offset FROM source"
SOME = "SELECT key, concat(value, '!') AS value, partition, offset FROM source WHERE value <> 'b' AND value IS NOT NULL"
MANY = max(2, EXAMPLES.max_examples // 2)


@pytest.fixture
def audited(spark, tmp_path):
    """Land two logs, and audit them in one of the ways; the findings by verifier."""

    def ask(source, sink, how, /, **known):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        for name, rows in (("source", source), ("sink", sink)):
            land(folder / name, rows, COLUMNS)
        logs = audit_logs.landed(spark, str(folder), identity=how.get("key", "key"))
        logs = replace(logs, fixed=replace(logs.fixed, **known))
        anywhere = how.get("anywhere", False)
        if "query" in how:
            asked = audit_expected.by_model(logs, audit_expected.model(how["query"]), anywhere=anywhere)
        elif how.get("dense"):
            asked = dense_keys.dense(logs, audit_identity.model("identity"))
        else:
            limits = how.get("limits", Limits())
            asked = prepared.by_key(logs, audit_identity.model("identity"), anywhere=anywhere, limits=limits)
        found = {one.verifier: one for one in judge(logs, asked)}
        spark.catalog.clearCache()
        return found

    return ask


WAYS = {
    "default identity": {"dense": True},
    "key": {},
    "any routing": {"anywhere": True},
    "an expression": {"key": "concat(key, '-', coalesce(value, ''))"},
    "a query": {"query": COPY},
    "a query that filters": {"query": SOME},
    "a query, any routing": {"query": COPY, "anywhere": True},
}


def a_source(rng, how):
    """Records of three partitions, in the order in which they were written: keys recur, or do not."""
    keys = rng.choice([1, 5, 40, 10**6])
    values = rng.choice([["a"], ["a", "b", None], None])
    named = "" if how.get("dense") else rng.choice(["", "user-"])
    found = []
    for number in range(rng.choice([30, 150])):
        key = number if keys == 10**6 else rng.randrange(keys)
        home = key % 3 if how.get("anywhere") or rng.random() < 0.5 else number % 3
        found.append((home, f"{named}{key}", str(number) if values is None else rng.choice(values)))
    return found


def answered(record, how):
    """The rows that a record demands, without their partitions."""
    _, key, value = record
    if how.get("query") == SOME:
        return [(key, f"{value}!")] if value not in {"b", None} else []
    return [(key, value)]


def copied(records, how, rng):
    """The rows of the sink, in the order in which they were written: partitions are read one by one, some records at a time."""
    left = {home: [one for one in records if one[0] == home] for home in range(3)}
    found = []
    while any(left.values()):
        home = rng.choice([home for home in left if left[home]])
        size = rng.randrange(1, 9)
        now, left[home] = left[home][:size], left[home][size:]
        for record in now:
            for key, value in answered(record, how):
                there = crc32(key.encode()) % 6 if how.get("anywhere") else home
                found.append((there, key, value))
    return found


def placed(rows, rng):
    """At rising offsets, with holes."""
    ends = Counter()
    found = []
    for partition, key, value in rows:
        found.append((partition, ends[partition], key, value))
        ends[partition] += 1 + (rng.randrange(5) == 0)
    return found, ends


def retained(log, ends, rng, *, most=1.0):
    """The rows that retention leaves, and the ends of the partitions."""
    lows = {home: rng.choice([0, rng.randrange(int(most * end) + 1)]) for home, end in ends.items()}
    bounds = {home: Bounds(lows[home], end, end) for home, end in ends.items()}
    return [row for row in log if row[1] >= lows[row[0]]], bounds


def both(rng, how):
    """A source and a sound sink, each with its ends."""
    records = a_source(rng, how)
    source, ends = placed(records, rng)
    rows, sink_ends = placed(copied(records, how, rng), rng)
    return retained(source, ends, rng), (rows, sink_ends)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(MANY))
def test_a_sound_copy_is_never_invalid(audited, way, seed):
    """Whatever recurs, and whichever of the logs has lost its begin; what was not compared is told with its number."""
    rng, how = Random(f"{way} {seed}"), WAYS[way]
    (source, bounds), (sink, sink_ends) = both(rng, how)
    sink, sink_bounds = retained(sink, sink_ends, rng) if rng.random() < 0.4 else (sink, _whole(sink_ends))

    found = audited(source, sink, how, source=bounds, sink=sink_bounds)

    assert {name: one.verdict for name, one in found.items() if one.verdict is Verdict.INVALID} == {}
    if how.get("anywhere") or "query" in how or not source or not sink:
        return
    left, missing = (sum((one - other).values()) for one, other in _counted(source, sink))
    assert ("rows of the sink may answer expired" in found["values"].note) is (left > 0)
    assert ("records may have expired" in found["gaps"].note) is (missing > 0)
    told = Verdict.UNKNOWN if left or missing else Verdict.VALID
    assert max(one.verdict for one in found.values()) is told
    assert {one.count for one in found.values()} == {0}


def _whole(ends):
    return {home: Bounds(0, end, end) for home, end in ends.items()}


def _counted(source, sink):
    wanted, there = (Counter(row[0] for row in log) for log in (source, sink))
    return (there, wanted), (wanted, there)


@pytest.mark.parametrize("way", ["default identity", "key", "a query", "any routing"])
@pytest.mark.parametrize("seed", range(MANY))
def test_what_is_wrong_behind_the_begin_is_found(audited, way, seed):
    """One row of the second half of what is left is lost, there again, or another one: INVALID, and one finding counts it."""
    rng, how = Random(f"{way} {seed}"), WAYS[way]
    records = [(home, key, f"{number}") for number, (home, key, _) in enumerate(a_source(rng, how))]
    source, ends = placed(records, rng)
    source, bounds = retained(source, ends, rng, most=0.5)
    rows = copied(records, how, rng)
    left = {row[2:] for row in source}
    late = [place for place, row in enumerate(rows) if row[1:] in left and place > 2 * len(rows) // 3]
    at = rng.choice(late)
    damage = rng.choice(["lost", "again", "value"])
    if damage == "lost":
        del rows[at]
    elif damage == "again":
        rows.append(rows[at])
    else:
        rows[at] = (*rows[at][:2], "x")
    sink, sink_ends = placed(rows, rng)

    found = audited(source, sink, how, source=bounds, sink=_whole(sink_ends))

    wrong = {name: one.count for name, one in found.items() if one.verdict is Verdict.INVALID and name != "ordering"}
    of = {"lost": {"gaps": 1}, "again": {"duplicates": 1}, "value": {"values": 1}}[damage]
    if way == "any routing":  # a row that is before all that is certain may answer an expired record
        assert wrong in ([of, {"gaps": 1}] if damage == "value" else [of, {}] if damage == "again" else [of])
    else:
        assert wrong == of


@pytest.mark.parametrize("way", ["default identity", "key"])
@pytest.mark.parametrize("seed", range(MANY))
def test_the_findings_are_those_of_joins(audited, way, seed):
    """To the letter, where few rows are asked about and where all are joined."""
    rng, how = Random(f"joins {way} {seed}"), WAYS[way]
    (source, bounds), (sink, _) = both(rng, how)
    rows = [row for row in sink if rng.random() > 0.03]
    sink, sink_ends = placed([(row[0], *row[2:]) for row in rows], rng)
    known = {"source": bounds, "sink": _whole(sink_ends)}

    quick = audited(source, sink, how, **known)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(PLAIN, "1")
        joined = audited(source, sink, how, **known)

    assert quick == joined


LARGE = {"limits": Limits(driver_rows=0, chunk_bits=1)}


@pytest.mark.parametrize("seed", range(2 * MANY))
def test_executors_find_what_the_driver_finds(audited, seed):
    """Whatever has expired, an open transaction hides or a group has not passed, and whether the rest is a copy."""
    rng = Random(f"executors {seed}")
    (source, bounds), (sink, sink_ends) = both(rng, {})
    sink, sink_bounds = retained(sink, sink_ends, rng) if rng.random() < 0.5 else (sink, _whole(sink_ends))
    if rng.random() < 0.3:
        sink = [row for row in sink if rng.random() > 0.03]
    if rng.random() < 0.3:
        sink_bounds = {home: replace(one, hw=one.hw + rng.randrange(2)) for home, one in sink_bounds.items()}
    known = {"source": bounds, "sink": sink_bounds}
    if rng.random() < 0.3:
        known["positions"] = {home: one.hw - rng.randrange(3) for home, one in bounds.items()}

    assert audited(source, sink, LARGE, **known) == audited(source, sink, {}, **known)


@pytest.mark.parametrize(
    ("source", "sink", "ends", "unknown"),
    [
        pytest.param(range(4, 10), range(10), (4, 0), "values", id="the source begins above 0"),
        pytest.param(range(10), range(3, 10), (0, 3), "gaps", id="the sink does"),
        pytest.param(range(4, 10), range(3, 10), (4, 3), "values", id="both do"),
    ],
)
def test_no_rows_are_held_for_a_large_copy(audited, monkeypatch, source, sink, ends, unknown):
    """The numbers of rows show where the compared part begins."""
    monkeypatch.setattr(expired, "compare", None)
    whole = log(*(("k", str(number)) for number in range(10)))
    known = {name: {0: Bounds(low, 10, 10)} for name, low in zip(("source", "sink"), ends, strict=True)}

    found = audited([whole[at] for at in source], [whole[at] for at in sink], LARGE, **known)

    assert {name for name, one in found.items() if one.verdict is Verdict.UNKNOWN} >= {unknown}
    assert {one.count for one in found.values()} == {0}


def log(*rows):
    """One partition: key and value of each record, at offsets from 0 on."""
    return [(0, offset, key, value) for offset, (key, value) in enumerate(rows)]


DOUBLES = "records of the source demand the same row as an earlier one, so as many equal rows of the sink are right"


@pytest.mark.parametrize("way", ["default identity", "key", "a query"])
def test_keys_that_recur(audited, way, snapshot):
    """Half of a hundred records have expired, with seven keys; the other half was compared."""
    sink = log(*((str(number % 7), f"v{number % 3}") for number in range(100)))

    found = audited(sink[50:], sink, WAYS[way], source={0: Bounds(50, 100, 100)})

    unknown = {name: str(one.note) for name, one in found.items() if one.verdict is Verdict.UNKNOWN}
    told = "" if way == "a query" else f"; 29 {DOUBLES}"
    assert unknown == {"duplicates": f"{found['values'].note}{told}", "values": found["values"].note}
    assert found["values"].note == snapshot
    assert {(one.count, one.checked) for one in found.values()} == {(0, 50)}


@pytest.mark.parametrize("way", ["default identity", "key", "any routing"])
def test_more_rows_than_can_have_expired(audited, way):
    """All that is left is there again: it may have been there before, but not so many records can have been."""
    whole = log(*((str(number), "v") for number in range(10)))
    again = [(0, 10 + number, *row[2:]) for number, row in enumerate(whole[4:])]

    found = audited(whole[4:], [*whole, *again], WAYS[way], source={0: Bounds(4, 10, 10)})

    assert found["duplicates"].verdict is Verdict.INVALID
    assert found["duplicates"].count == 6


@pytest.mark.parametrize("way", ["default identity", "key", "a query"])
@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        pytest.param(lambda rows: [*rows[:7], *rows[8:]], {"gaps": 1}, id="lost"),
        pytest.param(lambda rows: [*rows, ("7", "7")], {"duplicates": 1, "ordering": 1}, id="again"),
        pytest.param(lambda rows: [*rows, ("99", "x")], {"values": 1}, id="phantom at the end"),
        pytest.param(lambda rows: [*rows[:7], rows[8], rows[7], rows[9]], {"ordering": 1}, id="two in each other's place"),
        pytest.param(lambda rows: [*rows, ("2", "2")], {"values": 1}, id="an expired record at the end"),
    ],
)
def test_what_is_certain_behind_the_begin(audited, way, sink, wrong, snapshot):
    """Four records have expired, whose rows are not compared; what is wrong in the others is so for certain."""
    rows = [(str(number), str(number)) for number in range(10)]

    found = audited(log(*rows)[4:], log(*sink(rows)), WAYS[way], source={0: Bounds(4, 10, 10)})

    assert {name: one.count for name, one in found.items() if one.count} == wrong
    assert {name for name, one in found.items() if one.verdict is Verdict.INVALID} == set(wrong)
    assert "offset 4 of partition 0: 4 rows " in found["values"].note
    assert found["values"].note == snapshot


@pytest.mark.parametrize(("lost", "verdict"), [((), Verdict.UNKNOWN), ((8,), Verdict.INVALID)])
@pytest.mark.parametrize("way", ["default identity", "key", "a query"])
def test_a_sink_whose_begin_has_expired(audited, way, lost, verdict, snapshot):
    """Rows missing before its first row may have expired; rows missing after it are lost."""
    source = log(*((str(number), "v") for number in range(10)))
    sink = [row for row in source[3:] if row[1] not in lost]

    found = audited(source, sink, WAYS[way], sink={0: Bounds(3, 10, 10)}, positions={0: 10})

    assert (found["gaps"].verdict, found["gaps"].count) == (verdict, len(lost))
    assert found["gaps"].note == snapshot
    assert (found["offsets"].verdict, found["offsets"].count) == (Verdict.INVALID if lost else Verdict.VALID, len(lost))


def test_a_group_in_the_middle_of_what_is_left(audited):
    """Rows beyond its position are ahead, and rows of expired records are not, though they are alike."""
    whole = log(*(("k", "ab"[number % 2]) for number in range(12)))
    source, ends = whole[6:], {0: Bounds(6, 12, 12)}

    right = audited(source, whole[:9], {}, source=ends, positions={0: 9})
    ahead = audited(source, whole[:10], {}, source=ends, positions={0: 9})

    assert {name: one.count for name, one in right.items()} == dict.fromkeys(right, 0)
    assert {name for name, one in right.items() if one.verdict is Verdict.UNKNOWN} == {"duplicates", "values", "gaps"}
    assert {name for name, one in ahead.items() if one.verdict is Verdict.INVALID} <= {"offsets"}


def test_any_routing_tells_what_is_certain(audited):
    """Behind rows that certainly answer what is left, one too many is a duplicate; before them it may be an expired one."""
    whole = log(*((str(number), "v") for number in range(10)))
    ends = {0: Bounds(4, 10, 10)}

    behind = audited(whole[4:], [*whole, (0, 10, "6", "v")], WAYS["any routing"], source=ends)
    before = audited(
        whole[4:], [(0, 0, "6", "v"), *((0, row[1] + 1, *row[2:]) for row in whole[3:])], WAYS["any routing"], source=ends
    )

    assert (behind["duplicates"].verdict, behind["duplicates"].count) == (Verdict.INVALID, 1)
    assert {one.verdict for one in before.values()} == {Verdict.VALID, Verdict.UNKNOWN}
    assert "2 rows of the sink may answer expired records" in before["values"].note


def test_partitions_are_counted_one_by_one(audited):
    """A partition that is whole excuses nothing, whatever has expired in another."""
    whole = [(home, number, f"k{number % 3}", "v") for home in range(2) for number in range(9)]
    again = [*whole, (1, 9, "k1", "v")]

    found = audited([row for row in whole if row[0] or row[1] > 3], again, {}, source={0: Bounds(4, 9, 9), 1: Bounds(0, 9, 9)})

    assert {name: one.count for name, one in found.items() if one.count} == {"duplicates": 1}
    assert found["duplicates"].verdict is Verdict.INVALID
