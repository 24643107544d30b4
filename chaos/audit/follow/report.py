"""Report on a pipeline that is followed: lines, metrics, and findings like those of an audit."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from chaos.audit.follow.gaps import Standing
from chaos.audit.follow.matching import Follow
from chaos.audit.follow.rows import Counts, Demand, Seen, Side
from chaos.common.errors import one_line
from chaos.report.formatting import number
from verifiers.base import Example, Finding, Verdict

Numbers = Mapping[str, Mapping[int, int]]  # topic -> its partition -> its number on this side

_SHOWN_PARTITIONS = 8
_DOUBTS_SHOWN = 4
STALL_S = 10.0
_PREFIX = "chaos_audit_"  # begins the name of each metric
_SPACE = "\u00a0"
_COUNTED = {  # anomaly -> the count of it
    "duplicate": "duplicates",
    "wrong value": "wrong_values",
    "misrouted": "misrouted",
    "unexpected": "unexpected",
    "undecodable": "undecodable",
    "answered late": "late",
}
_EXCUSES: Mapping[Side, str] = {
    "source": "unexpected rows and duplicates may answer records that were not read",
    "sink": "rows that answer the gaps may not have been read",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A pipeline at one moment.

    Attributes:
        numbers: partition numbers of each side.
        unread: for each side, the number of offsets that the brokers reported last, and that are not read yet.
        stall_s: how long the sink has not grown although there is a lag.
        silent_s: how long the brokers have not answered; 0 while they do.
        unreached: why the follower ended before all that the logs held was read and judged; empty if it was.
        broken_off: why following ended early, for example because a topic was deleted and created again; empty if it did not.
    """

    follow: Follow
    standing: Standing
    numbers: Mapping[Side, Numbers]
    unread: Mapping[Side, int] = field(default_factory=lambda: {"source": 0, "sink": 0})
    stall_s: float = 0.0
    silent_s: float = 0.0
    unreached: str = ""
    broken_off: str = ""

    @property
    def lag(self) -> int:
        """Number of records that are read and not answered, or not read yet."""
        return self.standing.lag + self.unread["source"]

    def place(self, side: Side, partition: int) -> tuple[str, int]:
        """Return topic and partition for a partition number."""
        for topic, own in self.numbers[side].items():
            for there, one in own.items():
                if one == partition:
                    return topic, there
        return side, partition

    def located(self, side: Side, partition: int, offset: int) -> str:
        """Name a place: ``partition 1 offset 17 of orders``."""
        topic, there = self.place(side, partition)
        return f"partition {there} offset {offset} of {topic}"


# lines ---------------------------------------------------------------------------------------------------------------------


def line(now: Moment) -> str:
    """Say how far the follower is, and what it found: five counts always, others only if they are not 0."""
    counts, standing = now.follow.counts, now.standing
    always = {"duplicates": counts.duplicates, "gaps": standing.gaps, "unexpected": counts.unexpected, "lag": now.lag}
    others = {
        "wrong values": counts.wrong_values,
        "misrouted": counts.misrouted,
        "undecodable": counts.undecodable,
        "answered late": counts.late,
        "earlier": counts.earlier,
        "without identity": counts.unidentified,
        "not read": counts.skipped_source + counts.skipped_sink,
        "to be read": now.unread["sink"],
    }
    told = [f"{name} {number(count)}" for name, count in always.items()] + [f"stall {now.stall_s:.0f}{_SPACE}s"]
    told += [f"{name} {number(count)}" for name, count in others.items() if count]
    judged = sorted(now.follow.judged.items())
    places = " ".join(f"{partition}:{offset}" for partition, offset in judged) or "nothing"
    if len(judged) > _SHOWN_PARTITIONS:
        places = f"{number(sum(offset for _, offset in judged))} in {len(judged)} partitions"
    return " · ".join((f"read {number(counts.source)} and {number(counts.sink)}", *told, f"judged to {places}"))


