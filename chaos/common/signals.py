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


class _Interrupts:
    """The handler of both signals: it raises KeyboardInterrupt, and keeps which signal came until something was ended by it."""

    def __init__(self) -> None:
        self.came = ""

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.came = signal.Signals(number).name
        _expect_loose_ends()
        raise KeyboardInterrupt(self.came)


def obey() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, as SIGINT does; a SIGINT that the shell has this process ignore stays so.

    Python prints and ignores what is raised while an object is finalized (`__del__`, `weakref.finalize`). If that happens to an
    interrupt, the signal is sent again. Where an interrupt can be lost without a trace, `never_lost` is needed.
    """
    interrupts = _Interrupts()
    signal.signal(signal.SIGTERM, interrupts)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    sys.unraisablehook = partial(_ignored, before=sys.unraisablehook)


@contextmanager
def never_lost() -> Iterator[None]:
    """An interrupt that comes while the block runs ends it with KeyboardInterrupt, whatever has become of that meanwhile.

    confluent-kafka looks for signals while it releases a client, when nothing can take the exception: the interrupt is lost, or
    the next call of any built-in function ends with "SystemError: … returned a result with an exception set". It does nothing
    before `obey`.
    """
    try:
        yield
    except BaseException as error:
        came = lost(forget=True)
        if came and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(came) from error
        raise
    came = lost(forget=True)
    if came:
        raise KeyboardInterrupt(came)


def lost(*, forget: bool = False) -> str:
    """The signal that has come and ended nothing yet; empty if there is none."""
    handler = signal.getsignal(signal.SIGTERM)
    came = handler.came if isinstance(handler, _Interrupts) else ""
    if forget and isinstance(handler, _Interrupts):
        handler.came = ""
    return came


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
def heard_twice() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Have the first signal set the first event while the block runs, and the second one the second; a third interrupts it.

    So the block can end in order, and be told not to wait any more.
    """
    events = (threading.Event(), threading.Event())

    def hear(number: int, _frame: FrameType | None) -> None:
        event = next((one for one in events if not one.is_set()), None)
        if event is None:
            raise KeyboardInterrupt(signal.Signals(number).name)
        event.set()

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignored(unraisable: "sys.UnraisableHookArgs", *, before: Callable[["sys.UnraisableHookArgs"], object]) -> None:
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        before(unraisable)
        return
    _expect_loose_ends()
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()


def _expect_loose_ends() -> None:
    """What is not closed from now on is a consequence of the interrupt; pytest would report it as a failure of its own."""
    sys.unraisablehook = partial(_ignored, before=sys.__unraisablehook__)
