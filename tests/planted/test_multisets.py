"""Keys that recur: both logs are multisets, and a perfect copy is VALID whatever its keys."""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from zlib import crc32

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import dense_keys, prepared
from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit.judge import judge
from chaos.audit.logs import AuditUsageError, Fixed
from tests.planted.disordered import out_of_place
from tests.planted.examples import nightly
from tests.planted.log import land
from verifiers.base import Bounds, Verdict

COLUMNS = "partition int, offset long, key string, value string"


@pytest.fixture
def audited(spark, tmp_path):
    """Land a source and its copy, and audit them; the findings by verifier."""

    def ask(source, sink, identity=prepared.by_key, /, **known):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        for name, rows in (("source", source), ("sink", sink)):
            land(folder / name, rows, COLUMNS)
        logs = audit_logs.landed(spark, str(folder))
        logs = replace(logs, fixed=replace(logs.fixed, **known))
        return {one.verifier: one for one in judge(logs, identity(logs, audit_identity.model("identity")))}

    yield ask
    spark.catalog.clearCache()  # every query is compared with all that is kept


def log(*rows):
    """One partition: key and value of each record, at offsets from 0 on."""
    return [(0, offset, key, value) for offset, (key, value) in enumerate(rows)]


def verdicts(findings):
    """Verdict and count of each verifier."""
    return {name: (one.verdict, one.count) for name, one in findings.items()}


VALID = dict.fromkeys(("duplicates", "gaps", "ordering", "values"), (Verdict.VALID, 0))


@pytest.mark.parametrize(
    ("source", "identity"),
    [
        pytest.param(log(("7", "a"), ("7", "b")), dense_keys.dense, id="one key twice"),
        pytest.param(log(("7", "a"), ("8", "x"), ("7", "a")), prepared.by_key, id="the same record again"),
        pytest.param(log(("5", "x"), ("3", "y")), dense_keys.dense, id="numbers that fall"),
        pytest.param([(0, 0, "7", "a"), (1, 0, "7", "a"), (1, 1, "7", None)], prepared.by_key, id="in two partitions"),
    ],
)
def test_a_perfect_copy_is_valid(audited, source, identity):
    """Whatever its keys are."""
    assert verdicts(audited(source, source, identity)) == VALID


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("sink", [slice(None), slice(1, None)], ids=["copy", "one is lost"])
def test_doubles_of_the_source_are_told(audited, sink, anywhere):
    """Also of a perfect copy: the rows that answer them are right, and nothing else says that they are there."""
    source = log(("k", "a"), ("k", "a"), ("k", "b"), ("l", "a"), ("k", "a"), ("l", "a"))

    found = audited(source, source[sink], partial(prepared.by_key, anywhere=anywhere))["duplicates"]

    assert (found.verdict, found.counts["doubles in the source"]) == (Verdict.VALID, 3)
    assert str(found.note).startswith("3 records of the source demand the same row as an earlier one")


def test_a_source_without_doubles_is_not_spoken_of(audited):
    """One key with other values, and one value with other keys."""
    source = log(("k", "a"), ("k", "b"), ("l", "a"))

    found = audited(source, source, prepared.by_key)["duplicates"]

    assert ("doubles in the source" in found.counts, found.note) == (False, "")


def test_one_of_many_is_lost(audited, snapshot):
    """Three were demanded and two are there; which of records that are alike is lost cannot be told, and is not to be."""
    source = log(("7", "a"), ("8", "x"), ("7", "a"), ("9", "y"), ("7", "a"))

    found = audited(source, [row for row in source if row[1] != 2])

    assert verdicts(found) == VALID | {"gaps": (Verdict.INVALID, 1)}
    assert str(found["gaps"].examples[0].id) == "7"
    assert found["ordering"].note == snapshot


def test_one_of_many_is_there_too_often(audited):
    """Two were demanded and three are there."""
    source = log(("7", "a"), ("8", "x"), ("7", "a"), ("9", "y"))

    found = audited(source, [*source, (0, 4, "7", "a")], dense_keys.dense)

    assert verdicts(found) == VALID | {"duplicates": (Verdict.INVALID, 1)}
    assert [(str(one.id), one.words) for one in found["duplicates"].examples] == [
        ("7", "also at offset 0; cause: unknown (without timestamps)")
    ]


