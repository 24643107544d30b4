"""The facts that `chaos up` gives other programs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from chaos.cli import up
from chaos.cluster.addresses import Addresses
from chaos.cluster.system import Place, managed_system
from chaos.external import declaration
from chaos.install.artifacts import Parts
from chaos.install.kafka_versions import KafkaProgram
from chaos.install.spark_versions import SparkProgram

KAFKA = KafkaProgram("4.3.0", Path("kafka"))
PARTS = Parts(Path("java"), SparkProgram("4.2.0", Path("spark"), ()), Path("kafka"), Path("tools"), Path("toxiproxy"))


def test_its_declaration_is_one_that_can_be_loaded():
    """Names instead of addresses, so that a JVM can be directed to a proxy; a hook for everything that hooks can do."""
    system = managed_system(
        Place(None, PARTS, Addresses("127.92"), Path("/runs/x-up")), KAFKA, brokers=3, workers=2, config={}, is_outside=True
    )

    found = declaration.load_text(up.declaration(system), Path("external.yaml"))

    assert found.bootstrap == ("localhost:20921", "localhost:20922", "localhost:20923")
    assert (found.spark.master, found.spark.is_here) == ("spark://127.92.0.2:7077", True)
    assert found.hooks.kill == "pkill --signal KILL --pidfile /runs/x-up/broker-{id}.pid"
    assert found.hooks.resume is not None


def test_brokers_can_be_found_from_outside_by_name(tmp_path):
    """They have one more listener, on loopback; without `chaos up` they do not, and no port of 127.0.0.1 is taken."""
    plain, open_ = (
        managed_system(
            Place(None, PARTS, Addresses("127.92"), tmp_path / name),
            KAFKA,
            brokers=3,
            workers=1,
            config={},
            is_outside=name == "open",
        )
        for name in ("plain", "open")
    )
    for system in (plain, open_):
        for broker in system.kafka.brokers.planned:
            broker.write_files()

    assert "OUTSIDE" not in (tmp_path / "plain" / "broker-2" / "server.properties").read_text(encoding="utf-8")
    text = (tmp_path / "open" / "broker-2" / "server.properties").read_text(encoding="utf-8")
    assert "OUTSIDE://127.0.0.1:20922" in text
    assert "OUTSIDE://localhost:20922" in text
    assert "OUTSIDE:PLAINTEXT" in text


def test_only_a_broker_that_lives_has_a_pid_file(tmp_path):
    """A hook that kills by pid must not reach another process that got the pid of a dead broker."""
    brokers = {1: broker(pid=11), 2: broker(pid=22)}
    system: Any = SimpleNamespace(folder=tmp_path, kafka=SimpleNamespace(brokers=SimpleNamespace(processes=brokers)))
    up.write_pids(system)
    brokers[2] = broker(pid=22, alive=False)
    up.write_pids(system)
    up.write_pids(system)

    assert {file.name: file.read_text(encoding="ascii") for file in tmp_path.iterdir()} == {"broker-1.pid": "11\n"}


def broker(pid, *, alive=True):
    """A stand-in for a process."""
    return SimpleNamespace(pid=pid, alive=lambda: alive)
