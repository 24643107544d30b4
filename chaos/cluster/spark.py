"""A standalone Spark cluster straight from the pip package: a master and workers as processes of their own.

So executors (children of a worker), their Python workers, a worker and the pipeline's driver can each die alone.
``SPARK_SCALA_VERSION`` must be in a worker's environment, or every executor's launch fails with "Cannot find any build
directories" (``AbstractCommandBuilder.getScalaVersion``).
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import requests

from chaos.cluster.addresses import Addresses
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import class_archives
from chaos.install.artifacts import Parts
from chaos.runtime.base import Process, ProcessSpec, Runtime

_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
)
_PYTHON = "python"
_MASTER = "master"
_ASK_S = 3.0


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor JVM.

    Attributes:
        id: as Spark counts them within an application.
        app: the application's id.
        process: the JVM.
        worker: number of the worker that started it.
    """

    id: str
    app: str
    process: psutil.Process
    worker: int = 0

    def lives(self) -> bool:
        """Whether it runs, or is paused."""
        return lives(self.process)

    def daemons(self) -> list[psutil.Process]:
        """Its ``pyspark.daemon``; none before the first Python task."""
        return [child for child in _children(self.process) if _PYTHON in child.name()]

    def python_workers(self) -> list[psutil.Process]:
        """The Python workers below its daemon, in a task or waiting for one."""
        return [worker for daemon in self.daemons() for worker in _children(daemon)]