def test_versions_of_one_key_keep_their_order(audited):
    """Records of one key that differ can be told apart: the older version came after the newer one."""
    source = log(("user", "1"), ("user", "2"), ("user", "3"))

    found = audited(source, log(("user", "1"), ("user", "3"), ("user", "2")))

    assert verdicts(found) == VALID | {"ordering": (Verdict.INVALID, 1)}


def test_a_version_that_nothing_demands(audited):
    """It stands in the place of the one that is not there."""
    found = audited(log(("user", "1"), ("user", "2")), log(("user", "1"), ("user", "x")))

    assert verdicts(found) == VALID | {"values": (Verdict.INVALID, 1)}
    assert found["values"].examples[0].words == "value x, expected 2"


def test_the_order_of_a_version_that_nothing_demands(audited):
    """It may stand in the place of the first record or of the last: its order is not judged."""
    source = log(("user", "1"), ("user", "2"), ("else", "1"), ("user", "3"))

    found = audited(source, log(("user", "2"), ("else", "1"), ("user", "x")))

    assert verdicts(found) == VALID | {"values": (Verdict.INVALID, 1), "gaps": (Verdict.INVALID, 1)}


def test_a_record_in_another_partition(audited):
    """It answers the record of its key and value that is not there, and is no duplicate of any other."""
    source = [(0, 0, "user", "1"), (0, 1, "user", "2"), (1, 0, "else", "1")]

    found = audited(source, [(0, 0, "user", "1"), (1, 0, "else", "1"), (1, 1, "user", "2")])

    assert verdicts(found) == VALID | {"values": (Verdict.INVALID, 1)}
    assert found["values"].counts["misrouted"] == 1


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_counts_are_those_of_multisets(audited, seed, anywhere):
    """Many keys with few values, damaged at random: lost, again, elsewhere, changed, and of keys that nothing demands."""
    rng = Random(seed)
    source = [(number % 3, number // 3, f"k{rng.randrange(40)}", rng.choice(["a", "b", None])) for number in range(240)]
    sink = damaged(source, rng)

    found = audited(source, sink, partial(prepared.by_key, anywhere=anywhere))

    counted = by_counting(*([(0, *row[1:]) for row in log] if anywhere else log for log in (source, sorted(sink))))
    assert (found["duplicates"].count, found["gaps"].count, dict(found["values"].counts)) == counted


def damaged(rows, rng):
    """A copy with a tenth of each damage, its offsets rising in every partition."""
    copied = []
    for partition, _, key, value in rows:
        match rng.randrange(10):
            case 0:
                pass
            case 1:
                copied += [(partition, key, value)] * 2
            case 2:
                copied.append(((partition + 1) % 3, key, value))
            case 3:
                copied.append((partition, key, f"x{value}"))
            case 4:
                copied += [(partition, key, value), (partition, f"stray{rng.randrange(9)}", value)]
            case _:
                copied.append((partition, key, value))
    ends = Counter()
    placed = []
    for partition, key, value in copied:
        placed.append((partition, ends[partition], key, value))
        ends[partition] += 1
    return placed


def by_counting(source, sink):
    """Duplicates, lost records, and values by kind, counted one by one; the sink is ordered."""
    records = [(partition, key, value) for partition, _, key, value in source]
    rows = [(partition, key, value) for partition, _, key, value in sink]
    free, left = matched(Counter(records), rows, lambda row: row)
    free, others = matched(summed(free, lambda record: record[1:]), left, lambda row: row[1:])
    demanded = {record[1:] for record in records}
    again = [row for row in others if row[1:] in demanded]
    keys = {key for _, key, _ in records}
    strays = [key for _, key, _ in others if key not in keys]
    changed = [row for row in others if row[1:] not in demanded and row[1] in keys]
    free, changed_again = matched(summed(free, lambda record: record[0]), changed, lambda row: row[1])
    elsewhere = [row for row in again if row not in records]
    kinds = {
        "wrong value": len(changed),
        "phantom": len(strays),
        "misrouted": len(left) - len(others) + len(elsewhere),
        "undecodable": 0,
    }
    return len(again) + len(changed_again) + len(strays) - len(set(strays)), sum(free.values()), kinds


def matched(free, rows, like):
    """The free rows after each row has taken an equal one, and the rows that found none."""
    free, left = Counter(free), []
    for row in rows:
        if free[like(row)]:
            free[like(row)] -= 1
        else:
            left.append(row)
    return free, left


def summed(free, like):
    """How many are free of each that is alike."""
    totals = Counter()
    for record, times in free.items():
        totals[like(record)] += times
    return totals


# --routing any -------------------------------------------------------------------------------------------------------------

ANYWHERE = partial(prepared.by_key, anywhere=True)


def routed(records, partitions):
    """A log of keys and values in this order, each in the partition that the hash of its key says."""
    ends = Counter()
    rows = []
    for key, value in records:
        partition = crc32(key.encode()) % partitions
        rows.append((partition, ends[partition], key, value))
        ends[partition] += 1
    return rows


def late(source, sink):
    """How many rows are out of place among those of their source partition, counted one by one; records are unlike."""
    places = {row[2:]: row[:2] for row in source}
    numbers = defaultdict(list)
    for home, _, key, value in sorted(sink):
        line, number = places[key, value]
        numbers[home, line].append(number)
    return sum(len(out_of_place(one)) for one in numbers.values())


RECORDS = [(f"user-{number * number % 23}", str(number)) for number in range(200)]


def test_a_copy_into_more_partitions(audited, snapshot):
    """Any routing is right if any is asked for; else the report says that it can be. Keys recur, and so do whole records."""
    records = [(key, str(int(value) % 2)) for key, value in RECORDS]
    source, sink = routed(records, 3), routed(records, 6)

    misrouted = audited(source, sink)["values"]

    assert verdicts(audited(source, sink, ANYWHERE)) == VALID
    assert (misrouted.verdict, misrouted.counts["misrouted"]) == (Verdict.INVALID, sum(row[0] > 2 for row in sink))
    assert misrouted.note.startswith(f"{misrouted.count} of 200 rows ")
    assert misrouted.note == snapshot


def test_a_copy_whose_rows_are_mostly_elsewhere(audited):
    """The hint is there for as many partitions, too; for one row of many it is not."""
    source = [(0, number, f"k{number}", "v") for number in range(9)] + [(1, 0, "k", "v")]
    shifted = [(1 - partition, *row) for partition, *row in source]
    once = [*source[:8], (1, 1, "k8", "v"), source[9]]

    assert audited(source, shifted)["values"].note.endswith("audit with --routing any")
    assert (audited(source, once)["values"].count, audited(source, once)["values"].note) == (1, "")


def test_every_anomaly_in_more_partitions(audited):
    """One more, one lost, one changed, and two in each other's place: no more and no less."""
    again, lost, changed, first = RECORDS[20], RECORDS[51], RECORDS[80], 120
    second = next(number for number in range(first + 1, 200) if RECORDS[number][0] == RECORDS[first][0])
    there = list(RECORDS)
    there[first], there[second] = there[second], there[first]
    there = [("changed" if one == changed else one) for one in there if one != lost]
    there = [(changed[0], "x") if one == "changed" else one for one in there]
    there.insert(there.index(again), again)
    source, sink = routed(RECORDS, 3), routed(there, 6)

    found = audited(source, sink, ANYWHERE)

    known = [(*row[:3], changed[1]) if row[3] == "x" else row for row in sink]
    assert verdicts(found) == {
        "duplicates": (Verdict.INVALID, 1),
        "gaps": (Verdict.INVALID, 1),
        "ordering": (Verdict.INVALID, late(source, known)),
        "values": (Verdict.INVALID, 1),
    }
    assert found["ordering"].count > 0
    assert [str(found[name].examples[0].id) for name in ("duplicates", "gaps")] == [again[0], lost[0]]
    assert (found["values"].counts["wrong value"], found["values"].examples[0].words) == (1, f"value x, expected {changed[1]}")


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        pytest.param(
            [(0, 0, "k", "a"), (0, 1, "b", "b"), (1, 0, "k", "a"), (1, 1, "c", "c")],
            log(("k", "a"), ("c", "c"), ("k", "a"), ("b", "b")),
            id="alike in two partitions of the source",
        ),
        pytest.param(
            log(("k", "a"), ("b", "b"), ("k", "a")),
            [(0, 0, "k", "a"), (1, 0, "k", "a"), (1, 1, "b", "b")],
            id="alike in two partitions of the sink",
        ),
    ],
)
def test_which_record_a_row_answers_cannot_be_told(audited, source, sink, snapshot):
    """Some way to tell them apart is in order, so the order is not wrong for certain."""
    found = audited(source, sink, ANYWHERE)

    assert verdicts(found) == VALID
    assert found["ordering"].note == snapshot


