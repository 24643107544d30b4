"""A fault that takes its course: several steps in a thread of its own, from its injection until it is through, or healed."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event

from confluent_kafka import KafkaException

from chaos.common import clock
from chaos.common.errors import DeadlineError

_END_S = 60.0
_NOT_YET = (KafkaException, LookupError, OSError)


class Course:
    """One course; `begin` it once."""

    def __init__(self, steps: Callable[[Event], None]) -> None:
        """Prepare.

        Args:
            steps: what is done; it returns soon after the flag that it is given was set.
        """
        self._steps = steps
        self._stop = Event()
        self._running: Future[None] | None = None

    def begin(self) -> None:
        """Take the first step, in the background."""
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="course")
        self._running = pool.submit(self._steps, self._stop)
        pool.shutdown(wait=False)

    def through(self) -> bool:
        """Whether it has ended.

        Raises:
            Exception: what one of its steps raised.
        """
        if self._running is None or not self._running.done():
            return False
        self._running.result()
        return True

    def missing(self, within_s: float) -> dict[str, str]:
        """Wait until it is through: empty then, or what it waits for in vain, as a fact of a proof that failed.

        Raises:
            Exception: what one of its steps raised, unless that was a wait.
        """
        if self._running is None or wait([self._running], within_s).not_done:
            return {"problem": f"not through after {within_s:g} s"}
        try:
            self._running.result()
        except DeadlineError as error:
            return {"problem": str(error)}
        return {}

    def end(self) -> None:
        """Stop it, and return when it does nothing any more. Idempotent, also before `begin`.

        Raises:
            DeadlineError: it does not stop.
        """
        self._stop.set()
        if self._running is not None and wait([self._running], _END_S).not_done:
            raise DeadlineError(f"waited {_END_S:g} s for a fault to stop what it does step by step")


def until(condition: Callable[[], object], stop: Event, within_s: float, reason: str) -> bool:
    """Wait for a condition between two steps; False: the course was told to stop. Who does not answer is asked again.

    Raises:
        DeadlineError: it did not become so in time.
    """
    clock.wait_until(lambda: stop.is_set() or condition(), within_s=within_s, reason=reason, every_s=0.1, ignore=_NOT_YET)
    return not stop.is_set()
