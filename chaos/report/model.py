"""The outcome of one run as a value: what reporters render and what `report.json` holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from chaos.common import files
from chaos.judging.judge import FORMAT, NamedFinding, NamedVerdict
from chaos.judging.verdict import Expectations

FILE = "report.json"


class Record(BaseModel):
    """A value that does not change; a file with a field that this version does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class PhaseRecord(Record):
    """One of the eight phases: when it began, how long it took, and the error that ended it ("" if none)."""

    name: str
    start_ms: int
    duration_s: float
    error: str = ""


class FaultRecord(Record):
    """One fault from its trigger to its heal, in milliseconds since the epoch; None for what never happened.

    Attributes:
        name: unique in the scenario; kind: as in the catalogue; target: resolved, e.g. ``broker-2 (leader of datasink-0)``.
        effective: whether its proof held ("bit" in files of format 1); proof: the numbers that say so.
        problem: why it was not injected, had no effect or could not be healed; "" when all went well.
        aftermath: what its heal reported.
    """

    name: str
    kind: str
    target: str
    triggered_ms: int | None
    injected_ms: int | None
    proved_ms: int | None
    healed_ms: int | None
    effective: bool = Field(validation_alias=AliasChoices("effective", "bit"))
    proof: Mapping[str, Any]
    problem: str = ""
    aftermath: Mapping[str, Any] = {}


class Report(Record):
    """The outcome of one run.

    Attributes:
        verdict: after `expect` was applied: a control that came back as predicted is VALID here.
        judged: verifier -> what it said, before `expect`.
        problems: every reason for not being VALID that is not a finding (a fault had no effect, a trigger never came, …).
        recovery_s: from the last injection to the end of the longest standstill of the committed output after it; None when
            nothing was injected, or the output never grew again.
        replay: the command line that repeats this schedule.
        exactly: verifier -> anomaly -> count, where `expect` predicts those too.
        matrix: axis -> word, of a case of a matrix.
        not_sent: the request of its fault was never sent, as the scenario predicts.
        alarmed_s: when the early audit saw a first anomaly, in seconds since the run began; None when it saw none, or was off.
    """

    version: Literal[2] = FORMAT
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
    exactly: Mapping[str, Mapping[str, int]] = {}
    matrix: Mapping[str, str] = {}
    not_sent: bool = False
    alarmed_s: float | None = None

    @property
    def expectations(self) -> Expectations:
        """What the scenario expects; the pipeline's output is judged last."""
        output = self.findings[-1].subject if self.findings else ""
        return Expectations(self.expect, self.exactly, output, has_problems=bool(self.problems))

    def write(self) -> None:
        """Put `report.json` into the run directory."""
        files.write_atomically(self.run_dir / FILE, self.model_dump_json(indent=1))