@pytest.mark.parametrize("reached", [0, 1])
def test_a_row_answers_the_one_of_equal_records_that_was_processed(audited, reached):
    """The pipeline has passed the record of one partition, and not its like in the other, which comes first in one case."""
    source = [(0, 0, "user", "1"), (1, 0, "user", "1")]

    found = audited(source, [(0, 0, "user", "1")], ANYWHERE, positions={reached: 1})

    assert {name: (one.verdict, one.count) for name, one in found.items() if one.count} == {}
    assert (found["gaps"].verdict, found["gaps"].counts["pending"]) == (Verdict.UNKNOWN, 1)


@pytest.mark.parametrize("reached", [0, 1])
def test_a_misrouted_row_answers_the_record_that_was_processed(audited, reached):
    """It is where no record like it is, so it may answer either; nothing is lost."""
    source = [(0, 0, "user", "1"), (1, 0, "user", "1"), (2, 0, "else", "1")]

    found = audited(source, [(2, 0, "else", "1"), (2, 1, "user", "1")], positions={reached: 1, 2: 1})

    assert found["values"].counts["misrouted"] == 1
    assert (found["gaps"].counts["lost"], found["gaps"].counts["pending"]) == (0, 1)


def test_an_open_transaction_hides_what_may_be_anywhere(audited):
    """Missing rows may be in the partition whose end is hidden, whichever that is."""
    source, sink = routed(RECORDS, 3), routed(RECORDS, 6)
    lost = next(row for row in sink if row[0] < 3)
    ends = {number: Bounds(0, 99, 99 + (number == 5)) for number in range(6)}

    found = audited(source, [row for row in sink if row != lost], ANYWHERE, sink=ends)["gaps"]

    assert (found.verdict, found.counts["lost"], found.counts["pending"]) == (Verdict.UNKNOWN, 0, 1)


