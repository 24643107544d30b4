"""Format numbers, times, proofs and findings, alike in every report."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from chaos.common.errors import one_line
from verifiers.base import Finding, Verdict

if TYPE_CHECKING:  # an audit uses this module, too, and starts half a second sooner without the grammar of scenarios
    from chaos.report.model import FaultRecord, Report

_UNDECIDED = "undecided"  # a count that is not an anomaly
_NAMED = 4
_SPACE = "\u00a0"  # no line breaks inside a number or between it and its unit


def number(count: int) -> str:
    """Thousands apart: ``30 000``."""
    return f"{count:,}".replace(",", _SPACE)


def seconds(duration_s: float | None) -> str:
    """``3.1 s``, ``4 min 05 s``, and a dash for None."""
    if duration_s is None:
        return "–"  # noqa: RUF001 - an empty cell of a table
    if duration_s < 100:  # noqa: PLR2004 - more digits than that help no reader
        return f"{duration_s:.1f}{_SPACE}s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes}{_SPACE}min{_SPACE}{rest:02}{_SPACE}s"


def moment(time_ms: int) -> str:
    """Time of day in UTC, as in the logs: ``12:03:04.512Z``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M:%S}.{time_ms % 1000:03}Z"


def day(time_ms: int) -> str:
    """The date in UTC: ``2026-11-21``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d}"


def in_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table: no tags of HTML, and no further cell."""
    return escape(text, quote=False).replace("|", "\\|")


def facts(proof: Mapping[str, Any], limit: int = 160) -> str:
    """The numbers of a proof: ``pids broker-2 4711, refused broker-2``."""
    return one_line(", ".join(f"{key} {_plain(value)}" for key, value in proof.items()), limit)


def aimed(fault: "FaultRecord") -> str:
    """``kill_broker-1 on broker-2 (leader of orders-0)``."""
    return f"{fault.name} on {fault.target}" if fault.target else fault.name


def wall_s(report: "Report") -> float:
    """Return the seconds from the begin of the first phase to the end of the last."""
    ends = [phase.start_ms / 1000 + phase.duration_s for phase in report.phases]
    return max(ends) - report.phases[0].start_ms / 1000 if ends else 0.0


def tally(counts: Mapping[str, int] | Mapping[str, int | str]) -> str:
    """``lost 5, pending 2``, ``some not written``; zeros are left out."""
    return ", ".join(
        f"{anomaly} {number(count)}" if isinstance(count, int) else f"{count} {anomaly}"
        for anomaly, count in counts.items()
        if count
    )


def phrase(report: "Report", finding: Finding) -> str:
    """``gaps 0``, ``gaps ?``, ``duplicates 3: INVALID as expected``, ``duplicates 0: INVALID expected``.

    ``atomicity 0, 2 undecided`` if a verdict leaves something open.
    """
    expectations = report.expectations
    name = finding.verifier if finding.subject == expectations.output else f"{finding.verifier} in {finding.subject}"
    if finding.verdict is Verdict.UNKNOWN:
        return f"{name}{_SPACE}?"
    if not finding.asked:
        misses = expectations.expected(finding) is Verdict.INVALID
        return f"{name}{_SPACE}not{_SPACE}asked" + (": INVALID expected" if misses else "")
    undecided = finding.counts.get(_UNDECIDED, 0)
    counted = f"{name}{_SPACE}{number(finding.count)}" + (f", {number(undecided)}{_SPACE}{_UNDECIDED}" if undecided else "")
    if expectations.expected(finding) is not Verdict.INVALID:
        return counted
    if expectations.outcome(finding) is Verdict.VALID:
        return f"{counted}: INVALID as expected"
    wanted = tally(expectations.predicted(finding)) if finding.verifier in report.exactly else "INVALID"
    return f"{counted}: {wanted} expected"


def restarts(report: "Report") -> str:
    """``the program ended and was started again 3 times after exit code 1``; its guarantees may rest on these restarts."""
    times = "once" if report.restarts == 1 else f"{number(report.restarts)}{_SPACE}times"
    codes = ", ".join(map(str, report.exit_codes))
    after = f" after exit code{'s' if len(report.exit_codes) > 1 else ''}{_SPACE}{codes}" if codes else ""
    return f"the program ended and was started again {times}{after}"


def phrases(report: "Report") -> Iterable[str]:
    """Yield every finding that the scenario's expectations are about, and those about other logs that are not as they must be.

    Findings about the output come first. Of verifiers that rightly found nothing, the first few are named and the rest are
    counted. A VALID report also has the random faults without effect, of which it allows a few (docs/adr/0006), and those that
    were skipped: fewer were tried than were drawn.
    """
    expectations = report.expectations
    findings = sorted(report.findings, key=lambda finding: finding.subject != expectations.output)
    concerned = [finding for finding in findings if expectations.concern(finding)]
    clean = [finding for finding in concerned if _is_clean(report, finding)]
    counted = clean[_NAMED:] if len(clean) > _NAMED + 1 else []
    for finding in findings:
        shown = finding in concerned or expectations.outcome(finding) is not Verdict.VALID
        if shown and finding not in counted:
            yield phrase(report, finding)
    if counted:
        yield f"{len(counted)} more{_SPACE}0"
    if report.left_out:
        yield f"not asked: {', '.join(report.left_out)}"
    idle = sum(not fault.effective for fault in report.faults)
    if idle and report.verdict is Verdict.VALID and not report.not_sent:
        yield f"{idle} of {len(report.faults)} faults without effect"
    if report.restarts:
        yield restarts(report)
    if report.spared and report.verdict is Verdict.VALID:
        yield f"{report.spared}{_SPACE}random faults skipped at the end"


def findings_line(report: "Report") -> str:
    """All phrases in one line: ``duplicates 3 · gaps 0``; ``nothing was judged`` if there are none."""
    return " · ".join(phrases(report)) or "nothing was judged"


def began(report: "Report") -> str:
    """Return day and time at which the first phase began, in UTC: ``2026-11-18 11:06:40.000Z``; "" without a phase."""
    return f"{day(report.phases[0].start_ms)} {moment(report.phases[0].start_ms)}" if report.phases else ""


def _is_clean(report: "Report", finding: Finding) -> bool:
    outcome = report.expectations.outcome(finding)
    counted = finding.count or finding.counts.get(_UNDECIDED)
    return finding.asked and not counted and outcome is finding.verdict is Verdict.VALID


def _plain(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple) and not value:
        return "none"
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return str(value)
