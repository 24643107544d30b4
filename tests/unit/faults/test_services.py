"""Faults of a service, with a process of the test in its place."""

import subprocess
import sys
from random import Random

import pytest

from chaos.faults.base import FaultContext, prove
from chaos.faults.services import CrashService
from tests.unit.wording import raised


class FakeService:
    """A process that does nothing, and what was done to it."""

    def __init__(self, *, dies=True, refuses=True):
        self.dies, self.silent = dies, refuses
        self.done = []
        self.process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])

    def crash(self):
        self.done.append("crash")
        if self.dies:
            self.process.kill()
            self.process.wait()
        return {"service-files": self.process.pid}

    def refuses(self):
        return self.silent

    def restart(self):
        self.done.append("restart")


@pytest.fixture
def made():
    """Services that are ended with the test."""
    services = []

    def make(**what):
        services.append(FakeService(**what))
        return services[-1]

    yield make
    for service in services:
        service.process.kill()
        service.process.wait()


def crashed(service):
    context = FaultContext(None, {}, service={"files": service}.__getitem__)
    return CrashService(service="files").prepare(context, Random(1))


def test_a_service_is_killed_and_started_again(made):
    """Its process is gone, and nobody answers in its place."""
    service = made()
    injection = crashed(service)
    injection.inject()

    proof = prove(injection)
    injection.heal()

    assert proof.effective
    assert proof.facts == {"pids": {"service-files": service.process.pid}, "alive": [], "refused": True}
    assert (injection.target, service.done) == ("service(files)", ["crash", "restart"])


@pytest.mark.parametrize("what", [{"dies": False}, {"refuses": False}])
def test_a_service_that_is_still_there_was_not_killed(made, what):
    """Its process, or another one that listens where it did."""
    injection = crashed(made(**what))
    injection.inject()

    assert not prove(injection).effective


def test_a_service_that_no_run_has_started():
    with raised(LookupError, "files"):
        CrashService(service="files").prepare(FaultContext(None, {}), Random(1))
