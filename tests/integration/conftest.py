"""One real system for all tests that break it; a pipeline that runs under them."""

import json
import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from confluent_kafka import IsolationLevel, KafkaException
from pydantic import TypeAdapter

from chaos.cluster import addresses
from chaos.common import clock
from chaos.common.history import History
from chaos.contract.base import CHECKPOINT, Topic, Topics
from chaos.engine.pipelines import application_of, endpoints, pipeline_of
from chaos.engine.processes import ManagedProcess
from chaos.faults.base import FaultContext, prove
from chaos.faults.registry import Fault
from chaos.loader.declaration import FillSource
from chaos.scenario.load import load_text
from chaos.scenario.system import SystemSpec

ROOT = Path(__file__).parents[2]
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def pytest_configure():
    """Each worker of pytest-xdist has a system of its own, on addresses of its own."""
    if WORKER:
        first = int(addresses.from_environment().net.removeprefix("127."))
        os.environ["CHAOS_NET"] = f"127.{(first - 10 * WORKER - 1) % 255 + 1}"


@pytest.fixture(scope="session")
def chaos_session(chaos_session):
    """The session of the plugin; a run that Ctrl-C or SIGTERM has ended ends all tests, and not only its own."""
    chaos_session.run = ending_with_the_run(chaos_session.run)
    return chaos_session


def ending_with_the_run(run):
    """Raise the signal that ended a run; otherwise tests would look at the report and go on without a system."""

    def ended(*arguments, **named):
        outcome = run(*arguments, **named)
        if isinstance(outcome.error, KeyboardInterrupt):
            raise outcome.error
        return outcome

    return ended


@pytest.fixture
def hears_ctrl_c():
    """A shell starts a background job with SIGINT ignored, and its children inherit that, unless the job sets a handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def net():
    """Addresses where nothing listens, and that no other worker takes: the system of this session has others."""
    listening = (one.laddr.ip for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr)
    taken = {ip.removeprefix("::ffff:").rsplit(".", 2)[0] for ip in listening}  # a JVM listens by IPv6
    first = 100 + 20 * WORKER
    return next(net for net in (f"127.{number}" for number in range(first, first + 20)) if net not in taken)


def jvm_of(process, scratch, worked_s=0):
    """The JVM of a Python process that has its files in a folder, once it has worked so long."""

    def found():
        children = psutil.Process(process.pid).children(recursive=True)
        named = (one for one in children if one.name() == "java" and str(scratch) in " ".join(one.cmdline()))
        return next((one for one in named if one.cpu_times().user >= worked_s), None)

    # the shell that starts it, and the JVM that finds out how, may end while they are looked at
    return clock.wait_until(found, within_s=300, reason="Spark's JVM", ignore=(psutil.NoSuchProcess,))


@dataclass(frozen=True)
class Running:
    """A workload and the square pipeline, and how to aim at them."""

    scene: FaultContext
    history: History


@pytest.fixture
def system(chaos_session):
    """A healthy system: the one there is, or a new one."""
    return chaos_session.system(SystemSpec())


@pytest.fixture(scope="module")
def running(chaos_session, tmp_path_factory):
    """The exactly-once pipeline under a steady trickle of records, for as long as a module's tests need it."""
    system, folder = chaos_session.system(SystemSpec()), tmp_path_factory.mktemp("running")
    topics, square = (
        Topics((Topic("datasource-faults", 3),), "datasink-faults", suffix="faults"),
        declared_pipeline(chaos_session, "square", batch_records=1000),
    )
    system.kafka.create([topics.source, topics.sink], 3)
    square.prepare(endpoints(system, "spark"), topics)
    with History(folder / "history.jsonl") as history:
        pipeline = ManagedProcess(
            system.runtime, history, "pipeline", square.command(endpoints(system, "spark"), topics, folder), folder
        )
        pipeline.wait_until_started()
        loading = FillSource(5_000_000, 200.0).command(endpoints(system, "loader"), topics, folder)
        loader = ManagedProcess(system.runtime, history, "loader", loading, folder)
        names = {"datasource": topics.source, "datasink": topics.sink}
        scene = FaultContext(
            system,
            names,
            square.transactional_ids(topics),
            application_of(system.spark),
            group=square.consumer_group(topics),
            pipeline=lambda: pipeline,
            checkpoint=folder / CHECKPOINT,
            positions=lambda: square.positions(endpoints(system, "spark"), topics, folder),
            source=topics.source,
            sink=topics.sink,
        )
        await_growth(scene)
        yield Running(scene, history)
        for process in (loader, pipeline):
            process.kill()
    system.wait_until_healthy()
    system.kafka.delete([topics.source, topics.sink])


def application(session, name="application-alone", **parameters):
    """The plain application as `scenarios.yaml` declares it, with other values of these parameters."""
    return declared_pipeline(session, name, **parameters)


def declared_pipeline(session, name, **parameters):
    """A pipeline of `scenarios.yaml`, with other values of these parameters."""
    use = json.dumps({"use": name, "with": parameters})
    scenario = with_our_pipelines(f"{{name: a, title: A, pipeline: {use}}}")
    return pipeline_of(scenario.pipeline, session.system(SystemSpec()).parts)


def with_our_pipelines(scenario):
    """A scenario, in one line of YAML, that may use the pipelines of `scenarios.yaml`."""
    head, _, _ = (ROOT / "scenarios.yaml").read_text(encoding="utf-8").partition("\nscenarios:\n")
    return load_text(f"{head}\nscenarios:\n  - {scenario}\n", ROOT / "scenarios.yaml").scenarios[0]


def declared(fault):
    """The fault as the grammar reads it; at once, where it does not say when."""
    return TypeAdapter(Fault).validate_python({"when": {"after": "0s"}} | fault)


def await_growth(scene):
    """The pipeline goes on after the fault before: on a link without traffic there is nothing to swallow."""
    end = partial(scene.system.kafka.end, scene.sink, 3, IsolationLevel.READ_COMMITTED)
    before = clock.wait_until(end, within_s=300, reason="the end of the sink", ignore=(KafkaException,))
    clock.wait_until(lambda: end() > before, within_s=300, reason="the sink to grow", every_s=0.2, ignore=(KafkaException,))


def proved_and_healed(injection):
    """Inject, prove, and heal twice, whatever happens; the proof."""
    try:
        injection.inject()
        return prove(injection)
    finally:
        injection.heal()
        injection.heal()
