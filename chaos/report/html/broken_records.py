"""The first broken records of a run as a table: each with its place, its producer, and the faults in force."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.report.failure_text import during, headline, more_examples, whose
from chaos.report.formatting import day, moment, phrase, seconds
from chaos.report.model import Report
from chaos.report.run_clock import RunClock
from verifiers.base import Example, Finding, Verdict
from verifiers.details import Detail, Producer

_SHOWN, _SHOWN_AS_EXPECTED = 10, 3


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """One row; unknown values are "".

    Attributes:
        record: its id or its key.
        place: of a record in a table; a log has partition and offset.
        time: in the run, e.g. ``6.2 s``; a time outside of the run is a date.
        moment: the time of day.
        detail: more facts, with the cause.
        producer: the producers of the record and of the copy before it.
        faults: the faults in force, and the request at which a fault struck.
    """

    anomaly: str
    record: str
    partition: str
    offset: str
    place: str
    time: str
    moment: str
    detail: str
    producer: str
    faults: str


@dataclass(frozen=True, slots=True)
class BrokenRecords:
    """The broken records of one finding: a headline, the first records, and the number of the others."""

    verdict: Verdict
    head: str
    rows: Sequence[BrokenRecord]
    more: str


def broken_records(report: Report, clock: RunClock) -> list[BrokenRecords]:
    """Make the tables of all findings with broken records; unexpected findings come first."""
    outcome = report.expectations.outcome
    found = [finding for finding in report.findings if finding.verdict is not Verdict.VALID and finding.examples]
    return [_of_finding(report, finding, clock) for finding in sorted(found, key=lambda finding: -outcome(finding))]


def _of_finding(report: Report, finding: Finding, clock: RunClock) -> BrokenRecords:
    outcome = report.expectations.outcome(finding)
    head = phrase(report, finding) if outcome is Verdict.VALID else headline(report, finding)
    rows = [
        _row(report, example, clock)
        for example in finding.examples[: _SHOWN_AS_EXPECTED if outcome is Verdict.VALID else _SHOWN]
    ]
    return BrokenRecords(outcome, head, rows, more_examples(finding, len(rows)))


def _row(report: Report, example: Example, clock: RunClock) -> BrokenRecord:
    is_of_run = example.partition < 0 and example.id is None
    in_log = not (is_of_run or example.place)
    time, by_clock = _time(example.timestamp_ms, clock)
    return BrokenRecord(
        anomaly=example.anomaly,
        record="" if is_of_run else whose(example.id),
        partition=str(example.partition) if in_log and example.partition >= 0 else "",
        offset=("not in the log" if example.offset is None else str(example.offset)) if in_log else "",
        place=example.place,
        time=time,
        moment=by_clock,
        detail=example.words,
        producer=", ".join(dict.fromkeys(_producers(example))),
        faults=during(report, example.timestamp_ms, example.since_ms) if clock.is_within(example.timestamp_ms or 0) else "",
    )


def _time(time_ms: int | None, clock: RunClock) -> tuple[str, str]:
    if time_ms is None:
        return "", ""
    if clock.is_within(time_ms):
        return seconds(clock.s(time_ms)), moment(time_ms)
    return f"{day(time_ms)} {moment(time_ms)}", "not within the run"


def _producers(example: Example) -> Iterator[str]:
    if isinstance(example.detail, Detail):
        yield from (f"{one.id} epoch {one.epoch}" for one in example.detail.of_kind(Producer))
