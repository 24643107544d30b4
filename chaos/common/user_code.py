"""Code of the user's own, run in this process, which may not end it, hold it up, or write to its standard output."""

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
    """It did not return in time."""


class _TimeIsOver(BaseException):
    pass


@contextmanager
def confined(within_s: float | None = None) -> Iterator[None]:
    """Run the block with what is not its own out of reach.

    What it prints, and what programs that it starts print, goes to standard error: standard output may be read by a machine.
    ``os._exit`` is `SystemExit` meanwhile, which can be caught. The deadline is kept in the main thread only, where Python
    handles signals.

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
        if os.getpid() != ours:  # a process that the block has forked ends as it wants to
            exits(code)
        raise SystemExit(code)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = exits


@contextmanager
def _descriptor_redirected() -> Iterator[None]:
    """What is written to file descriptor 1 goes to 2: also what a program writes that is started there."""
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
