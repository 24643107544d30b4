"""How reports say things: numbers, times, and what a finding means for its run. Every reporter words them alike."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from chaos.common.text import one_line
from chaos.report.model import FaultRecord, Report
from verifiers.base import Finding, Verdict

_SPACE = "\u00a0"  # no line breaks inside a number or between it and its unit


def number(count: int) -> str:
    """Thousands apart: ``30 000``."""
    return f"{count:,}".replace(",", _SPACE)


def seconds(duration_s: float | None) -> str:
    """``3.1 s``, ``4 min 05 s``, and a dash when it is not known."""
    if duration_s is None:
        return "–"  # noqa: RUF001 - an empty cell of a table
    if duration_s < 100:  # noqa: PLR2004 - more digits than that help nobody
        return f"{duration_s:.1f}{_SPACE}s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes}{_SPACE}min{_SPACE}{rest:02}{_SPACE}s"


def moment(time_ms: int) -> str:
    """Time of day in UTC, as in the logs: ``12:03:04.512Z``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M:%S}.{time_ms % 1000:03}Z"


def day(time_ms: int) -> str:
    """The date in UTC: ``2026-11-21``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d}"


def facts(proof: Mapping[str, Any], limit: int = 160) -> str:
    """The numbers of a proof: ``pids broker-2 4711, refused broker-2``."""
    return one_line(", ".join(f"{key} {_plain(value)}" for key, value in proof.items()), limit)


def aimed(fault: FaultRecord) -> str:
    """``kill_broker-1 on broker-2 (leader of datasink-0)``."""
    return f"{fault.name} on {fault.target}" if fault.target else fault.name


def wall_s(report: Report) -> float:
    """From the begin of its first phase to the end of its last."""
    ends = [phase.start_ms / 1000 + phase.duration_s for phase in report.phases]
    return max(ends) - report.phases[0].start_ms / 1000 if ends else 0.0


def expected(report: Report, finding: Finding) -> Verdict:
    """What the scenario predicts; a control is predicted for the pipeline's output (judged last), the rest must hold."""
    is_output = finding.subject == report.findings[-1].subject
    return report.expect.get(finding.verifier, Verdict.VALID) if is_output else Verdict.VALID


def outcome(report: Report, finding: Finding) -> Verdict:
    """What a finding means for its run: VALID when it is as predicted.

    A control that found nothing is blind only where its faults bit: a run with problems proved nothing, about the control too.
    """
    if finding.verdict is Verdict.UNKNOWN:
        return Verdict.UNKNOWN
    if finding.verdict is expected(report, finding) and _exact(finding, predicted(report, finding)):
        return Verdict.VALID
    return Verdict.UNKNOWN if finding.verdict is Verdict.VALID and report.problems else Verdict.INVALID


def _exact(finding: Finding, wanted: Mapping[str, int]) -> bool:
    """These anomalies so often, and no other; what a verifier counts beside (aborted rows, say) is not predicted."""
    return all(finding.counts.get(anomaly, 0) == count for anomaly, count in wanted.items()) and (
        sum(wanted.values()) == finding.count or wanted == _counts(finding)
    )


def predicted(report: Report, finding: Finding) -> Mapping[str, int]:
    """The counts that the scenario predicts, or whatever was found where it predicts none."""
    is_output = finding.subject == report.findings[-1].subject
    return report.exactly.get(finding.verifier, _counts(finding)) if is_output else _counts(finding)


def tally(counts: Mapping[str, int]) -> str:
    """``lost 5, pending 2``; what is not there is not mentioned."""
    return ", ".join(f"{anomaly} {number(count)}" for anomaly, count in counts.items() if count)


def phrase(report: Report, finding: Finding) -> str:
    """``gaps 0``, ``gaps ?``, ``duplicates 3: INVALID as expected``, ``duplicates 0: INVALID expected``."""
    is_output = finding.subject == report.findings[-1].subject
    name = finding.verifier if is_output else f"{finding.verifier} in {finding.subject}"
    if finding.verdict is Verdict.UNKNOWN:
        return f"{name}{_SPACE}?"
    control = expected(report, finding) is Verdict.INVALID
    caught = "INVALID as expected" if outcome(report, finding) is Verdict.VALID else _wanted(report, finding)
    return f"{name}{_SPACE}{number(finding.count)}{f': {caught}' if control else ''}"


def phrases(report: Report) -> Iterable[str]:
    """Every finding of the output, and of the other logs what is not as it must be."""
    for finding in report.findings:
        if finding.subject == report.findings[-1].subject or outcome(report, finding) is not Verdict.VALID:
            yield phrase(report, finding)


def _counts(finding: Finding) -> Mapping[str, int]:
    return {anomaly: count for anomaly, count in finding.counts.items() if count}


def _wanted(report: Report, finding: Finding) -> str:
    return f"{tally(predicted(report, finding))} expected" if finding.verifier in report.exactly else "INVALID expected"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return str(value)
