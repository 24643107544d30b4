"""Following a pipeline, without a cluster: which row answers which record, what is told and kept, what cannot be followed."""

import os
import re
import socket
import struct
import urllib.error
import urllib.request
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

from chaos.audit.follow import openmetrics, options, report
from chaos.audit.follow.command import OfFollowing
from chaos.audit.follow.gaps import Standing
from chaos.audit.follow.matching import Follow
from chaos.audit.follow.options import Following, Plan
from chaos.audit.follow.report import Moment
from chaos.audit.follow.rows import Comparison, Side
from chaos.audit.follow.state_file import SavedState
from chaos.audit.logs import AuditUsageError, Topics
from chaos.audit.where import Where
from chaos.cli import main
from tests.unit.wording import keep, raised
from verifiers.base import Verdict

TOPICS = Topics("h:1", ("orders",), ("squares",))
PLAN = Plan(TOPICS, "key", "identity", "same", Following())
NUMBERS: dict[Side, Any] = {"source": {"orders": {0: 0, 1: 1, 2: 2}}, "sink": {"squares": {0: 0, 1: 1, 2: 2}}}
OVERDUE_MS = Comparison().overdue_ms
LONG = "x" * 300  # longer than a name of a file may be


def row(place, text, value=None):
    """``0:17`` and ``k=v``: partition and offset, identity and value."""
    partition, offset = map(int, place.split(":"))
    identity, _, own = text.partition("=")
    return partition, offset, identity.encode(), (value or own).encode()


def read(follow, source=(), sink=(), now_ms=0):
    """Rows as ``0:17 k=v``; the source is read to its end afterwards, and what is odd is judged."""
    follow.read_source([row(*one.split()) for one in source], now_ms)
    follow.read_sink([row(*one.split()) for one in sink], now_ms)
    follow.settle(follow.mark(), now_ms)
    return follow


def wrong(follow):
    """The counts that are not zero, of what was found."""
    names = ("answered", "late", "duplicates", "wrong_values", "misrouted", "unexpected", "earlier", "undecodable")
    return {name: count for name in names if (count := getattr(follow.counts, name))}


# which row answers which record --------------------------------------------------------------------------------------------


