"""One run in the Allure report: its phases as steps with their true times, its files as attachments.

Rendered from the report and the history at the end of a test, in pytest's own thread: `allure.step` in any other thread lands
wherever the main thread happens to be (allure-python #757, #872). Without ``--alluredir`` nothing is done.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import allure
from allure_commons import plugin_manager
from allure_commons.model2 import Parameter, Status, StatusDetails, TestResult, TestStepResult
from allure_commons.types import AttachmentType

from chaos.common.history import Event
from chaos.report.failure_text import explain
from chaos.report.formatting import phrases, seconds
from chaos.report.model import Report
from chaos.report.steps import Step, steps
from verifiers.base import Verdict

_TAIL_BYTES = 256 * 1024
_FILES = {
    "timeline.svg": AttachmentType.SVG,
    "timeline.png": AttachmentType.PNG,
    "findings.json": AttachmentType.JSON,
    "scenario.json": AttachmentType.JSON,
    "schedule.json": AttachmentType.JSON,
    "versions.json": AttachmentType.JSON,
    "history.jsonl": AttachmentType.TEXT,
}
_dynamic: Any = allure.dynamic  # without types
_attached: Any = allure.attach
_INTERRUPTED = "KeyboardInterrupt"


def render(report: Report, events: Sequence[Event], logs: Sequence[Path]) -> None:
    """Show one run in the test that is running now.

    Args:
        report: of the run; its run directory's files are attached as far as they are there.
        events: its history.
        logs: attached, the last 256 KiB of each, unless the run is VALID.
    """
    test = _current_test()
    if test is None:
        return
    test.steps.extend(_shown(step) for step in steps(report, events))
    _label(report)
    _parametrize(test, report)
    _attach(report, logs)
    if any(phase.error.startswith(_INTERRUPTED) for phase in report.phases):
        _mark_interrupted(test)


def attach_text(name: str, text: str) -> None:
    """Attach a text to the test that is running now."""
    if _current_test() is not None:
        _attached(text, name=name, attachment_type=AttachmentType.TEXT)


def _current_test() -> TestResult | None:
    """The result under construction. Public API adds steps with the present time only, hence this (allure-pytest 2.16)."""
    for plugin in plugin_manager.get_plugins():
        reporter = getattr(plugin, "allure_logger", None)
        if reporter is not None:
            test: TestResult | None = reporter.get_test(None)
            return test
    return None


def _shown(step: Step) -> TestStepResult:
    return TestStepResult(
        name=step.name,
        status=step.status,
        statusDetails=StatusDetails(message=step.message) if step.message else None,
        start=step.start_ms,
        stop=max(step.start_ms, step.stop_ms),
        parameters=[Parameter(name=name, value=value) for name, value in step.parameters.items()],
        steps=[_shown(inner) for inner in step.steps],
    )


def _label(report: Report) -> None:
    """Tags are not set here: they are pytest marks, which allure-pytest shows as tags itself."""
    control = Verdict.INVALID in report.expect.values()
    kinds = sorted({fault.kind for fault in report.faults})
    _dynamic.title(report.title)
    _dynamic.description(_description(report))
    _dynamic.epic("Delivery guarantees")
    _dynamic.feature("Negative controls: must be caught" if control else "Guarantees under faults")
    _dynamic.story(" and ".join(kinds) or "no fault")
    _dynamic.severity(allure.severity_level.CRITICAL if "smoke" in report.tags else allure.severity_level.NORMAL)


def _description(report: Report) -> str:
    """Markdown."""
    recovery = f"Output grew again after {seconds(report.recovery_s)}." if report.recovery_s is not None else ""
    early = f"The early audit saw the first anomaly after {seconds(report.alarmed_s)}." if report.alarmed_s is not None else ""
    said = " ".join(sentence for sentence in (recovery, early) if sentence)
    verdict = f"**{report.verdict.name}**: {' · '.join(phrases(report)) or 'nothing was judged'}. {said}"
    problems = "".join(f"\n* {problem}" for problem in report.problems)
    return f"{verdict}\n{problems}\n\nReplay:\n\n```\n{report.replay}\n```\n"


def _parametrize(test: TestResult, report: Report) -> None:
    """Left out of the history's key: a test is the same test whatever its seed. `allure.dynamic.parameter` adds quotes."""
    values = {"seed": str(report.seed), "replay": report.replay, "recovery": seconds(report.recovery_s)}
    test.parameters.extend(Parameter(name=name, value=value, excluded=True) for name, value in values.items())


def _attach(report: Report, logs: Sequence[Path]) -> None:
    _attached(explain(report), name="verdict.txt", attachment_type=AttachmentType.TEXT)
    for name, kind in _FILES.items():
        path = report.run_dir / name
        if path.exists():
            _attached.file(str(path), name=name, attachment_type=kind)
    if report.verdict is not Verdict.VALID:
        for log in logs:
            _attached(_tail(log), name=f"{log.name} (tail)", attachment_type=AttachmentType.TEXT)


def _tail(log: Path) -> bytes:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read()


def _mark_interrupted(test: TestResult) -> None:
    """Pytest reports no outcome for an interrupted test, and its set-up alone would leave it green."""
    test.status = Status.BROKEN
    test.statusDetails = StatusDetails(message=f"{_INTERRUPTED}: the run was ended from outside, faults were healed")
