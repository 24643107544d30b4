"""`chaos up`: run the local system for other programs, until Ctrl-C.

It behaves like a cluster with a supervisor: a process that dies is restarted a little later. Beside its logs are a pid file for
each broker, and the declaration with which ``pytest --chaos-runtime external`` uses it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.cluster import addresses
from chaos.cluster.system import Place, System, managed_system
from chaos.common import clock, files, signals, warden
from chaos.install import artifacts, cache, jars, kafka_versions, preflight
from chaos.install.artifacts import Echo
from chaos.runtime.base import Process
from chaos.runtime.local import LocalRuntime

DECLARATION = "external.yaml"
_EVERY_S = 0.2
_TEXT = """\
# The system that `chaos up` started. It ends when `chaos up` ends.
version: 1
bootstrap: [{bootstrap}]
prefix: chaos-up-
librdkafka: {{broker.address.family: v4}}
spark: {{master: "{master}", executors: here}}
hooks:
  kill: pkill --signal KILL --pidfile {folder}/broker-{{id}}.pid   # `chaos up` starts it again
  pause: pkill --signal STOP --pidfile {folder}/broker-{{id}}.pid
  resume: pkill --signal CONT --pidfile {folder}/broker-{{id}}.pid
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the system.

    Attributes:
        restart_after_s: seconds after which a dead process is restarted.
    """

    brokers: int = 3
    workers: int = 2
    restart_after_s: float = 5.0


def up(size: Size, runs: Path, echo: Echo) -> None:
    """Start the system, print its addresses, and restart dead processes until a signal arrives.

    Raises:
        RuntimeUnavailableError: the system cannot run here.
    """
    preflight.check_machine(artifacts.cache_folder(), runs)
    sessions = artifacts.cache_folder() / cache.SESSIONS
    for name in warden.leftovers(sessions):
        echo(f"ended a process that an earlier crash had left: {name}")
    parts, folder = artifacts.ensure(echo), files.new_folder(runs, "up")
    kafka = kafka_versions.ensure(jars.kafka_version(), parts, echo)
    runtime = LocalRuntime(sessions)
    place = Place(runtime, parts, addresses.from_environment(), folder)
    system = managed_system(place, kafka, brokers=size.brokers, workers=size.workers, config={}, is_outside=True)
    try:
        system.start(echo)
        _tell(system, echo)
        _look_after(system, size.restart_after_s, echo)
    except KeyboardInterrupt:
        echo("ending the system …")
    finally:
        with signals.deferred():
            runtime.close()
            for data in (*folder.glob("broker-*/"), *folder.glob("spark/*/")):
                shutil.rmtree(data, ignore_errors=True)  # the logs stay


def declaration(system: System) -> str:
    """Return the text of the file that declares the system to others."""
    places = [system.addresses.outside(number) for number in system.kafka.broker_ids]
    bootstrap = ", ".join(f'"{host}:{port}"' for host, port in places)
    return _TEXT.format(bootstrap=bootstrap, master=system.spark.master, folder=system.folder)


def _tell(system: System, echo: Echo) -> None:
    host, port = system.addresses.master_page
    proxy_host, proxy_port = system.addresses.toxiproxy
    outside = ", ".join(f"{host}:{port}" for host, port in map(system.addresses.outside, system.kafka.broker_ids))
    file = system.folder / DECLARATION
    write_pids(system)
    file.write_text(declaration(system), encoding="utf-8")
    echo(f"Kafka      {outside}")
    echo(f"Spark      {system.spark.master}   http://{host}:{port}")
    echo(f"Toxiproxy  http://{proxy_host}:{proxy_port} (between its own brokers)")
    echo(f"logs       {system.folder}")
    echo(f"to use it  pytest -m chaos --chaos-runtime external --chaos-external {file}")
    echo("to end it  Ctrl-C")


def _look_after(system: System, restart_after_s: float, echo: Echo) -> None:
    """Restart dead processes; never returns."""
    died_s: dict[str, float] = {}
    while not clock.pause(_EVERY_S):
        for name, process in _processes(system).items():
            if process.alive():
                died_s.pop(name, None)
            elif name not in died_s:
                died_s[name] = clock.monotonic_s()
                write_pids(system)
            elif clock.monotonic_s() - died_s[name] >= restart_after_s:
                echo(f"{name} ended with {process.exit_code()}; restarting it")
                process.start()
                write_pids(system)


def _processes(system: System) -> Mapping[str, Process]:
    brokers = {f"broker-{number}": process for number, process in system.kafka.brokers.processes.items()}
    workers = {f"Spark's worker-{number}": process for number, process in system.spark.workers.items()}
    return brokers | workers | {"Spark's master": system.spark.master_process}


def write_pids(system: System) -> None:
    """Write a pid file for each live broker, and remove those of dead ones, whose pids may pass to other processes."""
    for number, process in system.kafka.brokers.processes.items():
        file = system.folder / f"broker-{number}.pid"
        if process.alive():
            file.write_text(f"{process.pid}\n", encoding="ascii")
        else:
            file.unlink(missing_ok=True)
