"""A block that is told to end in order, and then not to wait any more."""

import os
import signal

import pytest

from chaos.common import signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_three_signals(number):
    """The first one and the second one are events, the third one interrupts; afterwards all is as it was before."""
    before = signal.getsignal(number)
    with signals.heard_twice() as events:
        for event in events:
            assert not event.is_set()
            os.kill(os.getpid(), number)
            assert event.wait(60)
        with pytest.raises(KeyboardInterrupt, match=number.name):
            signal.raise_signal(number)

    assert signal.getsignal(number) is before
