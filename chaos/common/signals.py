"""Ctrl-C and SIGTERM end a run in the same way; neither is lost, and neither interrupts a heal."""

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
_AGAIN_S = 0.05


def die_with_parent() -> None:
    """From now on the kernel kills this process when the one that started it dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def obey() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, as SIGINT does.

    Python prints and ignores what is raised while an object is finalized (`__del__`, `weakref.finalize`). If that happens to an
    interrupt, the signal is sent again.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = partial(_ignored, before=sys.unraisablehook)


@contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; the first one that came raises KeyboardInterrupt at its end.

    In another thread than the main one nothing is to be done: Python handles signals in that one only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number in _SIGNALS:
            signal.signal(number, lambda received, _frame: held.append(received))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt(signal.Signals(held[0]).name)


@contextmanager
def heard() -> Iterator[threading.Event]:
    """Have the first signal set an event while the block runs, so that it can end in order; the second one interrupts it."""
    asked = threading.Event()

    def hear(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt(signal.Signals(number).name)
        asked.set()

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _ignored(unraisable: "sys.UnraisableHookArgs", *, before: Callable[["sys.UnraisableHookArgs"], object]) -> None:
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        before(unraisable)
        return
    # What fails to be finalized from now on is a consequence of the interrupt; pytest would report it as a failure of its own.
    sys.unraisablehook = partial(_ignored, before=sys.__unraisablehook__)
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()
