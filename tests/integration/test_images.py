"""An image of the user's is a pipeline: it is killed, paused and started again on the network of the run."""

import json
import shutil
from pathlib import Path

import confluent_kafka
import pytest

from chaos.runtime.docker.engine import connected, image_name
from chaos.scenario.load import load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

IMAGE = "chaos-test-copy:1"
DOCKERFILE = f"""\
FROM {image_name()}
COPY site /site
COPY copy_topic.py /copy_topic.py
ENV PYTHONPATH=/site
USER 65534:65534
ENTRYPOINT ["python3", "/copy_topic.py"]
"""
pytestmark = [pytest.mark.integration, pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The program of examples/adapters with its client, and nothing else of this project."""
    folder = tmp_path_factory.mktemp("image")
    package = Path(confluent_kafka.__file__).parent
    for part in (package, package.with_name("confluent_kafka.libs")):
        shutil.copytree(part, folder / "site" / part.name)
    shutil.copy(ROOT / "examples" / "adapters" / "copy_topic.py", folder)
    (folder / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    with connected() as client:
        client.images.build(path=str(folder), tag=IMAGE, rm=True)
        yield IMAGE
        client.images.remove(IMAGE, force=True)


def played(session, image, faults, **keys):
    """The report of a run of this image."""
    pipeline = {
        "kind": "container",
        "image": image,
        "command": ["{bootstrap}", "{orders}", "{copies}", "{source}-copy"],
        "environment": {"PYTHONUNBUFFERED": "1"},
        "group": "{source}-copy",
        "transactional_ids": ["{source}-copy"],
        "session_timeout": "6s",
        "speaks": ["started", "transactions", "deliveries"],
        "reads": ["orders"],
        "sink": {"topic": "copies"},
    }
    workload = {"records": 4000, "rate": "1000/s"}
    scenario = {
        "name": "image",
        "title": "An image copies",
        "pipeline": pipeline,
        "workload": workload,
        "faults": faults,
        **keys,
    }
    declared = {"version": 2, "topics": {"orders": {}, "copies": {}}, "scenarios": [scenario]}
    file = load_text(json.dumps(declared), ROOT / "scenarios.yaml", "containers")
    return session.run(file.scenarios[0], file.system, "", lambda _event: None).report


def test_it_is_killed_and_paused(chaos_session, image):
    """With the answer to its commit on the wire; paused when it runs again; what it says is true, each record arrives once."""
    report = played(
        chaos_session,
        image,
        [
            {"kind": "crash_pipeline", "when": {"request": "EndTxn", "nth": 5, "at": "response"}},
            {"kind": "pause_pipeline", "for": "2s", "when": {"fault": "crash_pipeline-1", "after": "3s"}},
        ],
    )

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True, True]
    compared = {one.verifier: one.checked for one in report.findings}
    assert compared["deliveries"] == 4000
    assert compared["outcomes"] >= 5


def test_an_image_that_is_not_there(chaos_session):
    """Nothing is pulled; it is told what to do."""
    report = played(chaos_session, "nowhere:1", [])

    assert report.verdict is Verdict.UNKNOWN
    (problem,) = report.problems
    assert "the image nowhere:1 does not exist" in problem
    assert "docker pull nowhere:1" in problem
