"""A service that is killed, with a server of files in its place: it is gone until the heal, and answers again after it."""

import sys
import urllib.request
from random import Random

import pytest

from chaos.cluster.system import Service
from chaos.common.history import History
from chaos.engine.processes import RunProcesses
from chaos.faults.base import FaultContext
from chaos.faults.services import CrashService
from chaos.runtime.local import LocalRuntime
from tests.integration.conftest import proved_and_healed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SERVER = (sys.executable, "-c", "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=19299, bind='127.0.0.1')")


def test_a_service_is_killed_and_serves_again(tmp_path):
    """All of its processes are; and each start is of the same command."""
    runtime, (host, port) = LocalRuntime(tmp_path / "sessions"), ("127.0.0.1", 19299)
    try:
        with History(tmp_path / "history.jsonl") as history:
            processes = RunProcesses(runtime, history, tmp_path)
            processes.start_service(Service("files", (host, port), SERVER))
            before = processes.service("files").process.process.pid

            proof = proved_and_healed(
                CrashService(service="files").prepare(FaultContext(None, {}, service=processes.service), Random(1))
            )

            assert proof.effective, proof.facts
            assert proof.facts["pids"] == {"service-files": before}
            assert processes.service("files").process.process.pid != before
            with urllib.request.urlopen(f"http://{host}:{port}/", timeout=30) as answer:
                assert answer.status == 200
            processes.check()
    finally:
        runtime.close()
