"""What happened in a run: one JSON object per line, appended by every thread, never changed.

The history is the only record of a run: reports are made from it, verdicts rest on it. `chaos.common.events` lists what can be
recorded. A line has the shape of Jepsen's: ``{"index", "time_ms", "elapsed_s", "process", "type", "f", "value"}``.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.common import clock, events
from chaos.common.errors import InconclusiveError, one_line
from chaos.common.events import EventValue, ProcessSaid

V = TypeVar("V", bound=EventValue)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history.

    Attributes:
        index: its place, from 0.
        time_ms: wall clock, milliseconds since the epoch, to be laid beside Kafka's timestamps.
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
            listener: told of every event after it was written, in the thread that recorded it.
        """
        self.path = path
        self._listener = listener
        self._file = path.open("x", encoding="utf-8", buffering=1)
        self._lock = Lock()
        self._began_s = clock.monotonic_s()
        self._events: list[Event] = []
        self._latest: dict[type[EventValue], Event] = {}
        self._said: dict[tuple[str, str], ProcessSaid] = {}

    def record(self, value: EventValue) -> Event:
        """Append one event and return it."""
        with self._lock:
            elapsed_s = round(clock.monotonic_s() - self._began_s, 4)
            event = Event(len(self._events), clock.now_ms(), elapsed_s, value)
            self._events.append(event)
            self._latest[type(value)] = event
            if isinstance(value, ProcessSaid):
                self._said[value.who, value.event] = value
            self._file.write(event.to_json() + "\n")
        self._listener(event)
        return event

    def latest(self, kind: type[V]) -> V | None:
        """What the last event of a type said; None when there was none yet."""
        with self._lock:
            event = self._latest.get(kind)
        return event.value if event is not None and isinstance(event.value, kind) else None

    def age_s(self, kind: type[EventValue]) -> float:
        """Seconds since the last event of a type, never below 0 though ``elapsed_s`` may be rounded up; inf without one."""
        with self._lock:
            event = self._latest.get(kind)
        return float("inf") if event is None else max(0.0, clock.monotonic_s() - self._began_s - event.elapsed_s)

    def last_said(self, who: str, event: str) -> ProcessSaid | None:
        """The last time that a managed process said this; None when it has not yet."""
        with self._lock:
            return self._said.get((who, event))

    def last_of_loaders(self, event: str) -> tuple[ProcessSaid, ...]:
        """The last time that each of the loaders said this."""
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
    """The events of one type, each with what it says."""
    return [(event, event.value) for event in events_ if isinstance(event.value, kind)]


@dataclass(frozen=True, slots=True)
class _Line:
    """The keys of a line; a TypeError tells of one that is missing, or that is not known."""

    index: int
    time_ms: int
    elapsed_s: float
    process: str
    type: str
    f: str
    value: Any


def _read(line: _Line) -> Event:
    return Event(line.index, line.time_ms, line.elapsed_s, events.read(line.process, line.type, line.f, line.value))


def load(path: Path) -> Iterator[Event]:
    """Read a history back; a last line cut short by a crash is left out.

    Raises:
        InconclusiveError: another line cannot be read: what it said is not known, and it may have been a failure.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield _read(_Line(**json.loads(line)))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                return
            raise InconclusiveError(f"{path}:{number} is damaged ({one_line(str(error))}): run the scenario again") from error
