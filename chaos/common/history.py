"""What happened in a run: one JSON object per line, appended by every thread, never changed.

Jepsen's shape: ``process`` did ``f``; ``type`` says whether it was begun (invoke), came true (ok), did not (fail), or is
just known (info). The history is the only record of a run: reports are made from it, verdicts rest on it.

    process    f                                value
    runner     phase                            {"phase": "inject"}; invoke when it begins, ok when it ends, fail with "error"
    runner     run                              {"error": …}; fail, when something ended the run early
    nemesis    trigger, inject, prove, heal     {"fault": "kill_broker-1", …}; inject/ok has "target", prove has "proof"
    sampler    progress                         {"written": …, "committed": …, "position": …}
    pipeline   batch, exit, …                   what the pipeline itself said
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Self

from chaos.common import clock
from chaos.common.errors import InconclusiveError

EventType = Literal["invoke", "ok", "fail", "info"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history.

    Attributes:
        index: its place, from 0.
        time_ms: wall clock, milliseconds since the epoch, to be laid beside Kafka's timestamps.
        elapsed_s: seconds since the run began, on the monotonic clock.
        process: who: runner, nemesis, sampler, pipeline, loader.
        type: invoke, ok, fail or info.
        f: what.
        value: JSON values only.
    """

    index: int
    time_ms: int
    elapsed_s: float
    process: str
    type: EventType
    f: str
    value: Mapping[str, Any]


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
        self._latest: dict[tuple[str, str], Event] = {}

    def record(self, process: str, type_: EventType, f: str, /, **value: Any) -> Event:
        """Append one event and return it."""
        with self._lock:
            elapsed_s = round(clock.monotonic_s() - self._began_s, 4)
            event = Event(len(self._events), clock.now_ms(), elapsed_s, process, type_, f, value)
            self._events.append(event)
            self._latest[process, f] = event
            self._file.write(json.dumps(asdict(event), default=str) + "\n")
        self._listener(event)
        return event

    def age_s(self, event: Event) -> float:
        """Seconds since an event of this history; never below 0, though ``elapsed_s`` may be rounded up."""
        return max(0.0, clock.monotonic_s() - self._began_s - event.elapsed_s)

    def latest(self, process: str, f: str) -> Event | None:
        """The last event of its kind, None when there was none yet."""
        with self._lock:
            return self._latest.get((process, f))

    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        with self._lock:
            return tuple(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def load(path: Path) -> Iterator[Event]:
    """Read a history back; a last line cut short by a crash is left out.

    Raises:
        InconclusiveError: another line is none of ours: what it said is not known, and it may have been a failure.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield Event(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                return
            raise InconclusiveError(f"{path}:{number} is damaged ({error}): run the scenario again") from error
