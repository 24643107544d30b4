"""Reports of a pipeline's process, one JSON object per line on standard output.

Events, ``{"event": …}``, report its actions. Statements report the answers of its Kafka client: each of them counts, so none is
held back or added to another (docs/adapters.md).

This is the only module of the pipelines that reads a clock.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

_EVERY_S = 0.25


def monotonic_s() -> float:
    """Seconds on a clock that never jumps; only differences mean something."""
    return time.monotonic()  # noqa: TID251 - pipelines know nothing of chaos


def say(event: str, **value: Any) -> None:
    """Write one event, and flush it."""
    state(event=event, **value)


def state(**line: Any) -> None:
    """Write one line, its keys in this order, and flush it: the process may be killed at any moment."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


@dataclass(slots=True)
class _Pending:
    """The counts since the last line of one kind."""

    reported_s: float = float("-inf")
    times: int = 0
    records: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        return monotonic_s() - self.reported_s >= _EVERY_S

    def say(self, event: str, worker: int) -> None:
        say(event, worker=worker, times=self.times, records=self.records, **self.last)
        self.reported_s, self.times, self.records, self.last = monotonic_s(), 0, 0, {}


class ThrottledEvents:
    """Events of all threads of a process; at most four lines a second of one kind from one worker, further ones add up."""

    def __init__(self) -> None:
        """Begin without any events."""
        self._lock = Lock()
        self._pending: dict[tuple[str, int], _Pending] = {}

    def say(self, event: str, **value: Any) -> None:
        """Write a rare event at once."""
        with self._lock:
            say(event, **value)

    def state(self, **line: Any) -> None:
        """Write a statement at once; the first key is its kind."""
        with self._lock:
            state(**line)

    def count(self, event: str, worker: int, records: int, **last: Any) -> None:
        """Write an event now or later: ``times`` and ``records`` add up, mappings are merged, anything else is overwritten."""
        with self._lock:
            pending = self._pending.setdefault((event, worker), _Pending())
            pending.times += 1
            pending.records += records
            pending.last = {name: _merged(pending.last.get(name), value) for name, value in last.items()}
            if pending.due:
                pending.say(event, worker)

    def catch_up(self, *, at_once: bool = False) -> None:
        """Write the events that were held back for long enough, or all."""
        with self._lock:
            for (event, worker), pending in self._pending.items():
                if pending.times and (at_once or pending.due):
                    pending.say(event, worker)


def _merged(before: Any, now: Any) -> Any:
    return {**before, **now} if isinstance(before, dict) else now
