"""The text of a failed run, which a person can read at eight in the morning without opening anything else.

It is the message of `ViolationError` and `InconclusiveError`, so it is plain text of at most 40 lines.
"""

from collections.abc import Iterable, Iterator, Sequence

from chaos.common.errors import one_line
from chaos.report.formatting import (
    aimed,
    began,
    facts,
    findings_line,
    moment,
    number,
    seconds,
    tally,
    wall_s,
)
from chaos.report.model import FaultRecord, Report
from chaos.scenario.verifiers import BY_TRANSACTIONS, GUARANTEE_OF_PROGRESS, OF_LOGS, PROGRESS, TRANSACTIONS, anomalies_of
from verifiers.base import Example, Finding, Verdict

_FINDINGS = 3
_EXAMPLES = 3  # of one finding; with more findings there are fewer of each, so that the text keeps to its 40 lines
_FAULTS = 6
_PROBLEMS = 5
_BETWEEN = 3

_UNITS = {"outcomes": "transactions", "commits": "positions"}


def explain(report: Report) -> str:
    """Describe what broke or was not proved, where, and during which fault; at most 40 lines."""
    return "\n".join(_lines(report))


def during(report: Report, timestamp_ms: int | None, since_ms: int | None = None) -> str:
    """Name the faults in force at a moment, e.g. ``during kill_broker-1 on broker-2, 1.2 s after injection``.

    If there were none, give the distance to the last fault that was healed before, else to the first one after; "" for None.

    Args:
        since_ms: for a duplicate, when the copy before it was written: all faults between the two are named, because the one
            that caused the second copy may be healed long before that copy is written.
    """
    if timestamp_ms is None:
        return ""
    between = [] if since_ms is None else _between(report.faults, since_ms, timestamp_ms)
    if between:
        more = f" and {len(between) - _BETWEEN} more before" if len(between) > _BETWEEN else ""
        return f"in force since the copy before it: {', '.join(between[-_BETWEEN:])}{more}"
    in_force = [fault for fault in report.faults if _in_force(fault, timestamp_ms)]
    if in_force:
        return f"during {' and '.join(_since_injection(fault, timestamp_ms) for fault in in_force)}"
    return _outside(report.faults, timestamp_ms)


def describe(report: Report, example: Example) -> str:
    """Describe a broken record in one line.

    ``duplicate: id 17, partition 2, offset 1204, 12:03:04.512Z, also at offset 1190 [during …]``
    """
    if _is_of_run(example):
        return f"{example.anomaly}: {one_line(example.words)}"
    record = ", ".join(filter(None, (_record(example), one_line(example.words))))
    faults = during(report, example.timestamp_ms, example.since_ms)
    return f"{record} [{faults}]" if faults else record


def describe_in_lines(report: Report, example: Example) -> list[str]:
    """Describe a broken record in a few lines: which and where, what else is known of it, and the faults in force."""
    if _is_of_run(example):
        return [describe(report, example)]
    faults = during(report, example.timestamp_ms, example.since_ms)
    return list(filter(None, (_record(example), one_line(example.words), faults)))


def _is_of_run(example: Example) -> bool:
    """Whether an example is about the whole run, not about one record."""
    return example.partition < 0 and example.id is None


def _record(example: Example) -> str:
    """``duplicate: id 17, partition 2, offset 1204, 12:03:04.512Z``."""
    partition = "" if example.partition < 0 else f"partition {example.partition}"
    offset = "not in the log" if example.offset is None else f"offset {example.offset}"
    parts = [
        whose(example.id),
        *([example.place] if example.place else [partition, offset]),
        "" if example.timestamp_ms is None else moment(example.timestamp_ms),
    ]
    return f"{example.anomaly}: {', '.join(filter(None, parts))}"


def whose(id_: int | str | None) -> str:
    """Name a record by its id, an integer, or by its key."""
    if id_ is None:
        return "no id"
    return f"key {one_line(id_, 80)}" if isinstance(id_, str) else f"id {id_}"


