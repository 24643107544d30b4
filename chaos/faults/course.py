"""A fault that takes its course: several steps in a thread of its own, from its injection until it is through, or healed."""

from collections.abc import Callable
from threading import Event, Thread

from chaos.errors import DeadlineError

_END_S = 60.0


class Stopped(Exception):  # noqa: N818 - no error: the heal came first; it never leaves a course
    """The course is to end before its end."""


class Course:
    """One course; `begin` it once."""

    def __init__(self, steps: Callable[[Event], None]) -> None:
        """Prepare.

        Args:
            steps: what is done; it returns, or raises `Stopped`, soon after the flag that it is given was set.
        """
        self._steps = steps
        self._stop = Event()
        self._thread = Thread(target=self._run, name="course", daemon=True)
        self._error: Exception | None = None

    def begin(self) -> None:
        """Take the first step, in the background."""
        self._thread.start()

    def through(self) -> bool:
        """Whether it has ended.

        Raises:
            Exception: what one of its steps raised.
        """
        self.check()
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what one of its steps has raised."""
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Stop it, and return when it does nothing any more. Idempotent, also before `begin`.

        Raises:
            DeadlineError: it does not stop.
        """
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(_END_S)
        if self._thread.is_alive():
            raise DeadlineError(f"waited {_END_S:g} s for a fault to stop what it does step by step")

    def _run(self) -> None:
        try:
            self._steps(self._stop)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - carried to the thread of its fault, which raises it
            self._error = error