# compacted logs ----------------------------------------------------------------------------------------------------------

COMPACTED = "is compacted"


def cleaned(rows, ends, *, tombstones):
    """The log after a run of Kafka's cleaner: of each key of a partition the last below an offset, and all that is above.

    Args:
        ends: partition -> that offset.
        tombstones: whether those that it finds are old enough to be removed.
    """
    last = {(home, key): offset for home, offset, key, _ in sorted(rows) if offset < ends.get(home, 0)}
    above = [row for row in rows if row[1] >= ends.get(row[0], 0)]
    below = [row for row in rows if last.get((row[0], row[2])) == row[1]]
    return sorted([*above, *(row for row in below if not (tombstones and row[3] is None))])


@pytest.mark.parametrize("anywhere", [False, *nightly(True)])  # noqa: FBT003 - a value of a parameter
@pytest.mark.parametrize(("sides", "tombstones"), [(("source",), True), (("sink",), True), (("source", "sink"), False)])
def test_a_perfect_copy_of_compacted_logs_is_never_invalid(audited, sides, tombstones, anywhere):
    """Rows that compaction may have removed are undecided, one by one; no other anomaly is found. A third are tombstones."""
    rng = Random(len(sides) + 2 * tombstones)
    records = [(f"user-{rng.randrange(30)}", rng.choice(["a", "b", None])) for _ in range(240)]
    source, sink = routed(records, 3), routed(records, 6 if anywhere else 3)
    source = cleaned(source, {0: 50}, tombstones=tombstones) if "source" in sides else source
    sink = cleaned(sink, {1: 50, 4: 30}, tombstones=tombstones) if "sink" in sides else sink  # of six, both are of one of three

    found = audited(source, sink, partial(prepared.by_key, anywhere=anywhere), compacted=dict.fromkeys(sides, COMPACTED))

    there, wanted = (Counter(row[2:] if anywhere else (row[0], *row[2:]) for row in log) for log in (sink, source))
    left, missing = (there - wanted).total(), (wanted - there).total()
    assert {name: one.count for name, one in found.items()} == dict.fromkeys(VALID, 0)
    assert (left > 0, missing > 0) == ("source" in sides, "sink" in sides)
    notes = [found[name].note for name in ("values", "duplicates", "gaps")]
    doubles = sum(count - 1 for count in Counter(row[2:] for row in source).values())
    numbers = [[str(count) for count in counts if count] for counts in ((left,), (left, doubles), (missing,))]
    assert [re.findall(r"\d+", note) for note in notes] == numbers
    assert ["both" in note for note in notes] == [len(sides) > 1] * len(notes)
    assert found["gaps"].counts["absent"] == missing
    undecided = {"values": left, "duplicates": left, "gaps": missing, "ordering": 0}
    assert {name: one.verdict for name, one in found.items()} == {
        name: Verdict.UNKNOWN if rows else Verdict.VALID for name, rows in undecided.items()
    }


