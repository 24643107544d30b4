"""Faults that need containers: what is one, and what is refused."""

import pytest

from chaos.common.errors import InjectionError
from chaos.faults.containers import contained
from chaos.runtime.base import Contained
from chaos.runtime.local import LocalProcess
from tests.unit.wording import keep


def test_a_local_process_is_not_contained():
    """A file that was only read, not loaded for a runtime, may get as far as this."""
    process = LocalProcess.__new__(LocalProcess)

    with pytest.raises(InjectionError, match="--chaos-runtime containers") as caught:
        contained([process])
    keep(str(caught.value))


def test_a_process_in_a_container_is_contained():
    """Every process that has all the operations of one."""
    from chaos.runtime.docker.process import ContainerProcess  # noqa: PLC0415 - Docker's libraries are slow to import

    class Known(ContainerProcess):
        def __init__(self):
            self.spec, self._pid = None, 1

    known = Known()
    assert isinstance(known, Contained)
    assert contained([known]) == [known]