def test_a_copy_in_another_order():
    """The order of rows plays no part."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=2", "1:0 c=3"], ["1:0 c=3", "0:0 b=2", "0:1 a=1"])

    assert (wrong(follow), follow.standing(), follow.judged) == ({"answered": 3}, Standing(), {0: 2, 1: 1})


def test_rows_that_are_read_before_their_records():
    """Nothing is said of them until the source was read as far as it was written when they were."""
    follow = Follow(Comparison())
    follow.read_sink([row("0:0", "a=1"), row("0:1", "X=9")], 0)
    mark = follow.mark()
    follow.read_sink([row("0:2", "b=2")], 0)
    follow.read_source([row("0:0", "a=1")], 0)
    assert (wrong(follow), len(follow.odd), dict(follow.judged)) == ({"answered": 1}, 2, {})

    follow.settle(mark, 0)

    assert (wrong(follow), len(follow.odd), follow.judged) == ({"answered": 1, "unexpected": 1}, 1, {0: 2})
    follow.read_source([row("0:1", "b=2")], 0)
    assert (wrong(follow), follow.judged) == ({"answered": 2, "unexpected": 1}, {0: 3})
    follow.settle(mark, 0)
    assert follow.judged == {0: 3}  # it does not go back


def test_recurring_rows_are_multisets():
    """A row demanded n times and present m times counts m - n duplicates, or n - m outstanding."""
    source = [f"0:{number} {text}" for number, text in enumerate(["a=1", "a=1", "b=1", "b=1", "b=1", "a=2"])]
    sink = [f"0:{number} {text}" for number, text in enumerate(["b=1", "a=1", "a=2", "a=1", "a=1", "a=1", "b=1"])]

    follow = read(Follow(Comparison()), source, sink)

    assert (wrong(follow), len(follow.outstanding)) == ({"answered": 5, "duplicates": 2}, 1)
    assert [one.identity for one in follow.outstanding] == [b"b"]


@pytest.mark.parametrize("seed", range(20))
def test_multisets_by_chance(seed):
    """However both logs are cut and interleaved, the counts are those of the multisets, by either routing."""
    random = Random(seed)
    anywhere = seed % 2 == 0
    rows = [(random.randrange(3), f"k{random.randrange(8)}", f"{random.randrange(3)}") for _ in range(200)]
    written = [one for one in rows if random.random() > 0.1] + random.sample(rows, 30)
    random.shuffle(written)
    if anywhere:
        written = [(random.randrange(5), key, value) for _, key, value in written]
    follow, source, sink = Follow(Comparison(anywhere=anywhere)), numbered(rows), numbered(written)
    while source or sink:
        side, take = random.choice([(source, follow.read_source), (sink, follow.read_sink)])
        size = random.randrange(20)
        take(side[:size], 0)
        del side[:size]
        if not source and anywhere:  # else a row may be taken for one that is misrouted, and the right one comes after it
            follow.settle(follow.mark(), 0)
    follow.settle(follow.mark(), 0)

    place = (lambda one: one[1:]) if anywhere else (lambda one: one)
    demanded, there = [place(one) for one in rows], [place(one) for one in written]
    surplus = sum(max(0, there.count(one) - demanded.count(one)) for one in set(there))
    missing = sum(max(0, demanded.count(one) - there.count(one)) for one in set(demanded))
    counts = follow.counts
    if anywhere:
        assert (counts.duplicates + counts.unexpected + counts.wrong_values, counts.misrouted) == (surplus, 0)
    found = counts.duplicates + counts.unexpected + counts.wrong_values + counts.misrouted
    assert found == surplus
    assert len(follow.outstanding) == missing - counts.wrong_values - counts.misrouted
    assert counts.answered == len(rows) - len(follow.outstanding)


def numbered(rows):
    """With the offset of each, by partition."""
    ends, found = dict[int, int](), []
    for partition, key, value in rows:
        found.append((partition, ends.get(partition, 0), key.encode(), value.encode()))
        ends[partition] = ends.get(partition, 0) + 1
    return found


def test_another_value_than_the_demanded_one():
    """It stands in the place of its record; the right row after it is one too many."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=1"], ["0:0 a=7", "0:1 b=1"])
    assert (wrong(follow), len(follow.outstanding)) == ({"answered": 2, "wrong_values": 1}, 0)

    read(follow, sink=["0:2 a=1", "0:3 a=7"])

    assert wrong(follow) == {"answered": 2, "wrong_values": 1, "duplicates": 2}


def test_without_values():
    """Identities alone are compared where no model was named."""
    follow = read(Follow(Comparison("identity")), ["0:0 a=1", "0:1 b=2"], ["0:0 a=X", "0:1 a=Y"])

    assert (wrong(follow), len(follow.outstanding)) == ({"answered": 1, "duplicates": 1}, 1)


def test_rows_as_they_are():
    """Keys may be null, and a row with another value answers nothing."""
    follow = Follow(Comparison("row"))
    follow.read_source([(0, 0, None, b"1"), (0, 1, b"", b"1"), (0, 2, b"a", None), (0, 3, b"a", b"")], 0)
    follow.read_sink([(0, 0, None, b"1"), (0, 1, b"a", b""), (0, 2, b"a", b"2")], 0)
    follow.settle(follow.mark(), 0)

    assert (wrong(follow), len(follow.outstanding)) == ({"answered": 2, "unexpected": 1}, 2)


def test_a_row_in_another_partition():
    """By routing `same` it is misrouted, unless a record of its own partition demands it; by `any` it is right."""
    source, sink = ["0:0 a=1", "1:0 b=2", "2:0 a=1"], ["2:0 a=1", "1:0 a=1", "4:0 b=2"]

    assert wrong(read(Follow(Comparison()), source, sink)) == {"answered": 3, "misrouted": 2}
    assert wrong(read(Follow(Comparison(anywhere=True)), source, sink)) == {"answered": 3}


