"""Polling in a thread of its own while a block lasts."""

from threading import Event as Flag
from threading import Thread
from types import TracebackType
from typing import Self

from chaos.common import clock


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
        self._stop = Flag()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(self._ends_within_s)

    def _run(self) -> None:
        while not clock.pause(self._every_s, self._stop):
            self._look()

    def _look(self) -> None:
        raise NotImplementedError
