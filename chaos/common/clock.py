"""Time: the only module that sleeps or asks what time it is; and polling, in this thread or in one of its own."""

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
    """Milliseconds since the epoch, for what must be compared with Kafka's timestamps."""
    return time.time_ns() // 1_000_000


def now_ns() -> int:
    """Nanoseconds since the epoch, for what must be compared with the time of an interception on the wire."""
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


def wait_until(  # noqa: PLR0913 - how long, and what is told of it
    condition: Callable[[], T],
    *,
    within_s: float,
    reason: str,
    every_s: float = 0.05,
    ignore: tuple[type[Exception], ...] = (),
    seen: Callable[[], object] | None = None,
    left: Callable[[], int] | None = None,
) -> T:
    """Poll until the condition returns something truthy, and return that.

    Args:
        condition: called at once, then every `every_s` seconds.
        within_s: the deadline; the condition is called at least once.
        reason: completes the sentence "waited … for …".
        every_s: seconds between two calls.
        ignore: exceptions that mean "not yet".
        seen: called once at the deadline; its result is put into the error.
        left: how much there is to do. As long as it becomes less than ever, or more than ever, work goes on, and the deadline
            counts from then; it comes after ten times `within_s` all the same.

    Raises:
        DeadlineError: the deadline passed.
    """
    retrying = Retrying(
        stop=_StandsStill(left, within_s) if left else stop_after_delay(within_s),
        wait=wait_fixed(every_s),
        retry=retry_if_result(lambda answer: not answer) | retry_if_exception_type(ignore),
        sleep=time.sleep,
    )
    try:
        return retrying(condition)
    except RetryError as error:
        cause = error.last_attempt.exception()
        last = f"; last seen: {seen()}" if seen else f"; last error: {cause}" if cause else ""
        how = " without progress" if left else ""
        raise DeadlineError(f"waited {within_s:g} s{how} for {reason}{last}") from cause


class _StandsStill:
    """Tells tenacity to stop when what is left has stayed within the same bounds for too long, or all takes much too long."""

    def __init__(self, left: Callable[[], int], within_s: float) -> None:
        self._left, self._within_s = left, within_s
        self._least = self._most = left()
        self._since_s = 0.0

    def __call__(self, state: RetryCallState) -> bool:
        passed_s, left = state.seconds_since_start or 0.0, self._left()
        if not self._least <= left <= self._most:
            self._least, self._most, self._since_s = min(self._least, left), max(self._most, left), passed_s
        return passed_s - self._since_s >= self._within_s or passed_s >= _PERIODS_AT_MOST * self._within_s


class Poller:
    """``with Poller(…):`` calls `_look` of its subclass again and again; the subclass may set `_stop` to end that early."""

    def __init__(self, name: str, *, every_s: float, ends_within_s: float) -> None:
        """Polling begins when the block is entered.

        Args:
            name: of the thread.
            every_s: seconds between two calls.
            ends_within_s: how long the end of the block waits for the last call.
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
