"""The outcome of one run as a value, which reporters render and `report.json` holds.

It is built from the history and the findings in a run directory, and from nothing else.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.common import files
from chaos.common.errors import InconclusiveError, one_line
from chaos.common.events import (
    FORMAT,
    FaultInjected,
    FaultSpared,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
    PipelineSampled,
    ProcessReport,
    TwinUsed,
)
from chaos.common.history import Event, of_type
from chaos.judging.findings_file import NamedFinding, NamedVerdict
from chaos.judging.progress import recoveries
from chaos.judging.story import Occurrence, Story
from chaos.judging.verdict import Expectations, decide
from chaos.scenario.model import Scenario
from chaos.scenario.plan import Schedule
from verifiers.base import Finding, Verdict

FILE = "report.json"


class Record(BaseModel):
    """An immutable value; files with unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class PhaseRecord(Record):
    """One of the eight phases: when it began, how long it took, and the error that ended it ("" if none)."""

    name: str
    start_ms: int
    duration_s: float
    error: str = ""


class FaultRecord(Record):
    """One fault from its trigger to its heal, in milliseconds since the epoch; None for a step that never happened.

    Attributes:
        name: unique in the scenario; kind: as in the catalogue; target: resolved, e.g. ``broker-2 (leader of orders-0)``.
        effective: whether its proof held, and its heal did not show otherwise; proof: the numbers.
        problem: why it was not injected, had no effect or could not be healed; "" if all went well.
        aftermath: the report of its heal.
        lag: records that the pipeline had not read yet at the injection, by the last sample before; None if not known. If it
            was 0, a fault that took effect may have had nothing to break.
        moment: of a trigger on a request, ``while the response to EndTxn 17 was on the wire``; else "".
    """

    name: str
    kind: str
    target: str
    triggered_ms: int | None
    injected_ms: int | None
    proved_ms: int | None
    healed_ms: int | None
    effective: bool
    proof: Mapping[str, Any]
    problem: str = ""
    aftermath: Mapping[str, Any] = {}
    moment: str = ""
    lag: int | None = None


class Report(Record):
    """The outcome of one run.

    Attributes:
        verdict: after `expect` was applied: a control that came back as predicted is VALID here.
        judged: verifier -> its worst verdict, before `expect`.
        problems: every reason for not being VALID that is not a finding (a fault had no effect, a trigger never came, …).
        recovery_s: from the last injection to the end of the longest standstill of the committed output after it; None if
            nothing was injected, or the output never grew again.
        replay: the command line that repeats this schedule.
        exactly: verifier -> anomaly -> count, a range (``100..400``), or ``some``, if `expect` predicts counts.
        left_out: verifier -> why the scenario leaves it out.
        matrix: axis -> word, of a case of a matrix.
        not_sent: whether the request of its fault was never sent, as the scenario predicts.
        spared: random faults that were skipped, because the whole workload had passed before their turn came.
        twin: the run without faults that defines the expected rows; "" if there is none.
        restarts: how often the supervisor restarted the program under test, after an error or a fault.
        exit_codes: its exit codes before these restarts, each once; negative for a signal.
        output: the log that the expectations are about; "" if none was judged.
    """

    version: Literal[4] = FORMAT
    scenario: str
    title: str
    tags: tuple[str, ...]
    verdict: NamedVerdict
    judged: Mapping[str, NamedVerdict]
    expect: Mapping[str, NamedVerdict]
    findings: tuple[NamedFinding, ...]
    problems: tuple[str, ...]
    phases: tuple[PhaseRecord, ...]
    faults: tuple[FaultRecord, ...]
    recovery_s: float | None
    records: int
    seed: int
    run_dir: Path
    replay: str
    exactly: Mapping[str, Mapping[str, int | str]] = {}
    left_out: Mapping[str, str] = {}
    matrix: Mapping[str, str] = {}
    not_sent: bool = False
    spared: int = 0
    twin: str = ""
    restarts: int = 0
    exit_codes: tuple[int, ...] = ()
    output: str = ""

    @property
    def expectations(self) -> Expectations:
        """The scenario's expectations."""
        return Expectations(self.expect, self.exactly, self.output, has_problems=bool(self.problems))

    @property
    def not_asked(self) -> Mapping[str, str]:
        """Verifier that was not asked -> why: the scenario leaves it out, or a log has nothing for it."""
        there = {f"{one.verifier} of the {one.subject}": str(one.note) for one in self.findings if not one.asked}
        return {**self.left_out, **there}

    def write(self) -> None:
        """Put `report.json` into the run directory."""
        files.write_atomically(self.run_dir / FILE, self.model_dump_json(indent=1))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run directory, perhaps of a run that left no report."""
    return any((folder / name).exists() for name in (FILE, "scenario.json", "history.jsonl"))


def reports_in(runs: Path) -> tuple[list[Report], list[Path]]:
    """Read the reports of all run directories in a folder, oldest first; also return the directories without a report.

    Raises:
        InconclusiveError: no run is there, or a report cannot be read.
    """
    folders = runs_in(runs)
    reported = [folder for folder in folders if (folder / FILE).exists()]
    return [read(folder / FILE) for folder in reported], [folder for folder in folders if folder not in reported]


def runs_in(runs: Path) -> list[Path]:
    """List the run directories in a folder, oldest first.

    Raises:
        InconclusiveError: there is none.
    """
    folders = sorted(path for path in runs.iterdir() if is_run(path))
    if not folders:
        raise InconclusiveError(f"{runs} holds no run directory; name the folder of the runs (--chaos-runs)")
    return folders


def read(path: Path) -> Report:
    """Read the report in a file.

    Raises:
        InconclusiveError: the file cannot be read, is damaged, or another version of chaos wrote it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _require_format(path, json.loads(text))
        return Report.model_validate_json(text)
    except (OSError, ValueError, RecursionError) as error:  # a ValueError: ValidationError, and text that is not UTF-8
        why = why_damaged(error)
        raise InconclusiveError(f"{path} cannot be read, or another version of chaos wrote it: {why}") from error