@pytest.mark.parametrize("sides", [("source",), ("sink",), ("source", "sink")], ids=" and ".join)
def test_what_is_said_of_what_compaction_may_have_removed(audited, sides, snapshot):
    """How many rows it is, and that nothing is known of what is missing from both."""
    source, sink = (HISTORY[2:] if name in sides else HISTORY[1:] for name in ("source", "sink"))

    found = audited(source, sink, compacted=dict.fromkeys(sides, COMPACTED))

    assert {name: found[name].note for name in ("duplicates", "gaps", "values")} == snapshot


HISTORY = log(("k", "1"), ("k", "2"), ("gone", "1"), ("gone", None), ("k", "3"), ("else", "1"))


@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        pytest.param(log(("k", "x"), ("else", "1")), {"values": 1}, id="a wrong value in the place of the last"),
        pytest.param(log(("k", "2"), ("else", "1")), {"gaps": 1}, id="the last is lost"),
        pytest.param(log(("k", "3"), ("k", "3"), ("else", "1")), {"duplicates": 1}, id="the last twice"),
        pytest.param(log(("gone", "y"), ("k", "3"), ("else", "1")), {"values": 1}, id="a value in the place of a tombstone"),
        pytest.param(log(("k", "3"), ("else", "1"), ("stray", "1")), {"values": 1}, id="a key that nothing demands"),
    ],
)
def test_what_is_wrong_in_a_compacted_sink(audited, sink, wrong):
    """The last row of each key stays, and no row is there that was never demanded."""
    found = audited(HISTORY, sink, compacted={"sink": COMPACTED})

    assert {name: one.count for name, one in found.items()} == dict.fromkeys(VALID, 0) | wrong
    assert {name for name, one in found.items() if one.verdict is Verdict.INVALID} == set(wrong)


def test_a_wrong_value_of_a_compacted_source(audited):
    """The last record of a key is there, and its answer is another one; the rows before it are not judged."""
    source = [row for row in HISTORY if row[1] in {4, 5}]
    sink = [(*row[:3], "x") if row[1] == 4 else row for row in HISTORY]

    found = audited(source, sink, compacted={"source": COMPACTED})

    assert verdicts(found) == VALID | {"values": (Verdict.INVALID, 1), "duplicates": (Verdict.UNKNOWN, 0)}
    assert found["values"].examples[0].words == "value x, expected 3"
    assert "4 rows of the sink answer no remaining record" in found["values"].note


@pytest.mark.parametrize("identity", [dense_keys.dense, prepared.by_key])
def test_numbers_that_recurred_before_compaction(audited, identity):
    """The source has each once by now; a tombstone that is copied is a perfect copy."""
    sink = log(("7", "a"), ("8", "x"), ("7", "b"), ("9", None))

    found = audited(sink[1:], sink, identity, compacted={"source": COMPACTED})

    undecided = (Verdict.UNKNOWN, 0)
    assert verdicts(found) == VALID | {"values": undecided, "duplicates": undecided}


