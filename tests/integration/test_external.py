"""A system that is already there: `chaos up` in one process, used as an external one by another, and left as it was.

The night's: that a scenario runs on a cluster that is already there is seen in the gate on a secured one.
"""

import re

import pytest

from chaos.common.events import FaultProved
from chaos.common.history import load, of_type
from tests.integration.external import end, inventory, others, play, said, start_up, survivors

SECRET = "hunter2"  # noqa: S105 - not a real one
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """A cluster that others use as well."""
    started = start_up(tmp_path_factory.mktemp("up"))
    try:
        others(started.bootstrap)
        yield started
        assert end(started) == 0, said(started.log)
        assert survivors() == []
    finally:
        started.process.kill()


@pytest.mark.parametrize("scenario", ["spark-loses-the-source", "driver-crashed", "broker-killed-by-hook"])
def test_scenarios_on_a_system_that_is_already_there(up, tmp_path, scenario):
    """A cut of Spark's links, a crash of the driver, a broker killed by a hook: all bite, and nothing of ours is left."""
    before = inventory(up.bootstrap)

    answer, (report,) = play(up.declaration, tmp_path, "-k", scenario)

    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr
    assert report["verdict"] == "VALID"
    assert proof_of(tmp_path, scenario).effective
    assert inventory(up.bootstrap) == before
    assert {"orders"} < before[0]
    assert "billing" in before[1]
    if "hook" in scenario:
        of_a_hook(proof_of(tmp_path, scenario).proof, up)


def of_a_hook(proof, up):
    """Exit status and output are in the history, and the proof is that the broker answered no more."""
    (ran,) = proof["hooks"].values()
    assert (ran["argv"][0], ran["exit_code"]) == ("pkill", 0)
    assert list(proof["down"].values()) == ["it does not answer"]
    assert re.search(r"broker-\d ended with -9; restarting it", said(up.log))


def test_a_hook_that_kills_nobody_proves_nothing(up, tmp_path):
    """Its exit status is 0, every broker answers, and the run is UNKNOWN; the secret that it prints is on no record."""
    declaration = up.declaration.with_name("feigned.yaml")
    kill = "  kill: sh -c 'echo logged in as ops:$OPS_PASSWORD' {broker}\n  within: 5s"
    text = re.sub(r"(?m)^  kill: .*$", kill, up.declaration.read_text(encoding="utf-8"))
    declaration.write_text(f"{text}secrets: [OPS_PASSWORD]\n", encoding="utf-8")

    answer, (report,) = play(declaration, tmp_path, "-k", "hook", "--alluredir", str(tmp_path / "allure"), OPS_PASSWORD=SECRET)

    assert answer.returncode == 1
    assert report["verdict"] == "UNKNOWN"
    assert "had no effect" in answer.stdout
    proof = proof_of(tmp_path, "broker-killed-by-hook")
    assert not proof.effective
    assert proof.proof["down"] == {}
    (ran,) = proof.proof["hooks"].values()
    assert ran["output"] == "logged in as ops:***"
    assert [file for file in tmp_path.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()] == []


def proof_of(folder, scenario):
    """The recorded proof of a run with one fault."""
    history = load(next((folder / "played").glob(f"*-{scenario}/history.jsonl")))
    ((_, proof),) = of_type(history, FaultProved)
    return proof
