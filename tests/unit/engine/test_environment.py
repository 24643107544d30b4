"""The system of a session: used again while it is healthy and is what is declared, rebuilt otherwise, and ended for sure."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.common.errors import DeadlineError, RuntimeUnavailableError
from chaos.engine import environment, systems
from chaos.engine import runtimes as engine_runtimes
from chaos.engine.environment import Environment
from chaos.install import jars, spark_versions
from chaos.scenario.system import KafkaSpec, SystemSpec
from tests.unit.wording import keep

WIDE = SystemSpec(kafka=KafkaSpec(brokers=5))


@dataclass
class FakeRuntime:
    """A runtime that can be closed."""

    is_closed: bool = False

    def close(self):
        self.is_closed = True


@dataclass
class FakeSystem:
    """A system of so many brokers that writes a log and some data."""

    folder: Path
    brokers: int
    kafka: str = ""
    spark: str = ""
    config: dict = field(default_factory=dict)
    up_s: float = 1.5
    wrong: list = field(default_factory=list)
    sparks: int = 0

    def start(self, echo, *, with_spark):
        if with_spark:
            self.start_spark(echo)
        (self.folder / "broker-1" / "data").mkdir(parents=True)
        (self.folder / "broker-1.log").write_text("started\n", encoding="utf-8")
        if self.brokers == 0:
            raise DeadlineError("no broker")

    def start_spark(self, _echo):
        self.sparks += not self.sparks

    def unhealthy(self):
        return self.wrong

    def wait_until_healthy(self):
        if self.wrong:
            raise DeadlineError("a healthy system")


def fake_system(place, kafka, brokers, workers, config):
    """As `managed_system` is called; the parts are the version of Spark."""
    assert workers
    return FakeSystem(place.folder, brokers, kafka, place.parts, config)


@pytest.fixture
def runtimes():
    return []


@pytest.fixture
def made(tmp_path, monkeypatch, runtimes):
    """An environment whose systems are fakes, and what it has said."""

    def runtime(_sessions):
        runtimes.append(FakeRuntime())
        return runtimes[-1]

    monkeypatch.setattr(engine_runtimes, "LocalRuntime", runtime)
    monkeypatch.setattr(environment.preflight, "check_machine", lambda *_, **__: None)
    monkeypatch.setattr(environment.warden, "leftovers", lambda _sessions: ["broker-7"])
    monkeypatch.setattr(environment.artifacts, "ensure", lambda _echo: "of this environment")
    monkeypatch.setattr(environment.artifacts, "of_spark", lambda version, _parts, _echo: version)
    monkeypatch.setattr(systems, "managed_system", fake_system)
    monkeypatch.setattr(systems.kafka_versions, "ensure", lambda version, _parts, _echo: version)
    said = []
    return Environment(tmp_path, said.append), said


def test_a_healthy_system_is_used_again(made, runtimes):
    """And what an earlier crash had left was told once."""
    one, said = made

    assert one.system(SystemSpec()) is one.system(SystemSpec())
    assert len(runtimes) == 1
    assert one.ups_s == [1.5]
    assert len(said) == 1
    assert "broker-7" in keep(said[0])


def test_spark_is_started_when_it_is_needed_for_the_first_time(made):
    """A file of plain applications needs none."""
    one, _ = made
    needs = [False, False, True, False]

    assert [one.system(SystemSpec(), with_spark=is_needed).sparks for is_needed in needs] == [0, 0, 1, 1]


def test_an_interrupt_that_was_lost_while_a_system_starts_ends_it(made, monkeypatch):
    """It is not gone on with as if nobody had pressed Ctrl-C."""
    one, _ = made
    monkeypatch.setattr(environment.signals, "lost", lambda **_: "SIGINT")

    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        one.system(SystemSpec())


def test_another_system_is_built_when_another_one_is_declared(made, runtimes):
    """The data of the first one are removed, its logs stay."""
    one, said = made
    first = one.system(SystemSpec())

    assert one.system(WIDE).brokers == 5
    assert [runtime.is_closed for runtime in runtimes] == [True, False]
    assert sorted(path.name for path in first.folder.iterdir()) == ["broker-1.log"]
    assert "the next scenario declares another system" in said[1]


def test_another_version_or_configuration_is_another_system(made, runtimes):
    """And each is what the scenario declares."""
    one, _ = made
    wanted = [
        {},
        {"kafka": {"version": "3.9.1"}},
        {"spark": {"version": "3.5.7"}},
        {"kafka": {"config": {"compression.type": "zstd"}}},
    ]
    specs = [SystemSpec(**one) for one in wanted]

    systems = [one.system(spec) for spec in (*specs, specs[-1])]

    ours, kafka = spark_versions.here(), jars.kafka_version()
    assert [(system.kafka, system.spark) for system in systems] == [
        (kafka, ours),
        ("3.9.1", ours),
        (kafka, "3.5.7"),
        *[(kafka, ours)] * 2,
    ]
    assert systems[-1].config == {"compression.type": "zstd"}
    assert len(runtimes) == 4
    assert one.parts == "of this environment"


def test_a_system_that_does_not_heal_is_rebuilt(made, runtimes):
    one, said = made
    one.system(SystemSpec()).wrong = ["broker-2 is down", "a rule is armed"]

    assert one.system(SystemSpec()).wrong == []
    assert [runtime.is_closed for runtime in runtimes] == [True, False]
    (told,) = (line for line in said if "broker-2 is down; a rule is armed" in line)
    keep(told)


def test_what_did_not_come_up_is_ended(made, runtimes):
    """Its processes, and the data it had written."""
    one, _ = made
    with pytest.raises(DeadlineError):
        one.system(SystemSpec.model_construct(kafka=KafkaSpec.model_construct(brokers=0)))
    (log,) = one.logs()

    one.close()

    assert [runtime.is_closed for runtime in runtimes] == [True]
    assert [path.name for path in log.parent.iterdir()] == ["broker-1.log"]
    assert one.logs() == []


def test_the_data_of_brokers_are_not_logs(made):
    """The files of a partition are called *.log as well, and go when its topic is deleted."""
    one, _ = made
    system = one.system(SystemSpec())
    for name in ("spark/master.log", "broker-1/data/datasink-0/00000000000000000000.log"):
        (system.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (system.folder / name).write_text("", encoding="utf-8")

    assert [path.name for path in one.logs()] == ["broker-1.log", "master.log"]


def test_an_environment_that_was_never_used_can_be_closed(made):
    one, said = made

    one.close()

    assert said == []


def test_a_system_that_cannot_be_had_leaves_no_runtime_behind(made, runtimes, monkeypatch):
    """Its version of Kafka does not exist: the warden of that runtime would wait until Python forgets it."""
    env, _said = made

    def missing(version, _parts, _echo):
        raise RuntimeUnavailableError(f"no Kafka {version}")

    with monkeypatch.context() as patched:
        patched.setattr(systems.kafka_versions, "ensure", missing)
        with pytest.raises(RuntimeUnavailableError):
            env.system(SystemSpec())
    env.system(SystemSpec())

    first, second = runtimes
    assert first.is_closed
    assert not second.is_closed
