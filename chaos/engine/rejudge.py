"""`chaos judge RUN`: phases 7 and 8 of a run that is over, from its files alone."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from chaos.common.errors import InconclusiveError
from chaos.common.history import load
from chaos.common.text import one_line
from chaos.install import artifacts
from chaos.judging import landing, spark_session
from chaos.judging.judge import judge
from chaos.judging.verdict import EXIT_CODES
from chaos.report import codec
from chaos.report.build import build
from chaos.report.failure_text import explain
from chaos.scenario.model import Scenario
from chaos.scenario.plan import from_json

T = TypeVar("T")


def rejudge(run: Path, echo: Callable[[str], None]) -> int:
    """Judge again, write findings and report anew.

    Returns:
        The exit code: 0 valid, 1 invalid, 3 unknown.

    Raises:
        InconclusiveError: it cannot be judged: no run directory, never landed, damaged, or Spark failed; what was found before
            stays.
    """
    scenario = _read(run / "scenario.json", lambda path: Scenario.model_validate_json(path.read_text(encoding="utf-8")))
    schedule = _read(run / "schedule.json", lambda path: from_json(json.loads(path.read_text(encoding="utf-8"))))
    events = _read(run / "history.jsonl", lambda path: tuple(load(path)))
    replay = _replay(run / codec.FILE)
    parts = artifacts.ensure(echo)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="judge-", dir=run, ignore_cleanup_errors=True) as scratch,
            spark_session.session(partial(landing.session, parts, Path(scratch))) as started,
        ):
            landing.suit(started, scenario.workload.records)
            findings = judge(started, scenario, run)
        report = build(scenario, schedule, events, findings, run.resolve(), replay)
        codec.write(report)
    except spark_session.FAILURES as error:
        raise InconclusiveError(spark_session.failure(error)) from error
    except OSError as error:
        what = f"{run} cannot be written ({error.strerror})"
        raise InconclusiveError(f"{what}: copy it to where you may write, findings and report are put into it") from error
    echo(explain(report))
    return EXIT_CODES[report.verdict]


def _read(path: Path, parse: Callable[[Path], T]) -> T:
    try:
        return parse(path)
    except FileNotFoundError as error:
        raise InconclusiveError(f"{path.parent} is no run directory: {path.name} is missing") from error
    except OSError as error:
        raise InconclusiveError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InconclusiveError(f"{path} is damaged, or of another version ({_why(error)}): run the scenario again") from error


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return one_line(": ".join((*map(str, first["loc"]), first["msg"])))
    return one_line(f"{type(error).__name__}: {error}")


def _replay(path: Path) -> str:
    """The line that repeats the run: all that an old report says and the other files do not."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["replay"])
    except FileNotFoundError:
        return "unknown: the run has no report"
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown: the run's report cannot be read"
