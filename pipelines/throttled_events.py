"""What workers say, at a bounded rate: what is not said at once is added to what is said next."""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from pipelines.messages import say
from pipelines.pace import monotonic_s

_EVERY_S = 0.25


@dataclass(slots=True)
class _Pending:
    """What was told since the last line of one kind."""

    said_s: float = float("-inf")
    times: int = 0
    records: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        return monotonic_s() - self.said_s >= _EVERY_S


class Voice:
    """One voice for all threads of a process; a line of one kind from one worker comes at most four times a second."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._lock = Lock()
        self._pending: dict[tuple[str, int], _Pending] = {}

    def tell(self, event: str, **value: Any) -> None:
        """Say it now: what happens seldom."""
        with self._lock:
            say(event, **value)

    def count(self, event: str, worker: int, records: int, **last: Any) -> None:
        """Say it, now or later: ``times`` and ``records`` add up, mappings grow, of everything else the last is said."""
        with self._lock:
            pending = self._pending.setdefault((event, worker), _Pending())
            pending.times += 1
            pending.records += records
            pending.last = {name: _merged(pending.last.get(name), value) for name, value in last.items()}
            if pending.due:
                _say(event, worker, pending)

    def catch_up(self, *, at_once: bool = False) -> None:
        """Say what was held back for long enough, or all of it."""
        with self._lock:
            for (event, worker), pending in self._pending.items():
                if pending.times and (at_once or pending.due):
                    _say(event, worker, pending)


def _say(event: str, worker: int, pending: _Pending) -> None:
    say(event, worker=worker, times=pending.times, records=pending.records, **pending.last)
    pending.said_s, pending.times, pending.records, pending.last = monotonic_s(), 0, 0, {}


def _merged(before: Any, now: Any) -> Any:
    return {**before, **now} if isinstance(before, dict) else now
