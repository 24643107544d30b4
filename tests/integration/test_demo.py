"""`chaos demo`, as it is typed in an empty folder: both verdicts with their counts, a page, and nothing left running."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.common import clock
from chaos.common.events import FaultHealed, FaultInjected
from chaos.common.history import load, of_type
from tests.integration.external import environment, said
from tests.integration.test_signals import survivors

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800), pytest.mark.usefixtures("hears_ctrl_c")]

VALID, INVALID = "killed-in-a-transaction", "killed-between-two-steps"
PLACE = "chaos-demo"
WITHIN_S = 900


@pytest.fixture
def typed(tmp_path, net):
    """Starts a command in that folder, on addresses of its own; what it prints goes to `log` there."""
    shell = {name: value for name, value in environment(net).items() if not name.startswith(("PYTHON", "PYTEST"))}
    log = tmp_path / "log"
    folder = tmp_path / "empty"
    folder.mkdir()
    processes = []

    def started(*words, cwd=folder):
        argv = (str(Path(sys.executable).with_name(words[0])), *words[1:])
        with log.open("wb") as out:
            processes.append(subprocess.Popen(argv, cwd=cwd, env=shell, stdout=out, stderr=out, start_new_session=True))
        return processes[-1]

    yield started
    for process in processes:
        process.kill()


def reports(folder):
    """Scenario -> its last report."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("runs/*/report.json"))]
    return {report["scenario"]: report for report in found}


def counts(report):
    """What was found in the output."""
    return {one["verifier"]: one["count"] for one in report["findings"] if one["subject"] == report["output"] and one["count"]}


def test_it_shows_a_right_program_and_a_wrong_one_which_can_be_mended(typed, tmp_path, net):
    """Its exit code is 0 though one run is red: that is what it is to show. Who mends the program sees it green."""
    log, folder = tmp_path / "log", tmp_path / "empty"

    assert typed("chaos", "demo").wait(WITHIN_S) == 0, said(log)

    lines = said(log).splitlines()
    assert survivors(net) == []
    assert [line.split()[0] for line in lines if re.match(r"  (IN)?VALID: ", line)] == ["VALID:", "INVALID:"]
    assert lines[-1].endswith("chaos init")
    assert [path.name for path in folder.iterdir()] == [PLACE]
    found = reports(folder / PLACE)
    assert {name: report["verdict"] for name, report in found.items()} == {VALID: "VALID", INVALID: "INVALID"}
    assert (counts(found[VALID]), counts(found[INVALID])) == ({}, {"duplicates": 100, "ordering": 99})
    assert all(fault["effective"] for report in found.values() for fault in report["faults"])
    page = (folder / PLACE / "report.html").read_text(encoding="utf-8")
    links = [link for link in re.findall(r'href="([^"#]+)"', page) if not link.startswith(("http", "data:"))]
    assert len(links) >= 2
    assert all((folder / PLACE / link).is_file() for link in links)

    once_more = next(line for line in lines if line.startswith("  once more"))
    words = re.search(r"&& (pytest .*?)\s+#", once_more)[1].split()
    shutil.copy(folder / PLACE / "copy_in_transactions.py", folder / PLACE / "copy_in_steps.py")
    assert typed(*words, "-p", "no:cacheprovider", cwd=folder / PLACE).wait(WITHIN_S) == 0, said(log)

    assert "2 passed" in said(log)


def test_ctrl_c_heals_cleans_and_says_so(typed, tmp_path, net):
    """While its fault is in force."""
    log, folder = tmp_path / "log", tmp_path / "empty" / PLACE
    process = typed("chaos", "demo")
    clock.wait_until(
        lambda: "The program is killed" in said(log) or process.poll() is not None, within_s=WITHIN_S, reason="the fault"
    )

    process.send_signal(signal.SIGINT)

    assert process.wait(WITHIN_S) == 130, said(log)
    assert "interrupted" in said(log).splitlines()[-1]
    assert survivors(net) == []
    history = list(load(next(folder.glob(f"runs/*-{VALID}/history.jsonl"))))
    injected = [value.fault for _, value in of_type(history, FaultInjected)]
    assert injected == [value.fault for _, value in of_type(history, FaultHealed)]
    assert len(injected) == 1
    assert (folder / "report.html").is_file()
