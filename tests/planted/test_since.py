"""Audits that go on from each other find what one audit of everything finds."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from zlib import crc32

import pytest

from chaos.audit import dense_keys, prepared, since, since_report
from chaos.audit import identity as audit_identity
from chaos.audit.logs import Fixed, Logs
from tests.planted.examples import EXAMPLES, nightly
from tests.planted.log import table
from verifiers import arrow
from verifiers.base import Bounds, Verdict

COLUMNS = "partition int, offset long, key string, value string"
TIMED = f"{COLUMNS}, timestamp_ms long"
NUMBERS = {side: {side: {number: number for number in range(4)}} for side in ("source", "sink")}
ASKED = {"--model": "identity"}


@dataclass
class Logbook:
    """Two topics while they grow: their rows, how far the group is, and from where on transactions hide a partition."""

    source: list = field(default_factory=list)
    sink: list = field(default_factory=list)
    positions: Counter = field(default_factory=Counter)
    ends: Counter = field(default_factory=Counter)
    sink_ends: Counter = field(default_factory=Counter)
    hidden: dict = field(default_factory=dict)
    lows: dict = field(default_factory=dict)
    moved: bool = False

    def write(self, side, partition, key, value, rng):
        """Append a row, behind a hole now and then."""
        rows, ends = (self.source, self.ends) if side == "source" else (self.sink, self.sink_ends)
        ends[partition] += rng.randrange(6) == 0
        rows.append((partition, ends[partition], key, value))
        ends[partition] += 1

    def fixed(self, *, group):
        """What an audit fixes now."""
        source, sink = (
            {number: self._bounds(side, number, ends[number]) for number in range(4)}
            for side, ends in (("source", self.ends), ("sink", self.sink_ends))
        )
        positions = dict(self.positions) if group else None
        return Fixed(source, sink, positions, self.moved, numbers=NUMBERS, ids={"source": "1", "sink": "2"})

    def _bounds(self, side, number, end):
        return Bounds(self.lows.get((side, number), 0), min(end, self.hidden.get((side, number), end)), end)


@pytest.fixture
def audited(spark):
    """Audit a logbook, from an earlier report on if there is one: the findings by verifier, and the report."""

    def ask(book, way, report=None, *, group=True):
        fixed, begun = book.fixed(group=group), since.START
        if report is not None:
            fixed, begun = since_report.Report("r.json", json.loads(json.dumps(report))).begun(fixed)
        read = [
            [row for row in rows if ends[row[0]].low <= row[1] < ends[row[0]].lso]
            for rows, ends in ((book.source, fixed.source), (book.sink, fixed.sink))
        ]
        source, sink = (
            arrow.frame(spark, table(read[0], COLUMNS)),
            arrow.frame(spark, table([(*row, 0) for row in read[1]], TIMED)),
        )
        found, reached = since.judged(Logs(source, sink, None, fixed, sum(map(len, read))), WAYS[way], begun)
        spark.catalog.clearCache()
        return {one.verifier: one for one in found}, since_report.to_json(reached, fixed, ASKED)

    return ask


MODEL = audit_identity.model("identity")
WAYS = {
    "dense": partial(dense_keys.dense, demanded=MODEL),
    "key": partial(prepared.by_key, demanded=MODEL),
    "any routing": partial(prepared.by_key, demanded=MODEL, anywhere=True),
}


def worst(findings):
    return max(one.verdict for one in findings.values())


class Pipeline:
    """Reads records in the order of their partitions, and writes a row for each, with a damage now and then."""

    def __init__(self, rng, way, damage):
        self.book, self.rng, self.damage, self.anywhere = Logbook(), rng, set(damage.split()), way == "any routing"
        # with any routing, nothing shows which of equal records in several partitions a row answers, so keys do not recur there
        keys = rng.choice([3, 40, 10**6]) if way == "key" else 10**6
        names = (str(number if keys == 10**6 else rng.randrange(keys)) for number in range(90))
        self.todo = [(number % 3, name, rng.choice("abc")) for number, name in enumerate(names)]
        self.late, self.read = [], Counter()

    @property
    def is_done(self):
        return not self.todo and not self.late and all(self.read[home] >= self.book.ends[home] for home in range(3))

    def step(self):
        """Fill the source, process a batch of one partition, write a row that is late, and commit a position."""
        book, rng, home = self.book, self.rng, self.rng.randrange(3)
        for _ in range(min(len(self.todo), rng.randrange(4))):
            book.write("source", *self.todo.pop(0), rng)
        for record in [row for row in book.source if row[0] == home and row[1] >= self.read[home]][: rng.randrange(1, 5)]:
            self._process(*record)
        if self.late and rng.random() < 0.2:
            book.write("sink", *self.late.pop(0), rng)
        if "ahead" not in self.damage or rng.random() < 0.5:
            self.commit(home)

    def commit(self, home):
        self.book.positions[home] = self.read[home]

    def _process(self, partition, offset, key, value):
        there, wrong = crc32(key.encode()) % 4 if self.anywhere else partition, sorted(self.damage - {"ahead", "hidden"})
        row, happens = (there, key, value), self.rng.choice(wrong) if wrong and self.rng.random() < 0.06 else ""
        if happens in {"late", "twice"}:
            self.late.append(row)
        if happens == "value":
            self.book.write("sink", there, key, "x", self.rng)
        elif happens not in {"late", "lost"}:
            self.book.write("sink", *row, self.rng)
        self.read[partition] = offset + 1


def grown(pipeline):
    """Yield its logbook at five moments, the last one when everything was processed."""
    moments = pipeline.rng.sample(range(5, 50), 4)
    for step in count():
        if step in moments:
            yield pipeline.book
        if step >= max(moments) and pipeline.is_done:
            break
        pipeline.step()
    for home in range(3):
        pipeline.commit(home)
    yield pipeline.book


def hiding(pipeline, seen):
    """Open transactions hide the ends of some partitions, but nothing that was seen, and no record that was processed."""
    book, rng = pipeline.book, pipeline.rng
    firsts = {("sink", number): (seen[number], book.sink_ends[number]) for number in range(4)}
    firsts |= {("source", number): (pipeline.read[number], book.ends[number]) for number in range(3)}
    return {place: rng.randrange(first, end + 1) for place, (first, end) in firsts.items() if rng.random() < 0.4}


@pytest.mark.parametrize(
    "damage",
    [
        *("hidden ahead", "hidden lost", "late lost", "ahead twice value"),
        *nightly("", "lost", "late", "twice", "value", "ahead", "hidden"),
    ],
)
@pytest.mark.parametrize("seed", range(max(1, EXAMPLES.max_examples // 5)))
def test_five_audits_find_what_one_finds(audited, seed, damage):
    """With a group, at any moment; rows may be lost, late, there again, wrong, before their position, or hidden for a while."""
    rng = Random(f"{seed} {damage}")
    way = rng.choice(list(WAYS))
    pipeline, report, chain, told, seen = Pipeline(rng, way, damage), None, [], [], Counter()
    for book in grown(pipeline):
        is_last = len(told) == 4
        book.hidden = hiding(pipeline, seen) if "hidden" in damage and not is_last else {}
        book.moved = "ahead" in damage and not is_last  # so rows that are ahead are not wrong for sure
        found, report = audited(book, way, report)
        seen.update({number: ends.lso - seen[number] for number, ends in book.fixed(group=True).sink.items()})
        chain, told = [*chain, (found, report)], [*told, worst(found)]
        if "why_not" in report:  # the next one audits everything
            assert damage in ("hidden lost", "late lost")  # keys that repeat, with copies that may still come
            report, chain = None, []
    whole, _ = audited(book, way)

    if set(damage.split()) <= {"ahead", "hidden"}:
        assert worst(whole) is Verdict.VALID
        assert told[-1] is Verdict.VALID or nothing_was_compared(chain[-1][0])
    assert (Verdict.INVALID in told) == (worst(whole) is Verdict.INVALID) or damage == "late"  # at first it counts as lost
    assert missing(chain) == whole["gaps"].count or "value" in damage
    assert wrong(*(found for found, _ in chain)) == wrong(whole) or "ahead" in damage


def nothing_was_compared(found):
    """No row, or no record, came since the last audit: that is UNKNOWN."""
    return {"nothing was compared" in str(one.note) for one in found.values() if one.verdict is not Verdict.VALID} == {True}


def missing(chain):
    """Records that were lost in one of the audits, and are not answered by a later one."""
    before = [0, *(sum(not required for *_, required, _ in report["carried"]) for _, report in chain[:-1])]
    answered = sum(lost - found["gaps"].counts["absent"] for lost, (found, _) in zip(before, chain, strict=True))
    return sum(found["gaps"].count for found, _ in chain) - answered


def wrong(*findings):
    """Rows that are too many, or not as they are demanded."""
    return sum(found[name].count for found in findings for name in ("duplicates", "values"))


def planted_book(source, sink, positions=None, **more):
    """One partition: the values of its records, and of its rows, at offsets from 0 on."""
    book = Logbook(**more)
    for rows, log, ends in ((source, book.source, book.ends), (sink, book.sink, book.sink_ends)):
        log += [(0, offset, value, value) for offset, value in enumerate(rows)]
        ends[0] = len(rows)
    book.positions[0] = len(source) if positions is None else positions
    return book


def in_turn(audited, *books, way="key", **how):
    """The findings of the last of audits that go on from each other."""
    found, report = None, None
    for book in books:
        found, report = audited(book, way, report, **how)
    return found


def notes(found):
    return {name: str(one.note) for name, one in found.items() if one.note}


def test_only_what_came_since_is_compared(audited):
    found = in_turn(audited, planted_book("abc", "abc"), planted_book("abcde", "abcde"))

    assert {(one.verdict, one.checked) for one in found.values()} == {(Verdict.VALID, 2)}


def test_what_was_pending_is_lost_now(audited, snapshot):
    found = in_turn(audited, planted_book("abc", "ab", 2), planted_book("abcd", "ab"))

    assert (found["gaps"].verdict, found["gaps"].count, found["gaps"].checked) == (Verdict.INVALID, 2, 2)
    assert notes(found)["gaps"] == snapshot


@pytest.mark.parametrize(
    ("sink", "verdict", "told"),
    [
        pytest.param("abd", Verdict.VALID, {"gaps"}, id="still lost"),
        pytest.param("abdc", Verdict.INVALID, {"gaps", "ordering"}, id="late"),
    ],
)
def test_what_was_lost_before(audited, snapshot, sink, verdict, told):
    """It is not counted again; a row that comes late is told, and out of order."""
    found = in_turn(audited, planted_book("abcd", "abd"), planted_book("abcd", "abd"), planted_book("abcde", f"{sink}e"))

    assert worst(found) is verdict
    assert (found["gaps"].count, found["ordering"].count) == (0, len(told - {"gaps"}))
    assert notes(found).keys() == told
    assert notes(found) == snapshot


def test_a_late_row_is_out_of_order_in_its_own_partition_only(audited):
    """With any routing, rows of other partitions show nothing."""
    source, sink = [(0, offset, key, key) for offset, key in enumerate("abc")], [(1, 0, "b", "b")]
    lost = Logbook(source[:2], sink, Counter({0: 2}), Counter({0: 2}), Counter({1: 1}))
    late = Logbook(source, [*sink, (2, 0, "a", "a"), (2, 1, "c", "c")], Counter({0: 3}), Counter({0: 3}), Counter({1: 1, 2: 2}))

    assert worst(in_turn(audited, lost, late, way="any routing")) is Verdict.VALID


def test_bytes_that_are_no_text(spark):
    """A report keeps a lost record as it is, so its row is known when it comes."""
    source = spark.sql("SELECT 0 AS partition, 0L AS offset, 'k' AS key, CAST(X'C3FF' AS STRING) AS value")
    sink = source.selectExpr("*", "0L AS timestamp_ms")
    numbered = {side: {side: {0: 0}} for side in ("source", "sink")}
    fixed = [Fixed({0: Bounds(0, 1, 1)}, {0: Bounds(0, end, end)}, numbers=numbered) for end in (0, 1)]
    _, reached = since.judged(Logs(source, sink.limit(0), None, fixed[0], 1), WAYS["key"])
    report = json.loads(json.dumps(since_report.to_json(reached, fixed[0], ASKED)))
    again, begun = since_report.Report("r.json", report).begun(fixed[1])

    found, _ = since.judged(Logs(source.limit(0), sink, None, again, 1), WAYS["key"], begun)

    assert {one.verifier: one.count for one in found} == {"duplicates": 0, "gaps": 0, "ordering": 0, "values": 0}


def test_a_row_of_an_earlier_record(audited, snapshot):
    """Nothing that was read demands it."""
    found = in_turn(audited, planted_book("abc", "abc"), planted_book("abcd", "abcbd"))

    assert (found["values"].verdict, found["values"].counts["phantom"]) == (Verdict.INVALID, 1)
    assert notes(found) == snapshot


def test_a_row_of_an_earlier_record_of_a_key_that_waits(audited):
    """It is reported once, whatever the record that waits gets then."""
    source = [(0, 0, "k", "1"), (0, 1, "k", "2"), (0, 2, "l", "3")]
    sink = [(0, 0, "k", "1"), (0, 1, "k", "1"), (0, 2, "k", "2"), (0, 3, "l", "3")]
    first, again, right = (
        Logbook(source[:records], sink[:rows], Counter({0: passed}), Counter({0: records}), Counter({0: rows}))
        for records, rows, passed in ((1, 1, 1), (2, 2, 1), (3, 4, 3))
    )

    assert worst(in_turn(audited, first, again)) is Verdict.INVALID
    assert worst(in_turn(audited, first, again, again, right)) is Verdict.VALID


def test_a_row_before_its_position(audited):
    """It is remembered until its record was passed, with the order in which it came."""
    ahead = planted_book("abc", "b", 0, moved=True)

    assert worst(in_turn(audited, ahead)) is Verdict.UNKNOWN
    found = in_turn(audited, ahead, ahead, planted_book("abc", "bac"))
    assert (found["gaps"].count, found["values"].count, found["ordering"].count) == (0, 0, 1)


def test_hidden_rows_of_earlier_records(audited):
    """They are remembered, and so are the rows of later records."""
    book = Logbook(source=[(0, 0, "a", "a"), (0, 1, "b", "b")], sink=[(0, 0, "a", "a"), (1, 0, "b", "b")])
    book.ends[0] = book.positions[0] = 2
    book.sink_ends.update({0: 1, 1: 1})
    hidden = replace(book, hidden={("sink", 0): 0})

    found = in_turn(audited, hidden, hidden, book, way="any routing")

    assert (worst(found), found["gaps"].checked) == (Verdict.VALID, 1)


def test_a_group_that_went_back(audited):
    """A record that waits is not forgotten."""
    hidden = planted_book("ab", "ab", hidden={("sink", 0): 1})

    assert in_turn(audited, hidden, planted_book("ab", "a", 0))["gaps"].counts["pending"] == 1
    assert in_turn(audited, hidden, planted_book("ab", "a", 0), planted_book("ab", "a"))["gaps"].count == 1


@pytest.mark.parametrize("side", ["source", "sink"])
def test_retention_since_then(audited, side):
    """What expired before it was compared is not VALID, whatever the rest is like."""
    second = planted_book("abcdef", "abcdef", lows={(side, 0): 5})

    found = in_turn(audited, planted_book("abc", "abc"), second)

    assert {one.verdict for one in found.values()} == {Verdict.UNKNOWN}
    assert f"2 offsets of partition 0 of the {side}" in notes(found)["gaps"]


def test_retention_of_what_was_compared(audited):
    second = planted_book("abcdef", "abcdef", lows={("source", 0): 3, ("sink", 0): 2})

    assert worst(in_turn(audited, planted_book("abc", "abc"), second)) is Verdict.VALID


@pytest.mark.parametrize(
    "book",
    [
        pytest.param(planted_book("abcd", "ad"), id="many"),
        pytest.param(planted_book("ab", "ab", hidden={("source", 0): 1}), id="source"),
        pytest.param(planted_book("aba", "baa", hidden={("sink", 0): 2}), id="order"),
    ],
)
def test_no_audit_can_go_on(audited, monkeypatch, snapshot, book):
    """What was found may change with records that would not be read again."""
    monkeypatch.setattr(since, "_MOST", 1)

    assert audited(book, "key")[1]["why_not"] == snapshot


def test_large_records(audited, monkeypatch, snapshot):
    monkeypatch.setattr(since, "_MOST_BYTES", 1)

    assert audited(planted_book("ab", "b"), "key")[1]["why_not"] == snapshot


def test_a_compacted_log(audited, snapshot):
    book = planted_book("abc", "abc")
    compacted = replace(book.fixed(group=True), compacted={"sink": "is compacted"})
    book.fixed = lambda **_how: compacted

    assert audited(book, "key")[1]["why_not"] == snapshot