def test_what_nothing_identifies():
    """A record without an identity demands nothing; a row without one cannot be decoded."""
    follow = Follow(Comparison())
    follow.read_source([(0, 0, None, b"1"), (0, 1, b"a", b"1")], 0)
    follow.read_sink([(0, 0, None, b"1"), (0, 1, b"a", b"1")], 0)

    assert (wrong(follow), follow.counts.unidentified) == ({"answered": 1, "undecodable": 1}, 1)


# gaps and lag --------------------------------------------------------------------------------------------------------------


def test_a_gap_that_is_answered_late():
    """It is lag at first, overdue by the time up to which the sink was read, and taken back when it is answered."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=2", "0:2 c=3"], ["0:0 a=1", "0:1 c=3"], now_ms=1000)
    follow.seen(1000 + OVERDUE_MS - 1)
    assert follow.standing() == Standing(lag=0, gaps=0, overtaken=0, pending=1)

    follow.seen(1000 + OVERDUE_MS)
    standing = follow.standing()
    assert (standing.gaps, standing.overtaken, standing.first[0].identity) == (1, 1, b"b")

    read(follow, sink=["0:2 b=2"], now_ms=2000 + OVERDUE_MS)
    assert (follow.standing(), wrong(follow)) == (Standing(), {"answered": 3, "late": 1})
    assert [(one.anomaly, one.offset, one.detail) for one in follow.anomalies.news] == [("answered late", 1, "after 61 s")]


def test_time_alone_makes_no_gap():
    """Nothing is overdue while the sink was not read as far."""
    follow = read(Follow(Comparison()), ["0:0 a=1"], now_ms=1000)
    read(follow, ["0:1 b=1"], now_ms=1000 + 9 * OVERDUE_MS)

    assert follow.standing() == Standing(lag=2, pending=2)


def test_lag_is_what_nothing_has_overtaken():
    """A pipeline that stands still has a lag of gaps; one that has lost a record and goes on has none."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=2", "1:0 c=3"], ["0:0 b=2"])
    follow.seen(OVERDUE_MS)

    standing = follow.standing()
    assert (standing.lag, standing.gaps, standing.overtaken) == (1, 2, 1)


