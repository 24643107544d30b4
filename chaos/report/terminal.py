"""Show scenarios while they run: one live line on a terminal, plain lines in a CI log.

`Live` is the listener of a `History`: it gets every event in the thread that recorded it, keeps the little it shows, and never
writes to the history.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from types import TracebackType
from typing import Self

from rich import live as rich_live
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from chaos.common import clock
from chaos.common.errors import one_line
from chaos.common.events import (
    FaultEvent,
    FaultFailed,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultStepBegan,
    PhaseBegan,
    PhaseFailed,
    ProgressSampled,
)
from chaos.common.history import Event
from chaos.report.formatting import facts, number, seconds

_REFRESHES_PER_S = 8
_MOST_TRIGGERS = 10


def say(text: str) -> None:
    """Print one line for people, above the live line if there is one."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run, as far as it is shown.

    Attributes:
        phase: the current one.
        written: records of the source; committed: of the output; total: of the workload.
        in_force: fault -> its target.
    """

    phase: str = ""
    written: int = 0
    committed: int = 0
    total: int = 0
    in_force: Mapping[str, str] = field(default_factory=dict)

    def after(self, event: Event) -> "Progress":
        """Return the progress after an event; other events change nothing."""
        match event.value:
            case PhaseBegan(phase=phase):
                return replace(self, phase=phase)
            case ProgressSampled(written=written, committed=committed, total=total):
                return replace(self, written=written, committed=committed, total=total)
            case FaultInjected(fault=fault, target=target):
                return replace(self, in_force={**self.in_force, fault: target})
            case FaultHealed(fault=fault):
                left = {name: target for name, target in self.in_force.items() if name != fault}
                return replace(self, in_force=left)
            case _:
                return self


class Live:
    """Shows one run as it happens: ``with Live(name) as live: … History(path, live)``."""

    def __init__(self, scenario: str, console: Console | None = None, words: Callable[[Event], str] | None = None) -> None:
        """Keep the arguments; nothing is shown before the block is entered.

        Args:
            scenario: its name.
            console: where to write; by default standard output, as it is when the block is entered.
            words: words an event, instead of `told`; "" for nothing.
        """
        self._scenario = scenario
        self._console = console
        self._words = words
        self._lock = Lock()
        self._progress = Progress()
        self._began_s = 0.0
        self._live: rich_live.Live | None = None
        self._triggers: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._began_s = clock.monotonic_s()
        self._console = self._console or Console()
        if self._console.is_terminal:
            self._live = rich_live.Live(
                console=self._console, get_renderable=self._line, refresh_per_second=_REFRESHES_PER_S, transient=True
            )
            self._live.start()
        self._print(f"\n{self._scenario}")  # pytest has left its dots on the line
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take note of one event; any thread may call."""
        with self._lock:
            self._progress = self._progress.after(event)
            text = self._news(event)
        is_in_live_line = self._live is not None and self._words is None and isinstance(event.value, PhaseBegan)
        if text and not is_in_live_line:
            self._print(f"{event.elapsed_s:7.1f} s  {text}")

    def _news(self, event: Event) -> str:
        """Word an event; of a soak's hundred faults, only the first few triggers are shown."""
        if self._words is not None:
            return self._words(event)
        if isinstance(event.value, FaultStepBegan | FaultFailed) and event.value.step == "trigger":
            self._triggers[event.value.type] += 1
            if self._triggers[event.value.type] > _MOST_TRIGGERS:
                return (
                    "… and more: history.jsonl has all of them"
                    if self._triggers[event.value.type] == _MOST_TRIGGERS + 1
                    else ""
                )
        return told(event)

    def _print(self, text: str) -> None:
        if self._console is not None:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _line(self) -> RenderableType:
        with self._lock:
            progress = self._progress
        faults = ", ".join(f"{name} on {target}" for name, target in progress.in_force.items())
        grid = Table.grid(padding=(0, 2))
        grid.add_row(
            Spinner("dots"),
            Text(progress.phase or "waiting", style="bold"),
            seconds(clock.monotonic_s() - self._began_s),
            ProgressBar(total=max(progress.total, 1), completed=progress.committed, width=24),
            Text(f"{number(progress.committed)} of {number(progress.total)} committed", no_wrap=True),
            Text(faults, style="yellow", no_wrap=True, overflow="ellipsis"),
        )
        return grid


def told(event: Event) -> str:
    """Word one event; "" if it is not worth a line."""
    match event.value:
        case PhaseBegan(phase=phase):
            return phase
        case PhaseFailed(phase=phase, error=error):
            return f"{phase} failed: {one_line(error)}"
        case FaultEvent() as value:
            return _of_fault(value)
        case _:
            return ""


def _of_fault(event: FaultEvent) -> str:
    match event:
        case FaultStepBegan(step="trigger", when=when):
            return f"{event.fault}: waits for {one_line(when or 'its moment')}"
        case FaultFailed(step=step, error=error):
            return f"{event.fault}: {step} failed: {one_line(error)}"
        case FaultInjected(target=target):
            return f"{event.fault}: in force on {target}"
        case FaultProved(effective=effective, proof=proof):
            return f"{event.fault}: {'proved by' if effective else 'had no effect:'} {facts(proof)}"
        case FaultHealed(effective=effective):
            return f"{event.fault}: healed" + ("" if effective else f", but had no effect: {facts(event.details)}")
        case _:
            return ""