@pytest.mark.parametrize("identity", [dense_keys.dense, prepared.by_key])
def test_two_compacted_logs_that_agree(audited, identity, snapshot):
    """Rows that compaction removed from both logs may have been lost or doubled, so the verdict is not VALID."""
    left = [(0, 91 + number, str(number), "v") for number in range(9)]

    found = audited(left, left, identity, compacted=dict.fromkeys(("source", "sink"), COMPACTED))

    undecided = (Verdict.UNKNOWN, 0)
    assert verdicts(found) == VALID | dict.fromkeys(("duplicates", "gaps", "values"), undecided)
    (note,) = {found[name].note for name in ("duplicates", "gaps", "values")}
    assert note == snapshot


@pytest.mark.parametrize("anywhere", [False, *nightly(True)])  # noqa: FBT003 - a value of a parameter
@pytest.mark.parametrize("seed", range(3))
def test_the_last_rows_of_keys_of_a_compacted_source_are_lost(audited, seed, anywhere):
    """They are counted as lost: an earlier version of a key is no wrong value, and nothing is late."""
    rng = Random(seed)
    records = [(f"user-{rng.randrange(9)}", str(number)) for number in range(90)]
    source = cleaned(routed(records, 1), {0: 80}, tombstones=False)
    last = {key: number for number, (key, _) in enumerate(records)}
    lost = set(rng.sample(sorted(number for number in last.values() if number > 40), 2))
    sink = routed([one for number, one in enumerate(records) if number not in lost], 6 if anywhere else 1)

    found = audited(source, sink, partial(prepared.by_key, anywhere=anywhere), compacted={"source": COMPACTED})

    assert {name: one.count for name, one in found.items()} == dict.fromkeys(VALID, 0) | {"gaps": 2}
    assert found["gaps"].verdict is Verdict.INVALID


@pytest.mark.parametrize("known", [{"grown": True}, {"cleaned_by_key": False}])
def test_any_row_may_have_been_removed(audited, known):
    """By a row that was written while the sink was read; or by one of the same key, which is not what identifies it."""
    found = audited(HISTORY, [], compacted={"sink": COMPACTED}, **known)["gaps"]

    assert (found.verdict, found.counts["lost"], found.counts["absent"]) == (Verdict.UNKNOWN, 0, len(HISTORY))


def test_what_was_not_processed_is_not_what_a_row_of_a_compacted_sink_answers(audited):
    """The first of two that are alike was, and is there; the second is pending, and nothing is ahead."""
    source, sink = log(("k", "a"), ("k", "b"), ("k", "a"), ("z", "1")), log(("k", "a"), ("k", "b"))

    found = audited(source, sink, compacted={"sink": COMPACTED}, positions={0: 2})

    assert (found["gaps"].verdict, dict(found["gaps"].counts)) == (
        Verdict.UNKNOWN,
        {"lost": 0, "pending": 2, "recovered": 0, "absent": 0},
    )
    assert verdicts(found) == VALID | {"gaps": (Verdict.UNKNOWN, 0), "offsets": (Verdict.VALID, 0)}


def test_a_compacted_topic_without_holes(spark, tmp_path):
    """Nothing was removed from it, so it is judged as any other is."""
    for name, rows in (("source", HISTORY), ("sink", HISTORY[1:])):
        land(tmp_path / name, rows, COLUMNS)
    ends = {0: Bounds(0, len(HISTORY), len(HISTORY))}

    logs = audit_logs.landed(spark, str(tmp_path), Fixed(ends, ends, compacted={"source": COMPACTED, "sink": COMPACTED}))

    assert logs.fixed.compacted == {"sink": COMPACTED}


# several topics ------------------------------------------------------------------------------------------------------------

NUMBERS = {"source": {"a": {0: 0, 1: 1}, "b": {0: 2, 1: 3}}, "sink": {"x": {0: 0, 1: 1}, "y": {0: 2}}}
ENDS = {number: Bounds(0, 99, 99) for number in range(4)}