def test_what_the_group_is_not_past_is_pending():
    """However long it takes."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=2", "1:0 c=3"])
    follow.seen(OVERDUE_MS, {0: 1})
    assert [one.identity for one in follow.standing().first] == [b"a"]

    read(follow, sink=["0:0 b=2", "0:1 a=1"])

    assert (wrong(follow), follow.standing()) == ({"answered": 2, "late": 1}, Standing(lag=1, pending=1))


# the window ----------------------------------------------------------------------------------------------------------------


def test_a_duplicate_from_before_the_window_is_unexpected():
    """So many rows are remembered, and no more."""
    rows = [f"0:{number} k{number}=1" for number in range(1200)]
    follow = read(Follow(Comparison(window=1000)), rows, rows)

    read(follow, sink=["0:1200 k200=1", "0:1201 k198=1", "0:1202 k1199=1", "0:1203 k198=1"])

    assert wrong(follow) == {"answered": 1200, "duplicates": 3, "unexpected": 1}
    told = {one.anomaly: one.detail for one in follow.anomalies.examples}
    assert " 1000 " in keep(told["unexpected"])


def test_memory_is_that_of_the_window():
    """Matched records leave nothing else in memory."""
    follow = Follow(Comparison(window=1000))
    for begin in range(0, 50_000, 500):
        rows = [(0, number, b"k%d" % number, b"1") for number in range(begin, begin + 500)]
        follow.read_source(rows, 0)
        follow.read_sink(rows, 0)

    assert (len(follow.outstanding.held), len(follow.odd.held)) == (0, 0)
    assert (len(follow.window.prints), follow.window.written) == (1000, 50_000)


# begins and ends of logs ---------------------------------------------------------------------------------------------------


def test_rows_of_before_the_begin():
    """From within both logs, rows of earlier records come first; once answers have come for long enough, they do not."""
    follow = Follow(Comparison(begun_within=True))
    follow.begin("source", 0, 100)
    follow.begin("sink", 0, 90)
    read(follow, ["0:100 a=1"], ["0:90 x=1", "0:91 y=1", "0:92 a=1", "0:93 y=1"], now_ms=1000)
    assert wrong(follow) == {"answered": 1, "earlier": 2, "duplicates": 1}

    read(follow, sink=["0:94 z=1"], now_ms=1001 + OVERDUE_MS)

    assert wrong(follow) == {"answered": 1, "earlier": 2, "duplicates": 1, "unexpected": 1}


def test_records_that_retention_removed():
    """Unread records cannot be judged, so rows that nothing demands are UNKNOWN, as are gaps."""
    follow = read(Follow(Comparison()), ["0:0 a=1"], ["0:0 a=1"])
    follow.reset("source", 0, 40, "39 offsets of partition 0 of orders were removed")
    read(follow, ["0:40 d=1", "0:41 e=1"], ["0:1 b=1", "0:2 d=1"])
    follow.seen(OVERDUE_MS)
    assert follow.counts.skipped_source == 39
    assert verdicts(follow) == {"duplicates": "UNKNOWN", "gaps": "INVALID", "ordering": "VALID", "values": "UNKNOWN"}

    follow.reset("sink", 0, 50, "47 offsets of partition 0 of squares were removed")

    assert (follow.counts.skipped_sink, verdicts(follow)["gaps"]) == (47, "UNKNOWN")
    notes = {one.verifier: one.note for one in report.findings(moment(follow))}
    assert "47 offsets of partition 0 of squares were removed" in keep(str(notes["gaps"]))
    assert "39 offsets of partition 0 of orders were removed" in keep(str(notes["values"]))
    assert "removed" not in keep(str(notes["duplicates"]))


def test_logs_that_begin_above_0():
    """Earlier records make UNKNOWN only those rows or records that they may match."""
    follow = Follow(Comparison())
    for side in ("source", "sink"):
        follow.begin(side, 0, 7)
        follow.doubt(side, "0", f"the {side} begins at offset 7 of partition 0")
    read(follow, ["0:7 a=1"], ["0:7 a=1"])
    assert set(verdicts(follow).values()) == {"VALID"}

    read(follow, ["0:8 b=1"], ["0:8 x=1", "0:9 a=1"])
    follow.seen(OVERDUE_MS)

    assert verdicts(follow) == {"duplicates": "UNKNOWN", "gaps": "UNKNOWN", "ordering": "VALID", "values": "UNKNOWN"}


def test_a_log_that_was_cut_off():
    """Rows that are written again at the same offsets are rows like others."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=1"], ["0:0 a=1", "0:1 b=1"])
    follow.reset("sink", 0, 1, "partition 0 of squares was truncated to offset 1, after it was read to 2")
    read(follow, sink=["0:1 b=1"])

    assert (wrong(follow), follow.counts.skipped_sink) == ({"answered": 2, "duplicates": 1}, 0)
    assert list(follow.doubts.why["sink"].values()) == [
        "partition 0 of squares was truncated to offset 1, after it was read to 2"
    ]


def test_offsets_without_records_are_passed():
    """Markers and aborted rows; what was read before is not read again."""
    follow = read(Follow(Comparison()), ["0:0 a=1"], ["0:0 a=1"])
    follow.reached("sink", 0, 7)
    follow.reached("sink", 0, 3)
    read(follow, sink=["0:6 a=1"])

    assert (follow.at["sink"], wrong(follow)) == ({0: 7}, {"answered": 1})


