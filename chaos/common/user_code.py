"""Running a user's code in this process, so that it cannot end it, hold it up, or write to its standard output."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import NoReturn

from chaos.common import clock

WITHIN_S = 60.0
_AGAIN_S = 1.0


class OverdueError(Exception):
    """The user's code did not return in time."""


class _TimeIsOver(BaseException):
    pass


@contextmanager
def confined(within_s: float | None = None) -> Iterator[None]:
    """Run the block without access to standard output and to ``os._exit``, and with a deadline.

    Its output, and that of programs that it starts, goes to standard error: a machine may read standard output. ``os._exit``
    raises `SystemExit` meanwhile, which can be caught. The deadline holds in the main thread only, where Python handles
    signals.

    Args:
        within_s: the deadline; `WITHIN_S` by default.

    Raises:
        OverdueError: the block has not ended by then.
    """
    with (
        _limited(WITHIN_S if within_s is None else within_s),
        _without_exit(),
        redirect_stdout(sys.stderr),
        _descriptor_redirected(),
    ):
        yield


@contextmanager
def _without_exit() -> Iterator[None]:
    ours, exits = os.getpid(), os._exit

    def leave(code: int) -> NoReturn:
        if os.getpid() != ours:  # a process that the block has forked may end
            exits(code)
        raise SystemExit(code)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = exits


@contextmanager
def _descriptor_redirected() -> Iterator[None]:
    """Redirect file descriptor 1 to 2, also for programs that the block starts."""
    sys.stdout.flush()
    try:
        standard = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(standard, 1)
        os.close(standard)


@contextmanager
def _limited(within_s: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsOver

    before, began_s = signal.signal(signal.SIGALRM, end), clock.monotonic_s()
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, within_s, _AGAIN_S)  # again, for the block may swallow it
    try:
        yield
    except _TimeIsOver as over:  # its traceback says where the block was
        raise OverdueError(f"it did not return within {within_s:g} s").with_traceback(over.__traceback__) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left_s:  # pytest's, of the test that is running
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left_s - (clock.monotonic_s() - began_s)), every_s)
