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
_PR_SET_CHILD_SUBREAPER = 36
_AGAIN_S = 0.05


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Let the kernel make this process the parent of its descendants whose own parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


class _Interrupts:
    """The handler of both signals: it raises KeyboardInterrupt, and keeps the signal until something has ended by it."""

    def __init__(self) -> None:
        self.came = ""

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.came = signal.Signals(number).name
        _expect_loose_ends()
        raise KeyboardInterrupt(self.came)


def obey() -> None:
    """Let SIGTERM raise KeyboardInterrupt, as SIGINT does; a SIGINT that the shell has this process ignore stays ignored.

    Python prints and ignores an exception in a finalizer (`__del__`, `weakref.finalize`). If that happens to an interrupt, the
    signal is sent again. Where an interrupt can be lost without a trace, use `never_lost`.
    """
    interrupts = _Interrupts()
    signal.signal(signal.SIGTERM, interrupts)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    sys.unraisablehook = partial(_ignored, before=sys.unraisablehook)


@contextmanager
def never_lost() -> Iterator[None]:
    """End the block with KeyboardInterrupt if an interrupt came while it ran, even if the exception was lost meanwhile.

    confluent-kafka looks for signals while it releases a client, when nothing can take the exception: the interrupt is lost, or
    the next call of any built-in function ends with "SystemError: … returned a result with an exception set". Before `obey`,
    this does nothing.
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
    """Name of a signal that has come and ended nothing yet; empty if there is none."""
    handler = signal.getsignal(signal.SIGTERM)
    came = handler.came if isinstance(handler, _Interrupts) else ""
    if forget and isinstance(handler, _Interrupts):
        handler.came = ""
    return came


@contextmanager
def deferred() -> Iterator[None]:
    """Hold signals back while the block runs; the first one raises KeyboardInterrupt at its end.

    Outside the main thread there is nothing to do: Python handles signals in the main thread only.
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
    """While the block runs, let the first signal set the first event and the second one the second; a third interrupts it.

    So a user can let the block end in order, and then tell it not to wait any more.
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
    """Silence warnings of unclosed resources: they follow from the interrupt, and pytest would report each as a failure."""
    sys.unraisablehook = partial(_ignored, before=sys.__unraisablehook__)