# what is kept --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_going_on_after_a_start(tmp_path, seed):
    """At any moment what was kept, and the logs from its positions on, give the same as if nothing had happened."""
    random = Random(seed)
    rows = [(random.randrange(3), f"k{random.randrange(300)}", f"{random.randrange(3)}") for _ in range(600)]
    written = [one for one in rows if random.random() > 0.05] + random.sample(rows, 40) + [(0, "phantom", "1")]
    source, sink, asked = numbered(rows), numbered(written), Comparison(window=1000)
    through, kept = Follow(asked), SavedState(replace(PLAN, options=Following(state=str(tmp_path / "state"), window=1000)), "c")
    again = Follow(asked)
    for step in range(0, 700, 50):
        for follow in (through, again):
            follow.read_source(source[step : step + 50], step)
            follow.read_sink(sink[max(0, step - 20) : step + 50], step)
        if step % 200 == 100:
            for follow in (through, again):
                follow.settle(follow.mark(), step)
        kept.save(again)
        before = (len(again.odd), len(again.outstanding))
        again.read_sink(sink[step : step + 90], step)  # is not kept
        again = kept.load()
        assert (len(again.odd), len(again.outstanding)) == before
    for follow in (through, again):
        follow.settle(follow.mark(), 900)
        follow.seen(900 + OVERDUE_MS)

    assert (through.counts, through.standing(), through.at) == (again.counts, again.standing(), again.at)
    assert sorted(through.outstanding) == sorted(again.outstanding)
    assert through.anomalies.examples == again.anomalies.examples


def test_a_larger_or_smaller_window_after_a_start(tmp_path):
    """The rows answered last are those that stay."""
    rows = [f"0:{number} k{number}=1" for number in range(2500)]
    options = Following(state=str(tmp_path / "state"), window=2000)
    kept = SavedState(replace(PLAN, options=options), "c")
    kept.save(read(Follow(Comparison(window=2000)), rows, rows))

    smaller = SavedState(replace(PLAN, options=replace(options, window=1000)), "c").load()
    read(smaller, sink=["0:2500 k1500=1", "0:2501 k1498=1"])

    assert wrong(smaller) == {"answered": 2500, "duplicates": 1, "unexpected": 1}
    larger = SavedState(replace(PLAN, options=replace(options, window=3000)), "c").load()
    assert wrong(read(larger, sink=["0:2500 k500=1", "0:2501 k499=1"])) == {"answered": 2500, "duplicates": 1, "unexpected": 1}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"identity": "header:trace"}, "was saved with another identity; name another file"),
        ({"routing": "any", "model": ""}, "was saved with another model, routing"),
        ({"topics": replace(TOPICS, sinks=("cubes",))}, "was saved with another sink"),
    ],
)
def test_what_was_kept_for_something_else(tmp_path, other, message):
    """It is not gone on with, and not replaced."""
    options = Following(state=str(tmp_path / "state"))
    SavedState(replace(PLAN, options=options), "c").save(Follow(Comparison()))

    with pytest.raises(AuditUsageError, match=message):
        SavedState(replace(PLAN, options=options, **other), "c").load()
    with pytest.raises(AuditUsageError, match="was saved with another cluster"):
        SavedState(replace(PLAN, options=options), "d").load()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY"])
def test_what_was_kept_and_cannot_be_read(tmp_path, content):
    """One line, with a way out."""
    path = tmp_path / "state"
    path.write_bytes(content)

    with pytest.raises(AuditUsageError) as caught:
        SavedState(replace(PLAN, options=Following(state=str(path))), "c").load()
    assert str(caught.value).startswith(f"--state {path}: ")
    keep(re.sub(r"\(.*\)", "(<why>)", str(caught.value)))


# what is told --------------------------------------------------------------------------------------------------------------


def moment(follow, **given):
    return Moment(follow, follow.standing(), NUMBERS, **given)


def verdicts(follow):
    return {one.verifier: one.verdict.name for one in report.findings(moment(follow))}


