"""The history of a run: one JSON object per line, appended by every thread, never changed.

The history is the only record of a run: reports are made from it, verdicts rest on it. `chaos.common.events` lists the events.
A line has the shape of Jepsen's: ``{"index", "time_ms", "elapsed_s", "process", "type", "f", "value"}``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.common import clock, events
from chaos.common.errors import InconclusiveError, one_line
from chaos.common.events import EventValue, PhaseBegan, ProcessReport, RunBegan, RunEnded

V = TypeVar("V", bound=EventValue)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history.

    Attributes:
        index: its place, from 0.
        time_ms: wall clock, milliseconds since the epoch, comparable with Kafka's timestamps.
        elapsed_s: seconds since the run began, on the monotonic clock.
    """

    index: int
    time_ms: int
    elapsed_s: float
    value: EventValue

    def to_json(self) -> str:
        said, own = self.value, {"index": self.index, "time_ms": self.time_ms, "elapsed_s": self.elapsed_s}
        return json.dumps(own | {"process": said.process, "type": said.type, "f": said.f, "value": said.to_json()}, default=str)


class History:
    """Append-only and safe to share between threads; every line is on disk before the call returns."""

    def __init__(self, path: Path, listener: Callable[[Event], None] = lambda _event: None) -> None:
        """Begin an empty history.

        Args:
            path: a file that does not exist yet.
            listener: called with every event after it was written, in the thread that recorded it.
        """
        self.path = path
        self._listener = listener
        self._file = path.open("x", encoding="utf-8", buffering=1)
        self._lock = Lock()
        self._began_s = clock.monotonic_s()
        self._events: list[Event] = []
        self._latest: dict[type[EventValue], Event] = {}
        self._said: dict[tuple[str, str], ProcessReport] = {}

    def record(self, value: EventValue) -> Event:
        """Append one event and return it."""
        with self._lock:
            event = self._append(value)
        self._listener(event)
        return event

    def end(self) -> Event:
        """Append `RunEnded` with the number of events before it."""
        with self._lock:
            event = self._append(RunEnded(events=len(self._events)))
        self._listener(event)
        return event

    def _append(self, value: EventValue) -> Event:
        elapsed_s = round(clock.monotonic_s() - self._began_s, 4)
        event = Event(len(self._events), clock.now_ms(), elapsed_s, value)
        self._events.append(event)
        self._latest[type(value)] = event
        if isinstance(value, ProcessReport):
            self._said[value.who, value.event] = value
        self._file.write(event.to_json() + "\n")
        return event

    def latest(self, kind: type[V]) -> V | None:
        """Value of the last event of a type; None when there was none yet."""
        with self._lock:
            event = self._latest.get(kind)
        return event.value if event is not None and isinstance(event.value, kind) else None

    def age_s(self, kind: type[EventValue]) -> float:
        """Seconds since the last event of a type, never below 0 though ``elapsed_s`` may be rounded up; inf without one."""
        with self._lock:
            event = self._latest.get(kind)
        return float("inf") if event is None else max(0.0, clock.monotonic_s() - self._began_s - event.elapsed_s)

    def last_report(self, who: str, event: str) -> ProcessReport | None:
        """The last report of this event by a managed process; None when there was none yet."""
        with self._lock:
            return self._said.get((who, event))

    def last_of_loaders(self, event: str) -> tuple[ProcessReport, ...]:
        """The last report of this event by each loader."""
        with self._lock:
            said = tuple(self._said.values())
        return tuple(one for one in said if one.event == event and one.is_of_loader)

    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        with self._lock:
            return tuple(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def of_type(events_: Iterable[Event], kind: type[V]) -> list[tuple[Event, V]]:
    """Select the events of one type, each with its value."""
    return [(event, event.value) for event in events_ if isinstance(event.value, kind)]


@dataclass(frozen=True, slots=True)
class _Line:
    """The keys of a line; a missing or unknown one raises TypeError."""

    index: int
    time_ms: int
    elapsed_s: float
    process: str
    type: str
    f: str
    value: Any


def _read(line: _Line) -> Event:
    if not isinstance(line.index, int):
        raise TypeError(f"its index is {line.index!r}, not a number")
    return Event(line.index, line.time_ms, line.elapsed_s, events.read(line.process, line.type, line.f, line.value))


def load(path: Path) -> Iterator[Event]:
    """Read a history back; a last line cut short by a crash is left out.

    `require_complete` checks that the run had come to its end.

    Raises:
        InconclusiveError: another line cannot be read, or lines are missing: each may have recorded a failure.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    read: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            read.append(_read(_Line(**json.loads(line))))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise InconclusiveError(f"{path}:{number} is damaged ({one_line(str(error))}): run the scenario again") from error
    if problem := _out_of_line([event.index for event in read]):
        raise InconclusiveError(f"{path} {problem}: {_MEND}")
    yield from read


def format_of(path: Path) -> int | None:
    """Format of the run directory, by the first line of its history; None if that is damaged, or its index is not 0.

    Format 1 began with a phase, format 2 with the run.
    """
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    try:
        event = _read(_Line(**json.loads(first)))
    except (ValueError, TypeError):
        return None
    if event.index:
        return None
    return event.value.format if isinstance(event.value, RunBegan) else 1


def require_complete(events_: Sequence[Event], path: Path, *, was_judged: bool = False) -> None:
    """Refuse a history whose end is missing: the missing lines may have recorded a failure.

    A run records its beginning and, last, its end. A run that was killed while it was judged has recorded everything that a
    verdict rests on.

    Args:
        events_: the events from `load`.
        path: their file, for the message.
        was_judged: whether the phase judge is known to have ended.

    Raises:
        InconclusiveError: the end is missing.
    """
    last = events_[-1].value if events_ else None
    if isinstance(last, PhaseBegan) and last.phase == "judge" and not was_judged:
        return
    if not any(isinstance(value := event.value, RunEnded) and value.events == event.index for event in events_):
        ends = f"ends with line {len(events_)}, and the run went on after that" if events_ else "has no line"
        raise InconclusiveError(f"{path} {ends}: {_MEND}")


_MEND = "the missing lines may have recorded a failure; copy the whole run directory, or run the scenario again"
_NAMED_AT_MOST = 3


def _out_of_line(indexes: Sequence[int]) -> str:
    """Describe lines that are missing or out of place; "" if every line is there once, in order."""
    absent = sorted(set(range(max(indexes, default=-1) + 1)) - set(indexes))
    if absent:
        runs = [
            [*run] for _, run in groupby(absent, key=partial(_before, {index: place for place, index in enumerate(absent)}))
        ]
        named = [f"{run[0] + 1} to {run[-1] + 1}" if len(run) > 1 else f"{run[0] + 1}" for run in runs]
        more = f" and {len(named) - _NAMED_AT_MOST} more pieces" if len(named) > _NAMED_AT_MOST else ""
        return f"lacks {'line' if len(absent) == 1 else 'lines'} {', '.join(named[:_NAMED_AT_MOST])}{more}"
    misplaced = next((place for place, index in enumerate(indexes) if index != place), None)
    return (
        ""
        if misplaced is None
        else f"has line {indexes[misplaced] + 1} again, or in another place, as its line {misplaced + 1}"
    )


def _before(places: Mapping[int, int], index: int) -> int:
    """Return a number that is equal for all indexes of one run without a gap."""
    return index - places[index]
