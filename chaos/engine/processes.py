"""What runs in a scenario: the loader that fills the source, and the pipeline under test, as processes with a voice.

A pipeline says what it does in JSON lines on its standard output, as any Spark application might log its progress; they are
copied to the history, and nothing else is asked of it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.cluster.spark import SparkApp
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.common.history import Event, History
from chaos.runtime.base import Process, ProcessSpec, Runtime
from pipelines.base import Command

_STARTED_WITHIN_S = 90.0


class Instance:
    """One process and what it says."""

    def __init__(self, runtime: Runtime, spec: ProcessSpec) -> None:
        """Start it."""
        self._read_bytes = 0
        self.process: Process = runtime.start(spec)

    def new_messages(self) -> Iterator[Mapping[str, Any]]:
        """What it said since the last time."""
        with self.process.spec.log.open("rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                if line.startswith(b'{"event"'):
                    yield json.loads(line)


class Subject:
    """One process of a run, and what it says; a second instance of it may take over."""

    def __init__(self, runtime: Runtime, history: History, name: str, command: Command, folder: Path) -> None:
        """Start it; its log is ``<folder>/logs/<name>.log``."""
        self.name = name
        self._runtime = runtime
        self._history = history
        self._log = folder / "logs" / f"{name}.log"
        scratch = folder / "tmp"
        scratch.mkdir(exist_ok=True)
        env = {**command.env, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        hosts = (command.env["SPARK_LOCAL_IP"],) if "SPARK_LOCAL_IP" in command.env else ()  # executors connect to a driver
        self._spec = ProcessSpec(name, tuple(command.argv), folder, self._log, env, hosts)
        self._down = False
        self._zombie: Instance | None = None
        self._instance = Instance(runtime, self._spec)

    @property
    def process(self) -> Process:
        """The one that does the work."""
        return self._instance.process

    def listen(self) -> list[Mapping[str, Any]]:
        """What it said since the last time; each message is written to the history as well."""
        said = list(self._instance.new_messages())
        self._record(self.name, said)
        if self._zombie:
            self._record(_zombie_of(self.name), self._zombie.new_messages())
        return said

    def must_live(self) -> None:
        """Raise unless it runs, or was killed by a fault that has not been healed yet.

        Raises:
            InconclusiveError: it has ended; whatever it did not do proves nothing about the faults.
        """
        self.listen()
        if not self._down and not self.process.alive():
            raise InconclusiveError(
                f"the {self.name} ended with {self.process.exit_code()} in the middle of the run; see {self._log}"
            )

    def wait_for(self, event: str) -> None:
        """Return when it has said this.

        Raises:
            InconclusiveError: it ended first.
            DeadlineError: it did not say so in time.
        """
        self._wait_for_new(event, before=None)

    def crash(self) -> Mapping[str, int]:
        """SIGKILL to all of its processes; name -> pid of those that were killed. Until `restart` it may be dead."""
        self._down = True
        return self.process.kill_tree()

    def restart(self) -> None:
        """Start it again, and return when it has said that it started; nothing to do for one that runs."""
        if self.process.alive():
            return
        before = self._history.latest(self.name, "started")
        self.process.start()
        self._down = False
        self._wait_for_new("started", before)

    def pause(self) -> Mapping[str, int]:
        """SIGSTOP to all of its processes; name -> pid of those that are stopped."""
        return self.process.pause_tree()

    def resume(self) -> None:
        """SIGCONT, to the zombie if another instance has taken over."""
        (self._zombie or self._instance).process.resume_tree()

    def take_over(self) -> None:
        """Start a second instance, with a log of its own, and return when it has said that it started."""
        before = self._history.latest(self.name, "started")
        self._zombie = self._instance
        self._log = self._log.with_stem(f"{self._log.stem}-2")
        self._instance = Instance(self._runtime, replace(self._spec, name=f"{self.name}-2", log=self._log))
        self._wait_for_new("started", before)

    def fenced(self) -> bool:
        """Whether the zombie has ended, or said that it was fenced."""
        self.listen()
        said = self._history.latest(_zombie_of(self.name), "fenced")
        return self._zombie is not None and (said is not None or not self._zombie.process.alive())

    def stop(self) -> None:
        """End it, and hear its last words."""
        if self._zombie:
            self._zombie.process.stop(within_s=8)
        self.process.stop(within_s=8)
        self.listen()

    def kill(self) -> None:
        """End it, and whatever it started, at once."""
        for instance in (self._instance, *([self._zombie] if self._zombie else [])):
            instance.process.kill_tree()

    def _wait_for_new(self, event: str, before: Event | None) -> None:
        def said() -> bool:
            self.must_live()
            return self._history.latest(self.name, event) is not before

        clock.wait_until(said, within_s=_STARTED_WITHIN_S, reason=f"the {self.name} to say {event!r}; see {self._log}")

    def _record(self, process: str, said: Iterable[Mapping[str, Any]]) -> None:
        for message in said:
            value = {key: value for key, value in message.items() if key != "event"}
            self._history.record(process, "info", str(message["event"]), **value)


def _zombie_of(name: str) -> str:
    return f"{name}-zombie"


@dataclass(frozen=True, slots=True)
class Driver:
    """The Spark application behind a pipeline, known once it said so."""

    history: History
    name: str

    def __call__(self) -> SparkApp:
        """The application.

        Raises:
            LookupError: it has not started.
        """
        started = self.history.latest(self.name, "started")
        if started is None:
            raise LookupError(f"the {self.name} has not started a Spark application")
        return SparkApp(started.value["app_id"], started.value["ui"])