def faulty():
    """A gap, a duplicate, a phantom and a wrong value."""
    rows = [f"1:{number} k{number}=1" for number in range(5)]
    follow = read(
        Follow(Comparison()), rows, ["1:0 k0=1", "1:1 k0=1", "1:2 X=1", "1:3 k2=7", "1:4 k3=1", "1:5 k4=1"], now_ms=1000
    )
    follow.seen(1000 + OVERDUE_MS)
    return follow


def test_the_findings():
    """Each kind has its count and its place; a check that was not made says so."""
    found = {one.verifier: one for one in report.findings(moment(faulty()))}

    assert {name: (one.verdict.name, one.count) for name, one in found.items() if one.asked} == {
        "duplicates": ("INVALID", 1),
        "gaps": ("INVALID", 1),
        "values": ("INVALID", 2),
    }
    (gap,) = found["gaps"].examples
    assert (gap.id, "partition 1 offset 1 of orders" in keep(gap.words)) == ("k1", True)
    (duplicate,) = found["duplicates"].examples
    assert (duplicate.id, duplicate.partition, duplicate.offset, duplicate.topic) == ("k0", 1, 1, "squares")
    keep(duplicate.words)
    assert [(one.anomaly, one.offset) for one in found["values"].examples] == [("unexpected", 2), ("wrong value", 3)]


def test_nothing_to_compare_is_unknown():
    """A pipeline of which nothing was seen is not sound."""
    assert set(verdicts(Follow(Comparison())).values()) == {"UNKNOWN", "VALID"}
    assert report.findings(moment(Follow(Comparison())))[0].note == "nothing was compared"


def test_records_without_an_identity_are_unknown():
    """Their demands are not known, and a row without an identity may match them."""
    follow = read(Follow(Comparison()), ["0:0 a=1"], ["0:0 a=1"])
    follow.read_source([(0, 1, None, b"1")], 0)
    follow.read_sink([(0, 1, None, b"1")], 0)

    assert verdicts(follow) == {"duplicates": "VALID", "gaps": "UNKNOWN", "ordering": "VALID", "values": "UNKNOWN"}


def test_the_line():
    """How far, what was found, and to which offsets it was judged."""
    told = report.line(moment(faulty(), stall_s=3.2, unread={"source": 4, "sink": 0}))

    assert told.replace("\u00a0", " ") == (
        "read 5 and 6 · duplicates 1 · gaps 1 · unexpected 1 · lag 4 · stall 3 s · wrong values 1 · judged to 1:6"
    )


def test_the_news():
    """The first of each kind, and how many more there are."""
    follow = Follow(Comparison())
    before = replace(follow.counts)
    rows = [f"0:{number} k{number}=1" for number in range(9)]
    read(follow, rows, [*rows, "0:9 k4=1", "0:10 k5=1", "0:11 k6=1"])

    (told,) = report.news(moment(follow), before, follow.anomalies.news)

    assert keep(told).startswith("duplicate: id k4, partition 0 offset 9 of squares, ")


# OpenMetrics ---------------------------------------------------------------------------------------------------------------


def parsed(page):
    """The families of a page by name; the parser refuses what is no OpenMetrics."""
    return {family.name: family for family in text_string_to_metric_families(page.text().decode())}


def test_the_metrics_are_openmetrics():
    """Counters and no others end with _total, a unit ends its family's name, and each family says what it is."""
    families = parsed(openmetrics.Page(report.metrics(moment(faulty(), stall_s=3.5))))

    for name, family in families.items():
        assert {sample.name for sample in family.samples} <= {f"{name}_total" if family.type == "counter" else name}
        assert (family.unit, family.type) in (
            {("seconds", "gauge")} if name.endswith("_seconds") else {("", "counter"), ("", "gauge")}
        )
        assert family.documentation
    samples = {(one.name, *one.labels.items()): one.value for family in families.values() for one in family.samples}
    assert samples["chaos_audit_duplicates_total",] == 1
    assert samples["chaos_audit_gaps",] == 1
    assert samples["chaos_audit_stall_seconds",] == 3.5
    assert samples["chaos_audit_judged_offset", ("partition", "1"), ("topic", "squares")] == 5
    assert ("chaos_audit_judged_offset", ("partition", "0"), ("topic", "squares")) not in samples
    assert samples["chaos_audit_skipped_offsets_total", ("side", "source")] == 0


