"""A block that is told to end in order, and then not to wait any more."""

import os
import signal

import pytest

from chaos.common import signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_three_signals(number):
    """The first one and the second one are events, the third one interrupts; afterwards all is as it was before."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt, match=number.name), signals.heard_twice() as (first, second):
        os.kill(os.getpid(), number)
        assert first.wait(60)
        assert not second.is_set()
        os.kill(os.getpid(), number)
        assert second.wait(60)
        os.kill(os.getpid(), number)
        signal.sigtimedwait([], 60)

    assert signal.getsignal(number) is before
