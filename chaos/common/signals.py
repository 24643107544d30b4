"""Signals: Ctrl-C and SIGTERM end a run the same way, neither is lost, and neither may cut a heal in half."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.05


def obey() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, as SIGINT does.

    What is raised while an object is finalized (`__del__`, `weakref.finalize`) Python prints and ignores; an interrupt is sent
    again.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = partial(_ignored, before=sys.unraisablehook)


@contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; the first one is obeyed at its end."""
    held: list[int] = []
    before = {number: signal.signal(number, lambda received, _frame: held.append(received)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt(signal.Signals(held[0]).name)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _ignored(unraisable: "sys.UnraisableHookArgs", *, before: Callable[["sys.UnraisableHookArgs"], object]) -> None:
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        before(unraisable)
        return
    # What is half finalized from now on is nobody's failure, and pytest would make it one.
    sys.unraisablehook = partial(_ignored, before=sys.__unraisablehook__)
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()