def test_any_label_comes_back():
    """The name of a topic of another cluster may be anything."""
    family = GaugeMetricFamily("a", 'says "x"\n', labels=["topic"])
    family.add_metric(['a"b\\c\nd'], 1)

    assert parsed(openmetrics.Page([family])) == {"a": family}


def test_the_metrics_are_served_on_loopback():
    """Whatever the page holds at that moment, to clients that ask for another format too; nothing listens afterwards."""
    page = openmetrics.Page()
    with openmetrics.served("127.0.0.1:0", page) as url:
        assert get(url) == (CONTENT_TYPE_LATEST, "# EOF\n")
        page.families = [GaugeMetricFamily("a", "b", 1)]
        assert get(url, Accept="text/plain") == (CONTENT_TYPE_LATEST, page.text().decode())
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(AuditUsageError, match=f"--metrics 127.0.0.1:{port}: Address already in use"):  # noqa: SIM117
            with openmetrics.served(f"127.0.0.1:{port}", page):
                pass
    with pytest.raises(urllib.error.URLError):
        get(url)


def test_a_client_that_goes_away_is_worth_no_line(capfd):
    """Here it resets the connection before it has asked; the next one is answered."""
    with openmetrics.served("127.0.0.1:0", openmetrics.Page()) as url:
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0])), timeout=60) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert get(url)[1] == "# EOF\n"

    assert capfd.readouterr() == ("", "")


def get(url, **headers):
    asked = urllib.request.Request(url, headers=headers)  # noqa: S310 - it is ours
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - it is ours
        return answer.headers["Content-Type"], answer.read().decode()


# what is asked -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("--identity left(key,3)", "--identity left(key,3): "),
        ("--model a:b", "--model a:b: "),
        ("--routing hash", "--routing hash: "),
        ("--for 10", "--for 10: "),
        ("--overdue 0s", "--overdue 0s: "),
        ("--from yesterday", "--from yesterday: "),
        ("--window 10", "--window 10: "),
        ("--window 99999999999999", "--window 99999999999999: "),
        ("--window 100000001", "--window 100000001: "),
        pytest.param("--identity header:", "--identity header:: ", id="no name of a header"),
        pytest.param(f"--state {LONG}", f"--state {LONG}: File name too long", id="a long name"),
        ("--state ./s --metrics-file s", "--state and --metrics-file: "),
        ("--settle 0s", "--settle 0s: "),
        ("--state /dev/null", "--state /dev/null: "),
        ("--metrics 0.0.0.0:80", "--metrics 0.0.0.0:80: "),
        ("--metrics 127.0.0.1", "--metrics 127.0.0.1: "),
        ("--metrics 127.0.0.1:99999", "--metrics 127.0.0.1:99999: "),
        ("--metrics-file /nowhere/m", "--metrics-file /nowhere/m: "),
        ("--state .", "--state .: "),
        ("--json .", "--json .: "),
    ],
)
def test_what_cannot_be_followed(words, place):
    """One line that says why, exit code 2; no broker is asked."""
    argv = ["audit", "follow", "--bootstrap", "127.0.0.1:9", "--source", "a", "--sink", "b", *words.split()]

    answer = CliRunner().invoke(main.app, argv)

    assert (answer.exit_code, answer.output.count("\n")) == (2, 1), answer.output
    assert keep(answer.output, {LONG: "<long>"}).startswith(f"chaos audit follow: {place}")


