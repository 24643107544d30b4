"""Spark: a standalone cluster from the pip package, its executors' processes, and an application's state by its REST API.

Master and workers are separate processes, so that executors (children of a worker), their Python workers, a worker and the
pipeline's driver can each die alone.
``SPARK_SCALA_VERSION`` must be in a worker's environment, or every executor's launch fails with "Cannot find any build
directories" (``AbstractCommandBuilder.getScalaVersion``).
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
import requests

from chaos.cluster.addresses import Addresses
from chaos.common import clock, processes
from chaos.common.errors import RuntimeUnavailableError
from chaos.contract.base import DRIVER_PORT
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
_MASTER = "master"
_DRIVERS = 4  # ports to look for drivers: a zombie may live beside its successor
_ASK_S = 3.0
_ASK_DRIVER_S = 15.0  # the first answer of a driver takes seconds
_LOST = "ExecutorLostFailure"
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(rf"(\d+)({'|'.join(_UNITS_S)})?")
_PYTHON_GONE = ("Python worker exited unexpectedly", "Python worker failed to connect back", "java.io.EOFException")


# executors -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor JVM.

    Attributes:
        id: Spark's number of it within an application.
        app: the application's id.
        process: the JVM.
        worker: number of the worker that started it.
    """

    id: str
    app: str
    process: psutil.Process
    worker: int = 0

    def lives(self) -> bool:
        return processes.lives(self.process)

    def daemons(self) -> list[psutil.Process]:
        """Its ``pyspark.daemon``; none before the first Python task."""
        return [child for child in _children(self.process) if "python" in child.name()]

    def python_workers(self) -> list[psutil.Process]:
        """The Python workers below its daemon, in a task or waiting for one."""
        return [worker for daemon in self.daemons() for worker in _children(daemon)]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children() if processes.lives(child)]
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
    """Return the executor that a process is, or None.

    Args:
        worker: number of the worker that started it.
    """
    try:
        command = process.cmdline()
    except psutil.Error:
        return None
    if _BACKEND not in command:
        return None
    return Executor(command[command.index("--executor-id") + 1], command[command.index("--app-id") + 1], process, worker)


# the cluster -----------------------------------------------------------------------------------------------------------


class SparkCluster(Protocol):
    """A Spark cluster for a run: our own (`Spark`), or one that exists already (`chaos.external.discovery`).

    Faults of the master and of workers need our own; otherwise they are refused when the scenario is read.
    """

    @property
    def worker_ids(self) -> tuple[int, ...]:
        """Numbers of our workers."""
        ...

    @property
    def master(self) -> str:
        """The URL that a driver connects to."""
        ...

    @property
    def driver_host(self) -> str:
        """The address that a driver binds to, and that executors connect back to."""
        ...

    @property
    def java_options(self) -> str:
        """Options of the JVMs of drivers and executors."""
        ...

    @property
    def class_path(self) -> str:
        """The first part of the class path of drivers and executors, with the Kafka connector."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Further settings of an application."""
        ...

    @property
    def master_process(self) -> Process:
        """The master's process; raises LookupError if it is not ours."""
        ...

    @property
    def workers(self) -> dict[int, Process]:
        """Our workers, by number; none until `start` was called."""
        ...

    def start(self) -> None:
        """Start our processes."""
        ...

    def started(self) -> bool:
        """Whether `start` was called, or there is nothing of ours to start."""
        ...

    def wait_until_ready(self) -> None: ...

    def unhealthy(self) -> list[str]:
        """Current problems, in words."""
        ...

    def registered(self) -> int:
        """Number of workers that the master considers alive; 0 if the cluster is not ours."""
        ...

    def applications(self) -> list[str]:
        """Ids of the applications that the master considers running."""
        ...

    def forget(self) -> None:
        """Remove the recovery files of the master, which must not run."""
        ...

    def executors(self) -> list[Executor]:
        """Executors that run on this machine now, ordered by application and id."""
        ...