def _require_format(path: Path, written: Any) -> None:
    """Refuse a report of another format: its fields may mean something else."""
    format_ = written.get("version") if isinstance(written, dict) else None
    if isinstance(format_, int) and format_ != FORMAT:
        raise InconclusiveError(
            f"{path} has format {format_}, but this version of chaos reads format {FORMAT}: use the version that wrote it"
        )


def why_damaged(error: Exception) -> str:
    """Return in one line why a file cannot be read; for a model, its first error with the place."""
    match error:
        case ValidationError():
            first = error.errors()[0]
            return one_line(": ".join((*map(str, first["loc"]), first["msg"])))
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return one_line(f"{type(error).__name__}: {error}")


# from a run directory -------------------------------------------------------------------------------------------------


def build(
    scenario: Scenario, schedule: Schedule, events: Sequence[Event], findings: Sequence[Finding], folder: Path, replay: str
) -> Report:
    """Build the report of one run, complete or cut short."""
    judgement = decide(scenario, schedule, events, findings)
    kinds = {step.name: step.fault.kind for step in schedule.steps}
    recovered = recoveries(events)
    return Report(
        scenario=scenario.name,
        title=scenario.title,
        tags=scenario.tags,
        verdict=judgement.verdict,
        judged=_worst_by_verifier(findings),
        expect=judgement.expectations.verdicts,
        findings=tuple(findings),
        problems=judgement.problems,
        phases=tuple(_phases(events, judgement.phase_errors)),
        faults=tuple(
            _fault(name, kinds[name], problem, judgement.stories[name]).model_copy(update={"lag": _lag_at(name, events)})
            for name, problem in judgement.fault_problems.items()
        ),
        recovery_s=recovered[-1].seconds if recovered else None,
        records=scenario.workload.total,
        seed=schedule.seed,
        run_dir=folder,
        replay=replay,
        exactly=scenario.exactly,
        left_out={str(name): reason for name, reason in scenario.left_out.items()},
        matrix=scenario.matrix,
        not_sent=judgement.not_sent,
        spared=len(of_type(events, FaultSpared)),
        twin=next((_twin(value) for _, value in of_type(events, TwinUsed)), ""),
        restarts=sum(said.event == "restarted" for said in _of_supervisors(events)),
        output=judgement.expectations.output,
        exit_codes=tuple(sorted({code for said in _of_supervisors(events) if (code := _exit_code(said))})),
    )


def _of_supervisors(events: Iterable[Event]) -> Iterator[ProcessReport]:
    """Yield the supervisors' reports about copies of the program under test (`chaos.contract.supervisor`)."""
    return (said for _, said in of_type(events, ProcessReport) if not said.is_of_loader and "copy" in said.content)


def _exit_code(said: ProcessReport) -> int:
    """Return the exit code of a copy that has ended; 0 if it is not reported."""
    code = said.content.get("code", 0) if said.event == "ended" else 0
    return code if isinstance(code, int) else 0


def _twin(used: TwinUsed) -> str:
    when = f"made now, by {used.runs} runs with equal results" if used.runs else f"kept since {used.made}"
    return f"the {used.rows} rows of the same pipeline and workload without faults ({when}; twin {used.key})"


def _worst_by_verifier(findings: Iterable[Finding]) -> Mapping[str, Verdict]:
    judged: dict[str, Verdict] = {}
    for finding in findings:
        judged[finding.verifier] = max(finding.verdict, judged.get(finding.verifier, Verdict.VALID))
    return judged


def _phases(events: Iterable[Event], errors: Mapping[str, str]) -> Iterator[PhaseRecord]:
    began: Event | None = None
    is_open = False
    for event in events:
        match event.value:
            case PhaseBegan():
                began, is_open = event, True
            case PhaseEnded(phase=name) | PhaseFailed(phase=name) if began is not None:
                took_s, is_open = round(event.elapsed_s - began.elapsed_s, 3), False
                yield PhaseRecord(name=name, start_ms=began.time_ms, duration_s=took_s, error=errors.get(name, ""))
    if is_open and began is not None and isinstance(began.value, PhaseBegan) and began.value.phase in errors:
        name = began.value.phase  # the run was ended in it
        yield PhaseRecord(name=name, start_ms=began.time_ms, duration_s=0.0, error=errors[name])


def _fault(name: str, kind: str, problem: str, story: Story) -> FaultRecord:
    def when_ms(told: Occurrence[Any] | None) -> int | None:
        return told.event.time_ms if told else None

    return FaultRecord(
        name=name,
        kind=kind,
        target=story.injected.value.target if story.injected else "",
        triggered_ms=when_ms(story.triggered),
        injected_ms=when_ms(story.injected),
        proved_ms=when_ms(story.proved),
        healed_ms=when_ms(story.healed),
        effective=story.is_effective,
        proof=story.proved.value.proof if story.proved else {},
        problem=problem,
        aftermath=story.healed.value.details if story.healed else {},
        moment=story.waits.moment if story.waits and story.triggered else "",
    )


def _lag_at(name: str, events: Sequence[Event]) -> int | None:
    injected = [event.index for event, value in of_type(events, FaultInjected) if value.fault == name]
    before = [sample.lag for event, sample in of_type(events, PipelineSampled) if injected and event.index < injected[-1]]
    return before[-1] if before else None
