"""Time: the only module that sleeps or reads a clock; and polling, in the caller's thread or in a separate one."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar

from tenacity import (
    RetryCallState,
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

from chaos.common.errors import DeadlineError

T = TypeVar("T")
_PERIODS_AT_MOST = 10


def monotonic_s() -> float:
    """Seconds on a clock that never jumps; only differences mean something."""
    return time.monotonic()


def now_ms() -> int:
    """Milliseconds since the epoch, to compare with Kafka's timestamps."""
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    """Nanoseconds since the epoch, to compare with the time of an interception on the wire."""
    return time.time_ns()


def now_utc() -> datetime:
    """The wall clock, for names and reports."""
    return datetime.now(UTC)


def pause(seconds: float, stop: Event | None = None) -> bool:
    """Let time pass because the scenario declares it (`for: 10s`), never to wait for a condition.

    Returns:
        Whether `stop` was set meanwhile, which ends the pause at once.
    """
    if stop is None:
        time.sleep(seconds)
        return False
    return stop.wait(seconds)


def wait_until(
    condition: Callable[[], T],
    *,
    within_s: float,
    reason: str,
    every_s: float = 0.05,
    ignore: tuple[type[Exception], ...] = (),
    seen: Callable[[], object] | None = None,
    left: Callable[[], int | None] | None = None,
    at_most_s: float | None = None,
) -> T:
    """Poll until the condition returns something truthy, and return that.

    Args:
        condition: called at once, then every `every_s` seconds.
        within_s: the deadline; the condition is called at least once.
        reason: completes the sentence "waited … for …".
        every_s: seconds between two calls.
        ignore: exceptions that mean "not yet".
        seen: called once at the deadline; its result is put into the error.
        left: amount of work left, None while unknown. Each new minimum or maximum of this wait restarts the deadline; after
            `at_most_s` the wait ends all the same.
        at_most_s: the default is ten times `within_s`.

    Raises:
        DeadlineError: the deadline passed.
    """
    still = _StandsStill(left, within_s, at_most_s or _PERIODS_AT_MOST * within_s) if left else None
    retrying = Retrying(
        stop=still or stop_after_delay(within_s),
        wait=wait_fixed(every_s),
        retry=retry_if_result(lambda answer: not answer) | retry_if_exception_type(ignore),
        sleep=time.sleep,
    )
    try:
        return retrying(condition)
    except RetryError as error:
        cause = error.last_attempt.exception()
        last = f"; last seen: {seen()}" if seen else f"; last error: {cause}" if cause else ""
        raise DeadlineError(f"waited {still.waited if still else f'{within_s:g} s'} for {reason}{last}") from cause


class _StandsStill:
    """Tells tenacity to stop when the work left has not changed for too long, or the whole wait has taken too long."""

    def __init__(self, left: Callable[[], int | None], within_s: float, at_most_s: float) -> None:
        self._left, self._within_s, self._at_most_s = left, within_s, at_most_s
        self._bounds: tuple[int, int] | None = None
        self._since_s = 0.0
        self.waited = f"{within_s:g} s without progress"

    def __call__(self, state: RetryCallState) -> bool:
        passed_s, left = state.seconds_since_start or 0.0, self._left()
        if left is not None:
            least, most = self._bounds or (left, left)
            if not least <= left <= most:
                self._since_s = passed_s
            self._bounds = min(least, left), max(most, left)
        if passed_s >= self._at_most_s:
            self.waited = f"{self._at_most_s:g} s"
        return passed_s - self._since_s >= self._within_s or passed_s >= self._at_most_s


class Poller:
    """Base of pollers: ``with Poller(…):`` calls `_look` periodically; a subclass may set `_stop` to end that early."""

    def __init__(self, name: str, *, every_s: float, ends_within_s: float) -> None:
        """Prepare the thread; polling begins when the block is entered.

        Args:
            name: the name of the thread.
            every_s: seconds between two calls.
            ends_within_s: seconds that the end of the block waits for the last call.
        """
        self._every_s = every_s
        self._ends_within_s = ends_within_s
        self._stop = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(self._ends_within_s)

    def _run(self) -> None:
        while not pause(self._every_s, self._stop):
            self._look()

    def _look(self) -> None:
        raise NotImplementedError
