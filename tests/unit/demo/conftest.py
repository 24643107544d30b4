"""Reports as the runs of the demo leave them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.report.model import Report
from verifiers.base import Finding, Verdict


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Report]:
    """Makes one: VALID, or INVALID with the counts that are given, unless a verdict is."""

    def made(*findings: Finding, scenario: str = "scenario", verdict: Verdict | None = None, **counts: int) -> Report:
        (tmp_path / scenario).mkdir(exist_ok=True)
        wrong = [Finding(name, "sink", Verdict.INVALID, count=count, checked=3000) for name, count in counts.items()]
        return Report(
            scenario=scenario,
            title="A title",
            tags=(),
            verdict=(Verdict.INVALID if counts else Verdict.VALID) if verdict is None else verdict,
            judged={},
            expect={},
            findings=(*findings, *wrong),
            problems=(),
            phases=(),
            faults=(),
            recovery_s=1.0,
            records=3000,
            seed=1,
            run_dir=tmp_path / scenario,
            output="sink",
            replay="pytest",
        )

    return made