class Spark:
    """Master and workers."""

    def __init__(self, runtime: Runtime, parts: Parts, addresses: Addresses, folder: Path, workers: int) -> None:
        """Describe the cluster; nothing is started yet."""
        self.numbers = tuple(range(1, workers + 1))
        self.addresses = addresses
        self._runtime = runtime
        self._parts = parts
        self._folder = folder
        self._daemons: dict[str, Process] = {}

    @property
    def master(self) -> str:
        """What a driver connects to."""
        host, port = self.addresses.master
        return f"spark://{host}:{port}"

    @property
    def java_options(self) -> str:
        """For drivers and executors: quick to start rather than quick for ever."""
        return " ".join((*class_archives.options(self._parts.spark_cds), f"-Djava.io.tmpdir={self._scratch}"))

    @property
    def driver_host(self) -> str:
        """Where the pipeline's driver listens."""
        return self.addresses.driver

    @property
    def options(self) -> Mapping[str, str]:
        """An application needs no further settings here."""
        return {}

    @property
    def _scratch(self) -> Path:
        """Where executors and daemons put their temporary files, killed or not."""
        return self._folder / "tmp"

    @property
    def _recovery(self) -> Path:
        """What the master writes down of workers and applications."""
        return self._folder / "recovery"

    @property
    def master_process(self) -> Process:
        """The master."""
        return self._daemons[_MASTER]

    @property
    def workers(self) -> dict[int, Process]:
        """The workers, by number."""
        return {number: self._daemons[f"worker-{number}"] for number in self.numbers}

    def start(self) -> None:
        """Start the master, and the workers when it answers; `wait_until_ready` says when they are registered."""
        host, port = self.addresses.master
        _, page = self.addresses.master_page
        main = ("org.apache.spark.deploy.master.Master", "--host", host, "--port", str(port), "--webui-port", str(page))
        # what it knows survives it, as with ZooKeeper in production; `forget` makes it a master as it comes
        recovery = ("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={self._recovery}")
        self._recovery.mkdir(parents=True, exist_ok=True)
        self._start(_MASTER, host, main, recovery)
        clock.wait_until(
            self._state, within_s=60, reason="Spark's master to answer", every_s=0.1, ignore=(requests.RequestException,)
        )
        for number in self.numbers:
            self._start_worker(number)

    def wait_until_ready(self) -> None:
        """Return when all workers are registered."""
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=60, reason="Spark's workers to register", every_s=0.1, seen=self.unhealthy
        )

    def unhealthy(self) -> list[str]:
        """What is wrong now, in words."""
        dead = [f"Spark's {name} does not run" for name, process in self._daemons.items() if not process.alive()]
        if dead:
            return dead
        try:
            state, alive = self._state(), self.registered()
        except requests.RequestException as error:
            return [f"Spark's master does not answer: {error}"]
        if state["status"] != "ALIVE":
            return [f"Spark's master is {state['status']}"]
        return [] if alive == len(self.numbers) else [f"{alive} of {len(self.numbers)} Spark workers are registered"]

    def registered(self) -> int:
        """How many workers the master knows to be alive.

        Raises:
            requests.RequestException: it does not answer.
        """
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def applications(self) -> list[str]:
        """Ids of the applications that the master knows to run.

        Raises:
            requests.RequestException: it does not answer.
        """
        return [app["id"] for app in self._state()["activeapps"]]

    def forget(self) -> None:
        """Remove what the master has written down; it must not run."""
        for path in self._recovery.iterdir():
            path.unlink()

    def executors(self) -> list[Executor]:
        """Executors that run now, from the workers' process trees, ordered by application and id."""
        found = [executor for number, worker in self.workers.items() for executor in _executors_below(worker.pid, number)]
        return sorted(found, key=lambda executor: (executor.app, int(executor.id)))

    def _state(self) -> dict[str, Any]:
        host, port = self.addresses.master_page
        answer = requests.get(f"http://{host}:{port}/json/", timeout=_ASK_S)
        answer.raise_for_status()
        state: dict[str, Any] = answer.json()
        return state

    def _start_worker(self, number: int) -> None:
        host = self.addresses.worker(number)
        place = ("--host", host, "--webui-port", "8081", "--cores", "2", "--memory", "1g")
        work = self._folder / f"worker-{number}"
        main = ("org.apache.spark.deploy.worker.Worker", *place, "--work-dir", str(work), self.master)
        self._start(f"worker-{number}", host, main)

    def _start(self, name: str, host: str, main: tuple[str, ...], options: tuple[str, ...] = ()) -> None:
        jars = class_archives.spark_class_path(self._parts.spark_home, self._parts.connector_jars)
        opened = (f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED)
        argv = (
            str(self._parts.java),
            "-Xmx256m",
            *class_archives.options(self._parts.spark_cds),
            f"-Djava.io.tmpdir={self._scratch}",
            *opened,
            *options,
            "-cp",
            jars,
            *main,
        )
        self._scratch.mkdir(parents=True, exist_ok=True)
        env = {
            "SPARK_LOCAL_DIRS": str(self._scratch),
            "SPARK_HOME": str(self._parts.spark_home),
            "SPARK_LOCAL_IP": host,
            "SPARK_SCALA_VERSION": "2.13",
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(self._parts.java.parent.parent),
        }
        spec = ProcessSpec(name, argv, self._folder / name, self._folder / f"{name}.log", env, hosts=(host,))
        process = self._runtime.start(spec)
        if not process.alive():
            raise RuntimeUnavailableError(f"Spark's {name} ended at once; see {process.spec.log}")
        self._daemons[name] = process


def lives(process: psutil.Process) -> bool:
    """Whether it runs, or is paused; a dead one that nobody has waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children() if lives(child)]
    except psutil.NoSuchProcess:
        return []


def _executors_below(worker: int, number: int) -> Iterator[Executor]:
    try:
        children = psutil.Process(worker).children()
    except psutil.NoSuchProcess:
        return
    for child in children:
        executor = executor_of(child, number)
        if executor is not None:
            yield executor


def executor_of(process: psutil.Process, worker: int = 0) -> Executor | None:
    """The executor that a process is, or None for any other process.

    Args:
        process: any.
        worker: number of the worker that started it.
    """
    try:
        command = process.cmdline()
    except psutil.Error:
        return None
    if _BACKEND not in command:
        return None
    return Executor(command[command.index("--executor-id") + 1], command[command.index("--app-id") + 1], process, worker)
