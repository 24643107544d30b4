"""The verdict of a run in the words of pages."""

from collections.abc import Iterator

from chaos.report.formatting import tally
from chaos.report.model import Report
from verifiers.base import Verdict

NO_REPORT = "NO REPORT"


def meaning(report: Report) -> str:
    """Explain the verdict of a run in a few words."""
    if report.verdict is Verdict.UNKNOWN:
        return "proved nothing"
    is_control = Verdict.INVALID in report.expect.values()
    if report.verdict is Verdict.INVALID:
        return "not as predicted" if is_control else "guarantee broken"
    if report.not_sent:
        return "never sent, as expected"
    return "negative control, caught" if is_control else "guarantees hold"


def expected(report: Report) -> str:
    """Word the scenario's expectation: ``VALID``, or ``INVALID: duplicates (duplicate 100), ordering``."""
    predicted = ", ".join(_predicted(report))
    if predicted:
        return f"INVALID: {predicted}"
    return "the request is never sent" if report.not_sent else "VALID"


def _predicted(report: Report) -> Iterator[str]:
    for name, verdict in report.expect.items():
        if verdict is Verdict.INVALID:
            counts = tally(report.exactly.get(name, {}))
            yield f"{name} ({counts})" if counts else name
