"""`chaos judge RUN`: phases 7 and 8 of a finished run, from its files alone."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chaos.common.errors import InconclusiveError
from chaos.common.events import FORMAT
from chaos.common.history import format_of, load, require_complete
from chaos.install import artifacts
from chaos.judging import spark_session
from chaos.judging.judge import judge
from chaos.report.failure_text import explain
from chaos.report.model import FILE, build, why_damaged
from chaos.scenario.model import Scenario
from chaos.scenario.plan import from_json

T = TypeVar("T")


def rejudge(run: Path, echo: Callable[[str], None]) -> int:
    """Judge again, write findings and report anew.

    Returns:
        The exit code: 0 valid, 1 invalid, 3 unknown.

    Raises:
        InconclusiveError: it cannot be judged: it is not a run directory, has no evidence, is damaged, or Spark failed; earlier
            findings stay.
    """
    _require_format(run)
    scenario = _read(run / "scenario.json", lambda path: Scenario.of_run(path.read_text(encoding="utf-8")))
    schedule = _read(run / "schedule.json", lambda path: from_json(json.loads(path.read_text(encoding="utf-8"))))
    events = _read(run / "history.jsonl", lambda path: tuple(load(path)))
    replay = _replay(run)
    require_complete(events, run / "history.jsonl", was_judged=_was_judged(run))
    parts = artifacts.at_hand()  # Spark starts sooner with its class archive; to read Parquet it needs PySpark only
    try:
        with (
            tempfile.TemporaryDirectory(prefix="judge-", dir=run, ignore_cleanup_errors=True) as scratch,
            spark_session.held(partial(spark_session.of_run, parts, Path(scratch))) as started,
        ):
            findings = judge(started, scenario, run)
        report = build(scenario, schedule, events, findings, run.resolve(), replay)
        report.write()
    except OSError as error:
        what = f"{run} cannot be written ({error.strerror})"
        raise InconclusiveError(f"{what}; copy it to a writable place, for its new findings and report") from error
    echo(explain(report))
    return report.verdict.exit_code


def _read(path: Path, parse: Callable[[Path], T]) -> T:
    try:
        return parse(path)
    except FileNotFoundError as error:
        raise InconclusiveError(f"{path.parent} is not a run directory: {path.name} is missing") from error
    except OSError as error:
        raise InconclusiveError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InconclusiveError(f"{path} is damaged ({why_damaged(error)}): run the scenario again") from error


def _require_format(run: Path) -> None:
    """Refuse a run of another version: its words may mean something else, and its files would be replaced.

    Raises:
        InconclusiveError: another version wrote it.
    """
    path = run / "history.jsonl"
    format_ = _read(path, format_of) if path.exists() else None
    if format_ not in {None, FORMAT}:
        raise InconclusiveError(
            f"{run} has format {format_}, and this version of chaos judges format {FORMAT}: judge it with the version that "
            "wrote it, or run the scenario again"
        )


def _was_judged(run: Path) -> bool:
    """Whether the report of the run has the end of its phase judge; False if it cannot be read."""
    try:
        return any(phase["name"] == "judge" for phase in _report(run)["phases"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _report(run: Path) -> Any:
    """Read the report of the run, whatever version wrote it; errors are those of reading and parsing."""
    return json.loads((run / FILE).read_text(encoding="utf-8"))


def _replay(run: Path) -> str:
    """Return the command line that repeats the run, the only fact that only its report has."""
    try:
        return str(_report(run)["replay"])
    except FileNotFoundError:
        return "unknown: the run has no report"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown: the run's report cannot be read"
