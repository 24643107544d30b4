"""A signal that ends a run of the integration tests ends their session."""

from types import SimpleNamespace

import pytest

from chaos.common.errors import InconclusiveError
from tests.integration.conftest import ending_with_the_run


def test_a_signal_ends_more_than_its_run():
    """The report of such a run is written, and no test after it has a system."""
    interrupt = KeyboardInterrupt("SIGTERM")

    with pytest.raises(KeyboardInterrupt) as raised:
        ending_with_the_run(lambda *_, **__: SimpleNamespace(error=interrupt))("scenario", replay="")
    assert raised.value is interrupt


@pytest.mark.parametrize("error", [None, InconclusiveError("its rows cannot be had")])
def test_any_other_end_is_the_tests_own(error):
    """A test may be about it."""
    outcome = SimpleNamespace(error=error)

    assert ending_with_the_run(lambda *_, **__: outcome)() is outcome
