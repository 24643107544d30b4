"""What runs in a scenario: the loader that fills the source, and the pipeline under test, as processes with a voice.

A pipeline says what it does in JSON lines on its standard output, as any Spark application might log its progress; they are
copied to the history, and nothing else is asked of it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import clock
from chaos.errors import InconclusiveError
from chaos.history import History
from chaos.runtime.base import Process, ProcessSpec, Runtime
from chaos.system.spark_app import SparkApp
from pipelines.base import Command

_STARTED_WITHIN_S = 90.0


class Subject:
    """One process of a run, and what it says."""

    def __init__(self, runtime: Runtime, history: History, name: str, command: Command, folder: Path) -> None:
        """Start it; its log is ``<folder>/logs/<name>.log``."""
        self.name = name
        self._history = history
        self._log = folder / "logs" / f"{name}.log"
        scratch = folder / "tmp"
        scratch.mkdir(exist_ok=True)
        env = {**command.env, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        spec = ProcessSpec(name, tuple(command.argv), folder, self._log, env)
        self._read_bytes = 0
        self._down = False
        self.restarts = 0
        self.process: Process = runtime.start(spec)

    def listen(self) -> list[Mapping[str, Any]]:
        """What it said since the last time; each message is written to the history as well."""
        said = list(self._new_messages())
        for message in said:
            value = {key: value for key, value in message.items() if key != "event"}
            self._history.record(self.name, "info", str(message["event"]), **value)
        return said

    def must_live(self) -> None:
        """Raise unless it runs.

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

        def said() -> bool:
            self.must_live()
            return self._history.latest(self.name, event) is not None

        clock.wait_until(said, within_s=_STARTED_WITHIN_S, reason=f"the {self.name} to say {event!r}; see {self._log}")

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
        self.restarts += 1
        clock.wait_until(
            lambda: self._says_anew(before),
            within_s=_STARTED_WITHIN_S,
            reason=f"the {self.name} to start again; see {self._log}",
        )

    def _says_anew(self, before: object) -> bool:
        self.must_live()
        return self._history.latest(self.name, "started") is not before

    def stop(self) -> None:
        """End it, and hear its last words."""
        self.process.stop(within_s=8)
        self.listen()

    def _new_messages(self) -> Iterator[Mapping[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                if line.startswith(b'{"event"'):
                    yield json.loads(line)


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