def _in_force(fault: FaultRecord, time_ms: int) -> bool:
    began = fault.injected_ms is not None and fault.injected_ms <= time_ms
    return began and (fault.healed_ms is None or time_ms <= fault.healed_ms)


def _between(faults: Iterable[FaultRecord], one_ms: int, other_ms: int) -> list[str]:
    """Name the faults in force at any time between two moments, with the time from each injection to the later moment."""
    first_ms, last_ms = sorted((one_ms, other_ms))
    return [
        f"{fault.name} (injected {seconds((last_ms - fault.injected_ms) / 1000)} earlier{_at(fault)})"
        for fault in faults
        if fault.injected_ms is not None
        and fault.injected_ms <= last_ms
        and (fault.healed_ms is None or first_ms <= fault.healed_ms)
    ]


def _at(fault: FaultRecord) -> str:
    return f", {fault.moment}" if fault.moment else ""


def _since_injection(fault: FaultRecord, time_ms: int) -> str:
    at = f" ({fault.moment})" if fault.moment else ""
    return f"{aimed(fault)}, {seconds((time_ms - (fault.injected_ms or 0)) / 1000)} after injection{at}"


def _outside(faults: Iterable[FaultRecord], time_ms: int) -> str:
    healed = [(fault.healed_ms, fault.name) for fault in faults if fault.healed_ms is not None and fault.healed_ms < time_ms]
    if healed:
        last_ms, name = max(healed)
        return f"{seconds((time_ms - last_ms) / 1000)} after {name} was healed"
    later = [(fault.injected_ms, fault.name) for fault in faults if fault.injected_ms is not None]
    if later:
        first_ms, name = min(later)
        return f"{seconds((first_ms - time_ms) / 1000)} before {name}"
    return "while no fault was in force"


def _lines(report: Report) -> Iterator[str]:
    yield from story(report)
    yield f"Run directory: {report.run_dir}"
    yield f"Judge again: chaos judge {report.run_dir}"
    yield f"Replay: {report.replay}"


def story(report: Report) -> Iterator[str]:
    """Yield the lines of `explain` that hold on any machine: without the folder of the run."""
    yield f"{report.verdict.name}: {one_line(findings_line(report))}"
    yield one_line(report.title)
    at = f"{began(report)}, " if report.phases else ""
    of_run = f"scenario {report.scenario}, seed {report.seed}, {number(report.records)} records"
    yield f"{of_run}, {at}{seconds(wall_s(report))}"
    guilty = [finding for finding in report.findings if report.expectations.outcome(finding) is not Verdict.VALID]
    shown = sorted(guilty, key=lambda finding: -report.expectations.outcome(finding))[:_FINDINGS]
    for finding in shown:
        yield from _finding(report, finding, _EXAMPLES + 1 - len(shown))
    yield from _more(guilty, _FINDINGS, "verifiers")
    yield from _section("Faults:", [_fault(fault) for fault in report.faults] or ["none was declared"], _FAULTS)
    if report.twin:
        yield one_line(f"Expected: {report.twin}")
    not_asked = "; ".join(f"{name} ({reason})" for name, reason in report.not_asked.items())
    if not_asked:
        yield one_line(f"Not asked: {not_asked}", 300)
    yield from _section("Problems:", [one_line(problem, 300) for problem in report.problems], _PROBLEMS)


def headline(report: Report, finding: Finding) -> str:
    """Summarize a finding that is not as it must be: ``Broken: duplicates in sink, 3 of 30 000 records (demanded: …)``."""
    name = f"{finding.verifier} in {finding.subject}"
    checked = _extent(finding)
    if finding.verdict is Verdict.UNKNOWN:
        return f"Not proved: {name} (demanded: {guarantee(finding)})"
    if finding.verdict is report.expectations.expected(finding) is Verdict.INVALID:
        predicted = report.expectations.predicted(finding)
        word = "exactly " if all(isinstance(count, int) for count in predicted.values()) else ""
        return f"Not as predicted: {name}, {checked}: {tally(finding.counts)}; expected {word}{tally(predicted)}"
    if report.expectations.outcome(finding) is Verdict.UNKNOWN:
        return f"Inconclusive: {name}, {checked}; expected INVALID, but the run has problems (see Problems)"
    if report.expectations.expected(finding) is Verdict.INVALID:
        return f"Not caught: {name}, {checked}; expected INVALID: either the fault did no harm, or the verifier is blind to it"
    return f"Broken: {name}, {checked}{_kinds(finding)} (demanded: {guarantee(finding)})"