def test_examples_name_topics(audited):
    """And their partitions; what is missing is told by its source. What only looks like a partition is left as it is."""
    source = [(0, 0, "k1", "1"), (1, 0, "k2", "2"), (2, 0, "k3", "3"), (2, 1, "k4", "4"), (3, 0, "k5", "5")]
    sink = [(0, 0, "k1", "1"), (1, 0, "k2", "2"), (1, 1, "k3", "3"), (2, 0, "k4", "partition 3"), (2, 1, "k2", "2")]

    found = audited(source, sink, source={**ENDS, 3: Bounds(0, 1, 2)}, sink=ENDS, numbers=NUMBERS)

    told = {(one.anomaly, str(one.id)): (one.partition, one.words) for each in found.values() for one in each.examples}
    assert told == {
        ("duplicate", "k2"): (0, "in y: also at partition 1 of x offset 0; cause: other partition"),
        ("lost", "k5"): (1, "in b: its input is at partition 1 of b offset 0"),
        ("misrouted", "k2"): (0, "in y: expected in partition 1 of x"),
        ("misrouted", "k3"): (1, "in x: expected in partition 0 of y"),
        ("wrong value", "k4"): (0, "in y: value partition 3, expected 4"),
    }
    note = "in the source, an open transaction hides the end of partition 1 of b (read to offset 1 of 2)"
    assert str(found["gaps"].note) == note


def test_topics_are_one_log_by_any_routing(audited):
    """A record of one source may be in any sink; what is missing has the place of its source."""
    source = [(number, 0, f"k{number}", "v") for number in range(4)]
    sink = [(0, 0, "k3", "v"), (2, 0, "k0", "v"), (2, 1, "k1", "v")]

    found = audited(source, sink, ANYWHERE, source=ENDS, sink=ENDS, numbers=NUMBERS)

    assert verdicts(found) == VALID | {"gaps": (Verdict.INVALID, 1)}
    (lost,) = found["gaps"].examples
    assert (lost.partition, lost.words) == (0, "in b: its input is at partition 0 of b offset 0")


# what identifies a record --------------------------------------------------------------------------------------------------


def test_what_identifies_a_record_may_be_any_expression(spark, tmp_path):
    """An order's number is in its value, and its key says nothing: the second copy of 2 is one too many."""
    rows = [(0, number, "same", f'{{"order": {number}}}') for number in range(4)]
    for name, log in (("source", rows), ("sink", [*rows, (0, 4, "same", '{"order": 2}')])):
        land(tmp_path / name, log, COLUMNS)

    expression = "get_json_object(value, '$.order')"
    logs = audit_logs.landed(spark, str(tmp_path), identity=audit_identity.sql(expression))
    found = {one.verifier: one for one in judge(logs, prepared.by_key(logs, audit_identity.model("identity")))}

    assert found["duplicates"].count == 1
    assert [str(one.id) for one in found["duplicates"].examples] == ["2"]


@pytest.mark.parametrize(
    ("expression", "headers", "why"),
    [
        ("get_json(", True, "PARSE_SYNTAX_ERROR"),
        ("order_id", True, r"UNRESOLVED_COLUMN.* key, value, headers\.$"),
        ("headers[0].value", False, r"UNRESOLVED_COLUMN.* key, value\.$"),
    ],
)
def test_an_expression_that_cannot_be_read(spark, expression, headers, why):
    """The message names the expression, what is wrong with it, and the columns there are."""
    with pytest.raises(AuditUsageError, match=why) as caught:
        audit_identity.require_known(spark, expression, audit_identity.model("identity"), headers=headers)

    assert str(caught.value).startswith(f"--identity {expression}: ")
    assert "\n" not in str(caught.value)


def test_a_record_without_the_header(spark):
    """It has no identity; that does not end the audit."""
    rows = [(1, [("trace", b"t-1"), ("other", b"x")]), (2, [("other", b"x")]), (3, [])]
    headers = spark.createDataFrame([*rows, (4, None)], "id int, headers array<struct<key: string, value: binary>>")

    found = headers.select("id", F.expr(audit_identity.sql("header:trace")).cast("string").alias("key")).orderBy("id").collect()

    assert [row["key"] for row in found] == ["t-1", None, None, None]