class Spark:
    """A master and workers of our own, with two cores each."""

    def __init__(
        self, runtime: Runtime, parts: Parts, addresses: Addresses, folder: Path, workers: int, memory: str = "1g"
    ) -> None:
        """Plan them.

        Args:
            workers: number of workers.
            memory: what the executors of one worker may take.
        """
        self.worker_ids = tuple(range(1, workers + 1))
        self.addresses = addresses
        self._runtime = runtime
        self._parts = parts
        self._folder = folder
        self._memory = memory
        self._daemons: dict[str, Process] = {}

    @property
    def master(self) -> str:
        host, port = self.addresses.master
        return f"spark://{host}:{port}"

    @property
    def java_options(self) -> str:
        """Options of the JVMs of drivers and executors: they favour a quick start over speed in the long run."""
        return " ".join((*class_archives.options(self._parts.spark.archive), f"-Djava.io.tmpdir={self._scratch}"))

    @property
    def class_path(self) -> str:
        return class_archives.extra_class_path(self._parts.spark.home, self._parts.spark.connector)

    @property
    def driver_host(self) -> str:
        return self.addresses.driver

    @property
    def options(self) -> Mapping[str, str]:
        return {}

    @property
    def _scratch(self) -> Path:
        """Folder for the temporary files of executors and daemons, which are found there even after a kill."""
        return self._folder / "tmp"

    @property
    def _recovery(self) -> Path:
        """Folder of the state that a restarted master reads: workers and applications."""
        return self._folder / "recovery"

    @property
    def master_process(self) -> Process:
        return self._daemons[_MASTER]

    @property
    def workers(self) -> dict[int, Process]:
        started = ((number, self._daemons.get(f"worker-{number}")) for number in self.worker_ids)
        return {number: process for number, process in started if process is not None}

    def start(self) -> None:
        """Start the master and, when it answers, the workers; `wait_until_ready` returns when they are registered."""
        host, port = self.addresses.master
        _, page = self.addresses.master_page
        main = ("org.apache.spark.deploy.master.Master", "--host", host, "--port", str(port), "--webui-port", str(page))
        quiet = ("-Dspark.master.rest.enabled=false",)  # nobody submits by REST, and port 6066 stays free for others
        # unless `forget` is called, a restarted master knows its applications, as with ZooKeeper in production
        recovery = ("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={self._recovery}")
        self._recovery.mkdir(parents=True, exist_ok=True)
        self._start(_MASTER, host, main, (*recovery, *quiet))
        clock.wait_until(
            self._state, within_s=60, reason="Spark's master to answer", every_s=0.1, ignore=(requests.RequestException,)
        )
        for number in self.worker_ids:
            self._start_worker(number)

    def started(self) -> bool:
        return bool(self._daemons)

    def wait_until_ready(self) -> None:
        clock.wait_until(
            lambda: not self.unhealthy(), within_s=60, reason="Spark's workers to register", every_s=0.1, seen=self.unhealthy
        )

    def unhealthy(self) -> list[str]:
        dead = [f"Spark's {name} does not run" for name, process in self._daemons.items() if not process.alive()]
        if dead or not self.started():
            return dead
        try:
            state, alive = self._state(), self.registered()
        except requests.RequestException as error:
            return [f"Spark's master does not answer: {error}"]
        if state["status"] != "ALIVE":
            return [f"Spark's master is {state['status']}"]
        return [] if alive == len(self.worker_ids) else [f"{alive} of {len(self.worker_ids)} Spark workers are registered"]

    def registered(self) -> int:
        """Number of workers that the master considers alive.

        Raises:
            requests.RequestException: it does not answer.
        """
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def applications(self) -> list[str]:
        """Ids of the applications that the master considers running.

        Raises:
            requests.RequestException: it does not answer.
        """
        return [app["id"] for app in self._state()["activeapps"]]

    def forget(self) -> None:
        for path in self._recovery.iterdir():
            path.unlink()

    def executors(self) -> list[Executor]:
        """Executors in the process trees of the workers."""
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
        options = ("--host", host, "--webui-port", "8081", "--cores", "2", "--memory", self._memory)
        work = self._folder / f"worker-{number}"
        main = ("org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(work), self.master)
        self._start(f"worker-{number}", host, main)

    def _start(self, name: str, host: str, main: tuple[str, ...], options: tuple[str, ...] = ()) -> None:
        jars = class_archives.spark_class_path(self._parts.spark.home, self._parts.spark.connector)
        opened = (f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED)
        argv = (
            str(self._parts.java),
            "-Xmx256m",
            *class_archives.options(self._parts.spark.archive),
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
            "SPARK_HOME": str(self._parts.spark.home),
            "SPARK_LOCAL_IP": host,
            "SPARK_SCALA_VERSION": self._parts.spark.scala,
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(self._parts.java.parent.parent),
        }
        spec = ProcessSpec(name, argv, self._folder / name, self._folder / f"{name}.log", env, hosts=(host,))
        process = self._runtime.start(spec)
        if not process.alive():
            raise RuntimeUnavailableError(f"Spark's {name} ended at once; see {process.spec.log}")
        self._daemons[name] = process


# an application --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """The driver's state of one executor.

    Attributes:
        active: False once the driver has removed it.
        active_tasks: number of tasks that run there now.
    """

    id: str
    active: bool
    active_tasks: int


@dataclass(frozen=True, slots=True)
class SparkApp:
    """A running application, read through its driver's REST API (``/api/v1``, monitoring.html).

    Every request raises ``requests.RequestException`` when the driver does not answer.

    Attributes:
        id: e.g. ``app-20260101120000-0003``.
        url: the driver's web page.
    """

    id: str
    url: str

    def executors(self) -> Mapping[str, ExecutorState]:
        """Every executor that this application ever had, by id; the driver itself is left out."""
        return {state.id: state for state in map(_state, self._ask("allexecutors")) if state.id != "driver"}

    def all_tasks_started(self) -> bool:
        """Whether stages run and none of their tasks waits for an executor."""
        stages = self._ask("stages?status=active")
        return bool(stages) and all(_started(stage) >= stage["numTasks"] for stage in stages)

    def lost_tasks(self, executors: Collection[str]) -> int:
        """Number of tasks that failed because one of these executors died (``ExecutorLostFailure``).

        An executor's own count of failed tasks lacks them when its removal is noticed first (``AppStatusListener``).
        """
        return sum(error.startswith(_LOST) for error in self._errors(executors))

    def failed_in_python(self, executors: Collection[str]) -> int:
        """Number of tasks that failed in these executors because their Python worker was gone (``BasePythonRunner``)."""
        return sum(any(sign in error for sign in _PYTHON_GONE) for error in self._errors(executors))

    def speculates(self) -> bool:
        """Whether slow tasks get a copy (``spark.speculation``)."""
        return self._settings().get("spark.speculation") == "true"

    def gives_up_after_s(self) -> float:
        """Longest silence of an executor before the driver removes it, in seconds (``HeartbeatReceiver``).

        The driver checks at intervals, so the removal may come up to one interval after the timeout.
        """
        settings = self._settings()
        own_timeout = settings.get("spark.storage.blockManagerHeartbeatTimeoutMs")
        timeout_s = _seconds(own_timeout, "ms") if own_timeout else _seconds(settings.get("spark.network.timeout", "120s"), "s")
        return timeout_s + _seconds(settings.get("spark.network.timeoutInterval", "60s"), "ms")

    def speculative_tasks(self) -> int:
        """Number of started copies of slow tasks."""
        return sum(task["speculative"] for task in self._tasks("stages?details=true"))

    def _settings(self) -> Mapping[str, str]:
        """Explicit settings; the others have their defaults."""
        return dict(self._ask("environment")["sparkProperties"])

    def _errors(self, executors: Collection[str]) -> list[str]:
        failed = self._tasks("stages?details=true&taskStatus=failed")
        return [task.get("errorMessage", "") for task in failed if task["executorId"] in executors]

    def _tasks(self, path: str) -> list[Mapping[str, Any]]:
        return [task for stage in self._ask(path) for task in (stage.get("tasks") or {}).values()]

    def _ask(self, path: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/applications/{self.id}/{path}", timeout=_ASK_DRIVER_S)
        answer.raise_for_status()
        return answer.json()


def submitted(spark: SparkCluster) -> SparkApp:
    """Find the application that was submitted last, among the drivers at the address for drivers.

    Each driver's page is at one of the ports that a driver may take, and has the id of its application. The master is no
    source: one that was started without its state does not know an application that works on, and not every cluster has one.

    Raises:
        LookupError: no driver's page answers.
    """
    found = dict[str, str]()
    for port in range(DRIVER_PORT, DRIVER_PORT + _DRIVERS):
        page = f"http://{spark.driver_host}:{port}"
        with suppress(requests.RequestException):
            answer = requests.get(f"{page}/api/v1/applications", timeout=_ASK_DRIVER_S)
            answer.raise_for_status()
            found |= {app["id"]: page for app in answer.json() if app["id"]}  # no id before it is registered
    if not found:
        raise LookupError(f"no Spark driver answers at {spark.driver_host}")
    last = max(found)
    return SparkApp(last, found[last])


def _seconds(text: str, unit: str) -> float:
    """Parse a time like Spark (``JavaUtils.timeStringAs``).

    Args:
        unit: the unit of a text without one.

    Raises:
        ValueError: it is not a time.
    """
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a time in Spark's form")
    number, own_unit = found.groups()
    return int(number) * _UNITS_S[own_unit or unit]


def _started(stage: Mapping[str, Any]) -> int:
    return int(stage["numActiveTasks"] + stage["numCompleteTasks"])


def _state(executor: Mapping[str, Any]) -> ExecutorState:
    return ExecutorState(executor["id"], executor["isActive"], executor["activeTasks"])
