"""`chaos judge RUN`: phases 7 and 8 of a run that is over, from its files alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from chaos import auditor
from chaos.errors import InconclusiveError
from chaos.history import load
from chaos.judge import judge
from chaos.report import codec
from chaos.report.build import build
from chaos.report.failures import explain
from chaos.runtime import artifacts
from chaos.scenario.model import Scenario
from chaos.scenario.plan import from_json
from verifiers.base import Verdict

_EXIT = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3}


def rejudge(run: Path, echo: Callable[[str], None]) -> int:
    """Judge again, write findings and report anew.

    Returns:
        The exit code.

    Raises:
        InconclusiveError: the folder is no run directory, or was never landed.
    """
    try:
        scenario = Scenario.model_validate_json((run / "scenario.json").read_text(encoding="utf-8"))
        schedule = from_json(json.loads((run / "schedule.json").read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise InconclusiveError(f"{run} is no run directory: {Path(error.filename).name} is missing") from error
    spark = auditor.start(artifacts.ensure(echo), run / "tmp")
    auditor.suit(spark, scenario.workload.records)
    findings = judge(spark, scenario, run)
    before = run / "report.json"
    replay = json.loads(before.read_text(encoding="utf-8"))["replay"] if before.exists() else "unknown: the run has no report"
    report = build(scenario, schedule, tuple(load(run / "history.jsonl")), findings, run.resolve(), replay)
    (run / "report.json").write_text(json.dumps(codec.to_json(report), indent=1) + "\n", encoding="utf-8")
    spark.stop()
    shutil.rmtree(run / "tmp", ignore_errors=True)
    echo(explain(report))
    return _EXIT[report.verdict]