def news(now: Moment, before: Counts, found: list[Seen]) -> Iterator[str]:
    """Yield a line for each anomaly that was found since: the first row, and how many more there are."""
    for anomaly, name in _COUNTED.items():
        first = next((one for one in found if one.anomaly == anomaly), None)
        more = getattr(now.follow.counts, name) - getattr(before, name) - 1
        if first is not None:
            side: Side = "source" if anomaly == "answered late" else "sink"
            where = now.located(side, first.partition, first.offset)
            told = ", ".join(filter(None, (_named(first.identity), where, first.detail)))
            others = f" (and {number(more)} more)" if more > 0 else ""
            yield f"{anomaly}: {told}{others}"


def gap(now: Moment, demand: Demand, gaps: int) -> str:
    """Say that there are more gaps than before."""
    where = now.located("source", demand.partition, demand.offset)
    waited = (now.follow.gaps.seen_ms - demand.since_ms) / 1000
    told = f"gaps: {number(gaps)}, the oldest {where}, {_named(demand.identity)}"
    return f"{told}, read {waited:.0f}{_SPACE}s ago; a gap is taken back if it is answered"


def _named(identity: bytes | None) -> str:
    return "without a key" if identity is None else f"id {one_line(identity.decode(errors='replace'), 80)}"


# metrics -------------------------------------------------------------------------------------------------------------------


def metrics(now: Moment) -> tuple[Metric, ...]:
    """Return all metric families."""
    counts, standing = now.follow.counts, now.standing
    counters = {
        "source_records": ("Records of the source that were read.", counts.source),
        "sink_records": ("Rows of the sink that were read.", counts.sink),
        "answered": ("Records of the source that were answered.", counts.answered),
        "duplicates": ("Rows that equal an earlier answer, and that no record demands.", counts.duplicates),
        "wrong_values": ("Rows of a demanded identity with another value.", counts.wrong_values),
        "misrouted": ("Rows in another partition than their records.", counts.misrouted),
        "unexpected": ("Rows that nothing demands: phantoms, and duplicates from before the window.", counts.unexpected),
        "undecodable": ("Rows of the sink without an identity.", counts.undecodable),
        "unidentified": ("Records of the source without an identity; they demand nothing.", counts.unidentified),
        "doubtful": (
            "Duplicates and unexpected rows that may answer records which were not read.",
            counts.doubtful_duplicates + counts.doubtful_unexpected + counts.doubtful_undecodable,
        ),
        "earlier": ("Rows taken to answer records from before the begin.", counts.earlier),
        "answered_late": ("Gaps that were taken back, because they were answered.", counts.late),
    }
    gauges = {
        "gaps": ("Records that are overdue and not answered.", standing.gaps),
        "gaps_overtaken": ("Gaps with later records of their partition answered.", standing.overtaken),
        "lag_records": ("Records that are not answered yet, or not read yet, except overtaken ones.", now.lag),
        "outstanding": ("Records that were read and are not answered, in the lag or not.", len(now.follow.outstanding)),
        "undecided": ("Rows that were read and are not judged yet.", len(now.follow.odd)),
        "sink_unread": ("Offsets of the sink that are not read yet.", now.unread["sink"]),
    }
    durations = {
        "stall_seconds": ("How long the sink has not grown although there is a lag.", now.stall_s),
        "silent_seconds": ("How long the brokers have not answered.", now.silent_s),
        "seen_timestamp_seconds": ("The time up to which the sink was read, since the epoch.", now.follow.gaps.seen_ms / 1000),
    }
    skipped = CounterMetricFamily(f"{_PREFIX}skipped_offsets", "Offsets that were gone before they were read.", labels=["side"])
    skipped.add_metric(["source"], counts.skipped_source)
    skipped.add_metric(["sink"], counts.skipped_sink)
    return (
        *(CounterMetricFamily(_PREFIX + name, *told) for name, told in counters.items()),
        *(GaugeMetricFamily(_PREFIX + name, *told) for name, told in gauges.items()),
        *(GaugeMetricFamily(_PREFIX + name, *told, unit="seconds") for name, told in durations.items()),
        skipped,
        _offsets("read_offset", "Offset of the source record read last.", now, "source"),
        _offsets("judged_offset", "Offset of the sink row judged last.", now, "sink"),
    )


