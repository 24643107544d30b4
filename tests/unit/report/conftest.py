"""A fabricated run of 24 seconds: a broker is killed, its log proves it, and 1 204 records are written twice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.history import Event, EventType
from chaos.report.report import FaultRecord, PhaseRecord, Report
from verifiers.base import Example, Finding, Verdict

BEGAN_MS = 1_795_000_000_000
PHASES = {"set_up": 0.4, "steady": 2.6, "inject": 8.0, "heal": 1.5, "drain": 4.0, "observe": 3.5, "judge": 2.0}


def at(seconds: float) -> int:
    """Seconds since the run began, as milliseconds since the epoch."""
    return BEGAN_MS + round(seconds * 1000)


def phases() -> tuple[PhaseRecord, ...]:
    """All of them, one after the other."""
    starts = [sum(list(PHASES.values())[:place]) for place in range(len(PHASES))]
    return tuple(PhaseRecord(name, at(start), took) for start, (name, took) in zip(starts, PHASES.items(), strict=True))


def killed(**changes: Any) -> FaultRecord:
    """A broker killed at 5 s and healed, in the phase heal, at 12 s."""
    fault = FaultRecord(
        name="kill_broker-1",
        kind="kill_broker",
        target="broker-2 (leader of datasink-0)",
        triggered_ms=at(4.8),
        injected_ms=at(5),
        proved_ms=at(5.6),
        healed_ms=at(12),
        bit=True,
        proof={"pids": {"broker-2": 4711}, "refused": ["broker-2"]},
    )
    return replace(fault, **changes)


def duplicate(number: int, seconds: float = 6.2) -> Example:
    """One record written twice."""
    return Example("duplicate", 2, 1204 + number, 17 + 3 * number, at(seconds), f"also at offset {1190 + number}")


def found(verifier: str, verdict: Verdict = Verdict.VALID, **changes: Any) -> Finding:
    """What a verifier says of the sink."""
    return replace(Finding(verifier, "sink", verdict, count=0, checked=30_000), **changes)


def duplicates(**changes: Any) -> Finding:
    """The sink holds 1 204 records too many."""
    examples = tuple(duplicate(number) for number in range(8))
    finding = found("duplicates", Verdict.INVALID, count=1204, counts={"duplicate": 1204}, examples=examples)
    return replace(finding, **changes)


@pytest.fixture
def make_report(tmp_path: Path) -> Callable[..., Report]:
    """A report with some fields replaced; INVALID unless they say otherwise."""
    base = Report(
        scenario="leader-killed-mid-batch",
        title="A leader that dies in the middle of a batch leaves every record in the sink once",
        tags=("smoke", "kafka"),
        verdict=Verdict.INVALID,
        judged={"duplicates": Verdict.INVALID, "gaps": Verdict.VALID},
        expect={"duplicates": Verdict.VALID, "gaps": Verdict.VALID},
        findings=(duplicates(), found("gaps", counts={"lost": 0, "pending": 0})),
        problems=(),
        phases=phases(),
        faults=(killed(),),
        recovery_s=3.1,
        records=30_000,
        seed=7,
        run_dir=tmp_path,
        replay='pytest "scenarios.yaml::test_scenario[leader-killed-mid-batch]" --chaos-seed 7',
    )
    return lambda **changes: replace(base, **changes)


@pytest.fixture
def events() -> tuple[Event, ...]:
    """The history of that run."""
    fault = {"fault": "kill_broker-1"}
    target = {"target": "broker-2 (leader of datasink-0)"}
    proof = {"bit": True, "proof": {"pids": {"broker-2": 4711}, "refused": ["broker-2"]}}
    told: list[tuple[float, str, EventType, str, dict[str, Any]]] = [
        (3.0, "nemesis", "invoke", "trigger", fault | {"when": "progress 20%"}),
        (4.8, "nemesis", "ok", "trigger", fault),
        (4.9, "nemesis", "invoke", "inject", fault | {"kind": "kill_broker", "draw": 1729}),
        (5.0, "nemesis", "ok", "inject", fault | target | {"hold_s": 5.0}),
        (5.1, "nemesis", "invoke", "prove", fault),
        (5.6, "nemesis", "ok", "prove", fault | proof),
        (11.2, "nemesis", "invoke", "heal", fault),
        (12.0, "nemesis", "ok", "heal", fault | target),
    ]
    for phase in phases():
        begin_s = (phase.start_ms - BEGAN_MS) / 1000
        told.append((begin_s, "runner", "invoke", "phase", {"phase": phase.name}))
        told.append((begin_s + phase.duration_s, "runner", "ok", "phase", {"phase": phase.name}))
    told += [(1 + number * 0.05, "sampler", "info", "progress", sample(1 + number * 0.05)) for number in range(310)]
    ordered = sorted(told, key=lambda row: (row[0], row[2] != "ok"))
    return tuple(Event(index, at(row[0]), row[0], *row[1:]) for index, row in enumerate(ordered))


def sample(second: float) -> dict[str, int]:
    """3 000 records a second; no commit while the leader is gone."""
    committed = second if second < 5 else 5 if second < 8.5 else 5 + (second - 8.5) * 2.2
    written = min(30_000, round((second - 1) * 3000))
    return {"written": written, "committed": min(written, round((committed - 1.6) * 3000 // 1000 * 1000)), "total": 30_000}
