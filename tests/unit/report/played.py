"""Played by a pytest of its own: every folder here is a run that was recorded; it is shown, and ends as its report says."""

from pathlib import Path

import pytest

from chaos.common.errors import InconclusiveError, ViolationError
from chaos.common.history import load
from chaos.report import allure
from chaos.report.failure_text import explain
from chaos.report.model import Report
from verifiers.base import Verdict

ERRORS = {Verdict.INVALID: ViolationError, Verdict.UNKNOWN: InconclusiveError}


@pytest.mark.smoke
@pytest.mark.parametrize("scenario", ["valid", "invalid", "unknown", "control", "interrupted"])
def test_scenario(scenario: str) -> None:
    """Show the run of that name, then end as it did."""
    folder = Path(__file__).parent / scenario
    report = Report.model_validate_json((folder / "report.json").read_text(encoding="utf-8"))
    allure.render(report, tuple(load(folder / "history.jsonl")), sorted(folder.glob("logs/*.log")))
    if scenario == "interrupted":
        raise KeyboardInterrupt
    if report.verdict is not Verdict.VALID:
        raise ERRORS[report.verdict](explain(report))