def _offsets(name: str, says: str, now: Moment, side: Side) -> Metric:
    """Return the offset of the last record of each partition; absent for a partition that was not read."""
    family = GaugeMetricFamily(_PREFIX + name, says, labels=["topic", "partition"])
    at = now.follow.at["source"] if side == "source" else now.follow.judged
    for one, offset in sorted(at.items()):
        if offset:
            topic, partition = now.place(side, one)
            family.add_metric([topic, str(partition)], offset - 1)
    return family


# findings ------------------------------------------------------------------------------------------------------------------


def findings(now: Moment) -> tuple[Finding, ...]:
    """Return the findings at the end.

    Rows that may be right are excused, and make their finding UNKNOWN, as do records that were not compared. A finding that
    counts more than the excused rows is INVALID.
    """
    follow, counts, standing = now.follow, now.follow.counts, now.standing
    partly = _partly(now)
    return (
        _duplicates(now, partly),
        _gaps(now, partly, standing),
        Finding("ordering", "sink", Verdict.VALID, 0, 0, note="follow does not judge the order of rows", asked=False),
        _values(now, partly, counts.sink - len(follow.odd)),
    )


def _partly(now: Moment) -> str:
    """Say why the logs were not compared completely, so that nothing can be VALID; empty if they were."""
    counts = now.follow.counts
    withdrawn = f", and {number(counts.withdrawn)} records were truncated before they were answered" if counts.withdrawn else ""
    return "; ".join(
        filter(None, (now.broken_off, f"not all of the logs was read{withdrawn}" if counts.resets else "", now.unreached))
    )


def _duplicates(now: Moment, partly: str) -> Finding:
    counts = now.follow.counts
    doubtful = _excused(now, counts.doubtful_duplicates)
    reasons = [partly, _unread(now) if doubtful else ""]
    judged = counts.sink - len(now.follow.odd)
    found = _examples(now, ["duplicate"])
    return _finding("duplicates", judged, {"duplicate": counts.duplicates}, found, excused=doubtful, unknown=reasons)


def _gaps(now: Moment, partly: str, standing: Standing) -> Finding:
    counts = now.follow.counts
    numbers = {
        "overdue": standing.gaps - standing.lost,
        "overtaken": standing.overtaken,
        "pending": standing.pending,
        "answered late": counts.late,
    }
    unseen = _doubted(now.follow.doubts.why["sink"], "sink") if standing.gaps else ""
    compared = counts.source - counts.unidentified - counts.withdrawn
    return _finding(
        "gaps",
        compared - (len(now.follow.outstanding) - standing.gaps),
        numbers | ({"lost": standing.lost} if standing.lost else {}),
        _missing(now),
        wrong=standing.gaps,
        excused=standing.gaps if unseen else 0,
        unknown=[_pending(now, standing), partly, unseen, _speechless(counts)],
        notes=[
            f"{number(counts.late)} were gaps and were answered after all" if counts.late else "",
            f"{number(standing.later)} records came after the end, and were not judged" if standing.later else "",
            "" if unseen else _left(now),
        ],
    )


def _left(now: Moment) -> str:
    """Say which parts of the logs may be gone; the rest was compared."""
    doubts = [*now.follow.doubts.why["source"].values(), *now.follow.doubts.why["sink"].values()]
    if not doubts:
        return ""
    more = f" and {len(doubts) - _DOUBTS_SHOWN} more" if len(doubts) > _DOUBTS_SHOWN else ""
    return f"only the remaining records were compared: {', '.join(doubts[:_DOUBTS_SHOWN])}{more}"


def _pending(now: Moment, standing: Standing) -> str:
    """Say how many records must be answered and may still be."""
    if not standing.pending:
        return ""
    asked = now.follow.asked
    group = " or the group is not past them" if now.follow.gaps.positions is not None else ""
    hidden = " or an open transaction may hold them" if now.follow.gaps.end and now.follow.gaps.end.hidden else ""
    stall = f"; the sink has not grown for {now.stall_s:.0f} s" if now.stall_s >= STALL_S else ""
    return (
        f"{number(standing.pending)} records have no row yet, and were not compared: "
        f"they are not overdue after {asked.overdue_ms / 1000:g} s{group}{hidden}{stall}"
    )