@pytest.mark.parametrize("option", ["--state", "--metrics-file"])
def test_what_is_no_plain_file(tmp_path, option):
    """A pipe would make the follower wait for a reader; a link to a file is as good as the file."""

    def following(path):
        words: dict[str, Any] = {option.removeprefix("--").replace("-", "_"): str(path)}
        return Following(**words)

    def refused(path):
        with pytest.raises(AuditUsageError) as told:
            options.check(replace(PLAN, options=following(path)))
        return keep(str(told.value))

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").startswith(f"{option} {tmp_path}/pipe: ")
    assert refused(tmp_path / "link").startswith(f"{option} {tmp_path}/link: ")
    (tmp_path / "file").touch()
    (tmp_path / "other").symlink_to(tmp_path / "file")
    options.check(replace(PLAN, options=following(tmp_path / "other")))
    options.check(replace(PLAN, options=Following(state=str(tmp_path / "file"), metrics_file=str(tmp_path / "new"))))


@pytest.mark.parametrize("identity", ["header:", "header: "])
def test_an_identity_by_a_header_without_a_name(identity):
    """Nothing could be compared."""
    with raised(AuditUsageError, f"--identity {identity}: ", "header:NAME"):
        options.check(replace(PLAN, identity=identity))


def test_an_identity_that_names_nothing():
    """It would be no SQL either."""
    with raised(AuditUsageError, "--identity ' ': ", "header:NAME"):
        OfFollowing(Where("127.0.0.1:9"), ("a",), ("b",), identity=" ").check()


def test_what_a_follower_cannot_be_without():
    """All of it in one line."""
    nowhere = CliRunner().invoke(main.app, ["audit", "follow", "--source", "a"])

    assert (nowhere.exit_code, nowhere.output) == (2, "chaos audit follow: missing: --bootstrap, --sink\n")


@pytest.mark.parametrize(("text", "value"), [("0.5s", 0.5), ("90s", 90), ("10m", 600), ("8h", 28_800)])
def test_durations(text, value):
    """Seconds, minutes and hours."""
    assert options.seconds("--for", text) == value


def test_the_first_header_of_a_name():
    """Or nothing, where there is none."""
    message: Any = SimpleNamespace(headers=lambda: [("a", b"0"), ("trace", b"1"), ("trace", b"2")])

    assert options.identify("header:trace")(message) == b"1"
    assert options.identify("header:b")(message) is None
    message.headers = lambda: None
    assert options.identify("header:b")(message) is None


def test_a_broker_that_does_not_answer(tmp_path, monkeypatch):
    """UNKNOWN, with a report that says why."""
    monkeypatch.setattr("chaos.audit.logs.ASK_S", 0.3)
    words = ["audit", "follow", "--bootstrap", "127.0.0.1:9", "--source", "a", "--sink", "b", "--json", tmp_path / "r.json"]

    answer = CliRunner().invoke(main.app, list(map(str, words)))

    assert (answer.exit_code, "127.0.0.1:9 does not answer" in answer.output) == (3, True), answer.output
    assert '"verdict": "UNKNOWN"' in (tmp_path / "r.json").read_text(encoding="utf-8")


def test_what_is_pending_is_unknown():
    """A record that was not answered was not compared: `gaps` counts what was, and says how many were not."""
    follow = read(Follow(Comparison()), ["0:0 a=1", "0:1 b=1"], ["0:0 a=1"])

    (duplicates, gaps, _, values) = report.findings(moment(follow))
    assert (duplicates.verdict, gaps.verdict, values.verdict) == (Verdict.VALID, Verdict.UNKNOWN, Verdict.VALID)
    assert (gaps.count, gaps.checked) == (0, 1)
    assert gaps.counts == {"overdue": 0, "overtaken": 0, "pending": 1, "answered late": 0}
    assert "60 s" in keep(str(gaps.note))

    read(follow, sink=["0:1 b=1"])

    assert [(one.verdict, one.checked) for one in report.findings(moment(follow))][1] == (Verdict.VALID, 2)
