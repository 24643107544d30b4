"""Faults that need containers, where there are none."""

from types import SimpleNamespace

import pytest

from chaos.common.errors import InjectionError
from chaos.faults.containers import contained
from chaos.runtime.base import Contained
from chaos.runtime.local import LocalProcess


def test_a_local_process_is_not_contained():
    """A file that was only read, not loaded for a runtime, may get as far as this."""
    process = LocalProcess.__new__(LocalProcess)
    system = SimpleNamespace(kafka=SimpleNamespace(brokers=SimpleNamespace(processes={1: process})))

    with pytest.raises(InjectionError, match="run in no containers: run the scenario with --chaos-runtime containers"):
        contained(system, [1])


def test_a_process_in_a_container_is():
    """Whatever has all that can be done to one."""
    from chaos.runtime.docker.process import ContainerProcess  # noqa: PLC0415 - Docker's libraries are slow to import

    class Known(ContainerProcess):
        def __init__(self):
            self.spec, self._pid = None, 1

    known = Known()
    assert isinstance(known, Contained)
    assert contained(SimpleNamespace(kafka=SimpleNamespace(brokers=SimpleNamespace(processes={2: known}))), [2]) == [known]