def more_examples(finding: Finding, shown: int) -> str:
    """``… and 1 201 more; findings.json has the first 32``; "" if all are shown, or there is none."""
    if not finding.examples or finding.count <= shown:
        return ""
    return f"… and {number(finding.count - shown)} more; findings.json has the first {len(finding.examples)}"


def _finding(report: Report, finding: Finding, count: int) -> Iterator[str]:
    yield headline(report, finding)
    if finding.note:
        yield f"  {one_line(str(finding.note))}"
    for example in finding.examples[:count]:
        first, *rest = describe_in_lines(report, example)
        yield f"  {first}"
        yield from (f"    {line}" for line in rest)
    if more := more_examples(finding, count):
        yield f"  {more}"


def _extent(finding: Finding) -> str:
    if finding.verifier == PROGRESS:
        return f"{tally(finding.counts) or 'nothing'}; the output grew {number(finding.checked)} times"
    if finding.verifier == "hanging":
        return f"{number(finding.count)} of the transactions in {number(finding.checked)} partitions"
    return f"{number(finding.count)} of {number(finding.checked)} {_UNITS.get(finding.verifier, 'records')}"


def guarantee(finding: Finding) -> str:
    """Return the demand of its verifier, as a sentence without a full stop."""
    if finding.verifier == PROGRESS:
        return GUARANTEE_OF_PROGRESS
    if finding.verifier == TRANSACTIONS:
        return BY_TRANSACTIONS.guarantee
    verifier = OF_LOGS.get(finding.verifier)
    return verifier.guarantee if verifier else "as declared in the scenario"


def _kinds(finding: Finding) -> str:
    """Count the anomalies by name; other counts of a verifier (aborted rows, say) are not broken."""
    if finding.verifier == PROGRESS:  # `_extent` has them
        return ""
    is_known = finding.verifier in OF_LOGS or finding.verifier == TRANSACTIONS  # its package is installed here
    wrong = anomalies_of(finding.verifier) if is_known else finding.counts
    known = {name: count for name, count in finding.counts.items() if name in wrong}
    return f": {tally(known)}" if len(finding.counts) > 1 and any(known.values()) else ""


def _fault(fault: FaultRecord) -> str:
    if fault.injected_ms is None:
        return f"{fault.name}: {one_line(fault.problem)}"
    held_s = None if fault.healed_ms is None else (fault.healed_ms - fault.injected_ms) / 1000
    healed = "never healed" if held_s is None else f"healed after {seconds(held_s)}"
    proof = f"proved by {facts(fault.proof)}" if fault.effective else f"had no effect: {facts(fault.proof) or 'no proof'}"
    aftermath = f"; afterwards: {facts(fault.aftermath)}" if fault.aftermath else ""
    behind = "" if fault.lag is None else f" with {number(fault.lag)} records to read"
    return f"{aimed(fault)}: injected {moment(fault.injected_ms)}{_at(fault)}{behind}, {healed}; {proof}{aftermath}"


def _section(head: str, lines: Sequence[str], limit: int) -> Iterator[str]:
    if lines:
        yield head
        yield from (f"  {line}" for line in lines[:limit])
        yield from _more(lines, limit, "lines")


def _more(things: Sequence[object], limit: int, what: str) -> Iterator[str]:
    if len(things) > limit:
        yield f"  … and {len(things) - limit} more {what}, see the run directory"