def _speechless(counts: Counts) -> str:
    """Say how many records have no identity, so that they demand nothing."""
    nameless = f"{number(counts.unidentified)} records of the source have no identity, and demand nothing"
    return nameless if counts.unidentified else ""


def _values(now: Moment, partly: str, judged: int) -> Finding:
    counts = now.follow.counts
    values = {name: getattr(counts, _COUNTED[name]) for name in ("unexpected", "wrong value", "misrouted", "undecodable")}
    doubtful, unread = (_excused(now, count) for count in (counts.doubtful_unexpected, counts.doubtful_undecodable))
    nameless = min(counts.undecodable, unread + counts.unidentified)
    earlier = f"{number(counts.earlier)} rows seem to answer records from before the begin, and were not compared"
    return _finding(
        "values",
        judged - counts.earlier,
        values,
        _examples(now, values),
        excused=doubtful + nameless,
        unknown=[
            partly,
            _unread(now) if doubtful or unread else "",
            earlier if counts.earlier else "",
            _speechless(counts) if nameless else "",
        ],
    )


def _excused(now: Moment, doubtful: int) -> int:
    """Count the rows that may answer records which were not read; at most the number of such records."""
    doubts = now.follow.doubts
    if "compacted" in doubts.why["source"] or doubts.rewritten:
        return doubtful
    return min(doubtful, sum(doubts.unread.values()))


def _unread(now: Moment) -> str:
    doubts = now.follow.doubts
    again = "rows may have been written again after their log was cut off" if doubts.rewritten else ""
    return "; ".join(filter(None, (_doubted(doubts.why["source"], "source"), again)))


def _finding(
    verifier: str,
    checked: int,
    counts: Mapping[str, int],
    examples: Iterable[Example],
    *,
    unknown: Iterable[str],
    wrong: int | None = None,
    excused: int = 0,
    notes: Iterable[str] = (),
) -> Finding:
    """Build a finding: INVALID if more is wrong than excused; else UNKNOWN if any of these reasons is not empty."""
    count = sum(counts.values()) if wrong is None else wrong
    reasons = [*filter(None, unknown), *([] if checked > 0 else ["nothing was compared"])]
    verdict = Verdict.INVALID if count > excused else Verdict.UNKNOWN if reasons else Verdict.VALID
    note = "; ".join((*reasons, *filter(None, notes)))
    return Finding(verifier, "sink", verdict, count, checked, dict(counts), tuple(examples), note)


def _examples(now: Moment, anomalies: Collection[str]) -> Iterator[Example]:
    for one in sorted(now.follow.anomalies.examples, key=lambda one: (one.partition, one.offset)):
        if one.anomaly in anomalies:
            topic, partition = now.place("sink", one.partition)
            yield Example(one.anomaly, partition, one.offset, _id(one.identity), None, one.detail, topic=topic)


def _missing(now: Moment) -> Iterator[Example]:
    for demand in now.standing.first:
        topic, partition = now.place("source", demand.partition)
        waited = (now.follow.gaps.seen_ms - demand.since_ms) / 1000
        anomaly = "overdue" if 1000 * waited >= now.follow.asked.overdue_ms else "lost"
        detail = f"its record is at partition {partition} offset {demand.offset} of {topic}, and was read {waited:.0f} s before"
        yield Example(anomaly, -1, None, _id(demand.identity), None, detail)


def _id(identity: bytes | None) -> str | None:
    return None if identity is None else identity.decode(errors="replace")


def _doubted(doubts: Mapping[str, str], side: Side) -> str:
    if not doubts:
        return ""
    told = list(doubts.values())
    more = f" and {len(told) - _DOUBTS_SHOWN} more" if len(told) > _DOUBTS_SHOWN else ""
    return f"{', '.join(told[:_DOUBTS_SHOWN])}{more}: {_EXCUSES[side]}"
