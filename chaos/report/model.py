"""The outcome of one run as a value: what reporters render and what `report.json` holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.judging.verdict import Expectations
from verifiers.base import Finding, Verdict


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """One of the eight phases: when it began, how long it took, and the error that ended it ("" if none)."""

    name: str
    start_ms: int
    duration_s: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault from its trigger to its heal, in milliseconds since the epoch; None for what never happened.

    Attributes:
        name: unique in the scenario; kind: as in the catalogue; target: resolved, e.g. ``broker-2 (leader of datasink-0)``.
        bit: whether its proof held; proof: the numbers that say so.
        aftermath: what its heal said came of it.
        problem: why it was not injected, did not bite or could not be healed; "" when all went well.
    """

    name: str
    kind: str
    target: str
    triggered_ms: int | None
    injected_ms: int | None
    proved_ms: int | None
    healed_ms: int | None
    bit: bool
    proof: Mapping[str, Any]
    problem: str = ""
    aftermath: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one run.

    Attributes:
        verdict: after `expect` was applied: a control that came back as predicted is VALID here.
        judged: verifier -> what it said, before `expect`.
        exactly: verifier -> anomaly -> count, where `expect` predicts those too.
        matrix: axis -> word, of a case of a matrix.
        not_sent: the request of its fault was never sent, as the scenario predicts.
        problems: every reason for not being VALID that is no finding (a fault did not bite, a trigger never came, …).
        recovery_s: from the last injection to the end of the longest standstill of the committed output after it; None when
            nothing was injected, or the output never grew again.
        replay: the command line that repeats this schedule.
        alarmed_s: when the early audit saw a first anomaly, from the begin of the run; None when it saw none, or was not on.
    """

    scenario: str
    title: str
    tags: tuple[str, ...]
    verdict: Verdict
    judged: Mapping[str, Verdict]
    expect: Mapping[str, Verdict]
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    phases: tuple[PhaseRecord, ...]
    faults: tuple[FaultRecord, ...]
    recovery_s: float | None
    records: int
    seed: int
    run_dir: Path
    replay: str
    exactly: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    matrix: Mapping[str, str] = field(default_factory=dict)
    not_sent: bool = False
    alarmed_s: float | None = None

    @property
    def expectations(self) -> Expectations:
        """What the scenario expects; the pipeline's output is judged last."""
        output = self.findings[-1].subject if self.findings else ""
        return Expectations(self.expect, self.exactly, output, has_problems=bool(self.problems))
