"""Signals: Ctrl-C and SIGTERM end a run the same way, and neither may cut a heal in half."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def terminate_like_ctrl_c() -> None:
    """From now on SIGTERM raises KeyboardInterrupt, as SIGINT does."""
    signal.signal(signal.SIGTERM, _interrupt)


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
