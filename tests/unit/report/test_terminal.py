from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from chaos.common.events import PhaseBegan, ProgressSampled
from chaos.common.history import Event, History, load
from chaos.report.terminal import Live, Progress, told
from tests.unit.report.conftest import Fabricated


def shown(run: Fabricated, *, terminal: bool, words: Callable[[Event], str] | None = None) -> str:
    """The terminal output of the fabricated run."""
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, _environ={})
    with Live("leader-killed-mid-batch", console, words) as live:
        for event in run.events():
            live(event)
    return out.getvalue().replace("\u00a0", " ")


def test_a_ci_log_has_one_plain_line_per_phase_and_fault_event(run: Fabricated) -> None:
    """Samples and ends of phases are no news; what a fault does is. It begins on a line of its own, below pytest's dots."""
    assert [line.split(" s  ", 1)[-1] for line in shown(run, terminal=False).splitlines()] == [
        "",
        "leader-killed-mid-batch",
        "set_up",
        "steady",
        "inject",
        "kill_broker-1: waits for progress 20%",
        "kill_broker-1: in force on broker-2 (leader of datasink-0)",
        "kill_broker-1: proved by pids broker-2 4711, refused broker-2",
        "heal",
        "kill_broker-1: healed",
        "drain",
        "observe",
        "judge",
    ]


def test_a_ci_log_holds_no_control_sequences(run: Fabricated) -> None:
    """It is read as text."""
    assert "\x1b" not in shown(run, terminal=False)


def test_on_a_terminal_faults_stay_and_phases_pass(run: Fabricated) -> None:
    """The live line shows the phase, so it needs no line of its own."""
    text = shown(run, terminal=True)

    assert "kill_broker-1: in force on broker-2" in text
    assert "0.4 s  steady" not in text
    assert "\x1b" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_somebody_elses_words_replace_all_others(run: Fabricated, *, terminal: bool) -> None:
    """Also those of a phase on a terminal, and of an event that is worth no line otherwise."""

    def words(event: Event) -> str:
        return f"said of {event.value.f}" if event.value.f in {"phase", "progress"} else ""

    text = shown(run, terminal=terminal, words=words)

    assert "0.4 s  said of phase" in text
    assert "said of progress" in text
    assert "kill_broker-1: in force" not in text


def test_the_live_line_shows_phase_progress_and_faults(run: Fabricated) -> None:
    """At 7 s the broker is dead and a third is committed."""
    live = Live("leader-killed-mid-batch")
    for event in run.events():
        if event.elapsed_s < 7:
            live(event)
    console = Console(file=StringIO(), width=160)
    with console.capture() as capture:
        console.print(live._line())

    line = capture.get().replace("\u00a0", " ")
    assert "inject" in line
    assert "10 000 of 30 000 committed" in line
    assert "kill_broker-1 on broker-2 (leader of datasink-0)" in line


def test_a_healed_fault_is_no_longer_in_force(run: Fabricated) -> None:
    """And a failed heal leaves it there."""
    inject = run.event(0, 1, "nemesis", "ok", "inject", fault="cut-1", target="spark->broker-1")
    failed = run.event(1, 2, "nemesis", "fail", "heal", fault="cut-1", error="InjectionError: no answer")
    healed = run.event(2, 3, "nemesis", "ok", "heal", fault="cut-1")

    assert Progress().after(inject).after(failed).in_force == {"cut-1": "spark->broker-1"}
    assert Progress().after(inject).after(healed).in_force == {}


def test_failures_are_told_with_their_error(run: Fabricated) -> None:
    """In one line, however long the error."""
    phase = run.event(0, 1, "runner", "fail", "phase", phase="drain", error="DeadlineError: waited\n60 s")
    fault = run.event(0, 1, "nemesis", "fail", "inject", fault="cut-1", error="InjectionError: no")
    missed = run.event(0, 1, "nemesis", "ok", "prove", fault="cut-1", effective=False, proof={"bytes": 0})

    unanswered = run.event(0, 1, "nemesis", "ok", "heal", fault="late-1", effective=False, problem="nobody answered")

    assert told(phase) == "drain failed: DeadlineError: waited 60 s"
    assert told(unanswered) == "late-1: healed, but had no effect: problem nobody answered"
    assert told(fault) == "cut-1: inject failed: InjectionError: no"
    assert told(missed) == "cut-1: had no effect: bytes 0"


def test_a_hundred_faults_do_not_hide_what_happens(run: Fabricated) -> None:
    """All of a soak wait from the beginning; and when it ends early, all of them fail."""
    out = StringIO()
    with Live("soak", Console(file=out, width=120, _environ={})) as live:
        for kind, told_of in (("invoke", {"when": "30 s"}), ("fail", {"error": "the run ended"})):
            for number in range(100):
                live(run.event(0, 1, "nemesis", kind, "trigger", fault=f"round-{number}", **told_of))
        live(run.event(0, 1, "nemesis", "ok", "inject", fault="round-99", target="broker-1"))

    lines = out.getvalue().splitlines()
    assert sum("waits for" in line for line in lines) == sum("trigger failed" in line for line in lines) == 10
    assert sum("… and more" in line for line in lines) == 2
    assert lines[-1].endswith("round-99: in force on broker-1")


def test_it_listens_to_a_history_and_writes_nothing_to_it(tmp_path: Path) -> None:
    """The history calls it; showing a run must not change its record."""
    out = StringIO()
    with Live("name", Console(file=out, width=120)) as live, History(tmp_path / "history.jsonl", live) as history:
        history.record(PhaseBegan(phase="steady"))
        history.record(ProgressSampled(written=5, committed=3, total=9, end=3))

    assert "steady" in out.getvalue()
    assert len(list(load(tmp_path / "history.jsonl"))) == 2
