"""A fabricated run of 22 seconds: a broker is killed, its log proves it, and 1 204 records are written twice."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chaos.common import events
from chaos.common.history import Event
from chaos.report.model import FaultRecord, PhaseRecord, Report
from verifiers.base import Example, Finding, Verdict

BEGAN_MS = 1_795_000_000_000
PHASES = {"set_up": 0.4, "steady": 2.6, "inject": 8.0, "heal": 1.5, "drain": 4.0, "observe": 3.5, "judge": 2.0}
FAULT = "kill_broker-1"
TARGET = "broker-2 (leader of datasink-0)"
PROOF = {"pids": {"broker-2": 4711}, "refused": ["broker-2"]}


@dataclass(frozen=True)
class Fabricated:
    """The parts of that run, each with some fields replaced if a test wants so; everything the parts do not say is well."""

    folder: Path

    def at(self, second: float) -> int:
        """Seconds since the run began, as milliseconds since the epoch."""
        return BEGAN_MS + round(second * 1000)

    def phases(self, **errors: str) -> tuple[PhaseRecord, ...]:
        """All of them, one after the other; ``drain="…"`` gives that phase an error."""
        starts = [sum(list(PHASES.values())[:place]) for place in range(len(PHASES))]
        rows = zip(starts, PHASES.items(), strict=True)
        return tuple(
            PhaseRecord(name=name, start_ms=self.at(start), duration_s=took, error=errors.get(name, ""))
            for start, (name, took) in rows
        )

    def fault(self, **changes: Any) -> FaultRecord:
        """A broker killed at 5 s and healed, in the phase heal, at 12 s."""
        triggered, injected, proved, healed = (self.at(second) for second in (4.8, 5, 5.6, 12))
        return FaultRecord(
            name=FAULT,
            kind="kill_broker",
            target=TARGET,
            triggered_ms=triggered,
            injected_ms=injected,
            proved_ms=proved,
            healed_ms=healed,
            effective=True,
            proof=PROOF,
        ).model_copy(update=changes)

    def example(self, number: int = 0, **changes: Any) -> Example:
        """One record written twice, 1.2 s after the broker was killed."""
        example = Example("duplicate", 2, 1204 + number, 17 + 3 * number, self.at(6.2), f"also at offset {1190 + number}")
        return replace(example, **changes)

    def finding(self, verifier: str, verdict: Verdict = Verdict.VALID, **changes: Any) -> Finding:
        """A verifier's finding about the sink."""
        return replace(Finding(verifier, "sink", verdict, count=0, checked=30_000), **changes)

    def duplicates(self, **changes: Any) -> Finding:
        """The sink holds 1 204 records too many."""
        examples = tuple(self.example(number) for number in range(8))
        finding = self.finding("duplicates", Verdict.INVALID, count=1204, counts={"duplicate": 1204}, examples=examples)
        return replace(finding, **changes)

    def report(self, **changes: Any) -> Report:
        """INVALID unless the changes say otherwise."""
        report = Report(
            scenario="leader-killed-mid-batch",
            title="A leader that dies in the middle of a batch leaves every record in the sink once",
            tags=("smoke", "kafka"),
            verdict=Verdict.INVALID,
            judged={"duplicates": Verdict.INVALID, "gaps": Verdict.VALID},
            expect={"duplicates": Verdict.VALID, "gaps": Verdict.VALID},
            findings=(self.duplicates(), self.finding("gaps", counts={"lost": 0, "pending": 0})),
            problems=(),
            phases=self.phases(),
            faults=(self.fault(),),
            recovery_s=3.1,
            records=30_000,
            seed=7,
            run_dir=self.folder,
            output="sink",
            replay='pytest "scenarios.yaml::test_scenario[leader-killed-mid-batch]" --chaos-seed 7',
        )
        return report.model_copy(update=changes)

    def valid(self, **changes: Any) -> Report:
        """The fabricated run without anything wrong."""
        findings = (self.finding("duplicates"), self.finding("gaps"))
        return self.report(**{"verdict": Verdict.VALID, "findings": findings, **changes})

    def control(self, **changes: Any) -> Report:
        """A negative control that was caught."""
        return self.report(**{"verdict": Verdict.VALID, "expect": {"duplicates": Verdict.INVALID}, **changes})

    def event(self, index: int, second: float, who: str, type_: str, f: str, **value: Any) -> Event:
        """One line of its history."""
        return Event(index, self.at(second), second, events.read(who, type_, f, value))

    def events(self) -> tuple[Event, ...]:
        """Its history."""
        told = [*self._nemesis(), *self._runner(), *self._sampler()]
        told.sort(key=lambda row: (row[0], row[2] != "ok"))
        return tuple(self.event(index, *row[:4], **row[4]) for index, row in enumerate(told))

    def _nemesis(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = [
            (3.1, "invoke", "trigger", {"when": "progress 20%"}),
            (4.8, "ok", "trigger", {}),
            (4.9, "invoke", "inject", {"kind": "kill_broker", "draw": 1729}),
            (5.0, "ok", "inject", {"target": TARGET, "hold_s": 5.0}),
            (5.1, "invoke", "prove", {}),
            (5.6, "ok", "prove", {"effective": True, "proof": PROOF}),
            (11.2, "invoke", "heal", {}),
            (12.0, "ok", "heal", {"target": TARGET}),
        ]
        return [(second, "nemesis", type_, f, {"fault": FAULT} | value) for second, type_, f, value in rows]

    def _runner(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for phase in self.phases():
            begin_s = (phase.start_ms - BEGAN_MS) / 1000
            rows.append((begin_s, "runner", "invoke", "phase", {"phase": phase.name}))
            rows.append((begin_s + phase.duration_s, "runner", "ok", "phase", {"phase": phase.name}))
        return rows

    def _sampler(self) -> list[tuple[Any, ...]]:
        return [(1 + place / 20, "sampler", "info", "progress", _sample(1 + place / 20)) for place in range(310)]


@pytest.fixture
def run(tmp_path: Path) -> Fabricated:
    """The fabricated run, its directory empty."""
    return Fabricated(tmp_path)


def _sample(second: float) -> dict[str, int]:
    """3 000 records a second; no commit while the leader is gone."""
    flowed_s = second if second < 5 else max(5.0, 5 + (second - 8.5) * 2.2)
    written = min(30_000, round((second - 1) * 3000))
    committed = min(written, round((flowed_s - 1.6) * 3) * 1000)
    return {"written": written, "committed": committed, "total": 30_000, "end": committed}
