"""One started process of a run: the new messages in its log, and its end.

A message is a line of JSON. It begins with an event of the process, or with a report of its supervisor
(`chaos.contract.supervisor`); every other line only stays in the log.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from chaos.common.errors import one_line
from chaos.contract.base import Command
from chaos.engine.error_lines import last_errors, last_line
from chaos.runtime.base import Process, ProcessSpec, Runtime

_SUPERVISOR = "supervisor"
# Errors of Kafka's clients, in Java and librdkafka, when a broker has refused an old producer or member (KIP-98, KIP-345).
# FENCED_LEADER_EPOCH is not among them: that is a reader with old metadata.
_FENCED = re.compile(
    r"ProducerFenced|PRODUCER_FENCED|InvalidProducerEpoch|INVALID_PRODUCER_EPOCH|FencedInstanceId|FENCED_INSTANCE_ID|\b_FENCED\b"
)


class Instance:
    """One started process, and the read part of its log."""

    def __init__(self, runtime: Runtime, spec: ProcessSpec, *, has_events: bool) -> None:
        self._read_bytes = 0
        self._words = ("event", _SUPERVISOR) if has_events else (_SUPERVISOR,)
        self._contested_at_bytes: int | None = None
        self.process: Process = runtime.start(spec)

    @property
    def name(self) -> str:
        return self.process.spec.name

    def contest(self) -> None:
        """Let its reports of being fenced count from here on: another instance runs beside it now."""
        if self._contested_at_bytes is None:
            self._contested_at_bytes = self.process.spec.log.stat().st_size

    def fenced(self) -> str:
        """Return its report of being fenced since `contest`, shortened: its event, or the first such error; "" without one."""
        if self._contested_at_bytes is None:
            return ""
        with self.process.spec.log.open("rb") as log:
            log.seek(self._contested_at_bytes)
            return next(filter(None, (self._fencing(line) for line in log)), "")

    def new_messages(self) -> Iterator[Mapping[str, Any]]:
        """Yield the messages in the log since the last call."""
        with self.process.spec.log.open("rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                message = _message(line, self._words)
                if message is not None:
                    yield message

    def terminate(self) -> dict[str, int]:
        """Send SIGTERM to its supervisor; return its name and pid, or nothing if it has ended already."""
        if not self.process.alive():
            return {}
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.process.pid).terminate()
        return {self.name: self.process.pid}

    def how_it_ended(self, when: str) -> str:
        """Word the exit code of a process that has ended, the last line of its log, and its error if that is another line."""
        path = self.process.spec.log
        log, last = f"logs/{path.name}", last_line(path)
        errors = "".join(f"its error, in {log}: {error}; " for error in last_errors(path) if error != last)
        tail = f"the last line of {log}: {last}" if last else f"{log} is empty"
        return f"{self.process.exit_code()} {when}; {errors}{tail}"

    def _fencing(self, line: bytes) -> str:
        """Return a line's report of being fenced; "" without one."""
        said = _message(line, self._words)
        if said and said["event"] == "fenced":
            return str(said.get("why", "fenced"))
        text = line.decode(errors="replace")
        return one_line(text, 300) if _FENCED.search(text) else ""


def _message(line: bytes, words: Iterable[str]) -> dict[str, Any] | None:
    """Parse the message of a line, with its name as ``event``; None if it has none that begins with one of these words.

    A line that begins like a message may still be the user's own: then it only stays in the log.
    """
    word = next((word for word in words if line.startswith(b'{"%s"' % word.encode())), "")
    try:
        message: dict[str, Any] = json.loads(line) if word else {}
    except (ValueError, RecursionError):
        return None
    name = message.pop(word, None)
    return {"event": name, **message} if isinstance(name, str) else None


def spec_of(name: str, command: Command, folder: Path) -> ProcessSpec:
    """Describe the process to start; its log is ``<folder>/logs/<name>.log``."""
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    of_this_machine = {} if command.image else {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    env = {**command.env, **of_this_machine}
    hosts = (command.env["SPARK_LOCAL_IP"],) if "SPARK_LOCAL_IP" in command.env else ()  # executors connect to a driver
    return ProcessSpec(name, tuple(command.argv), folder, folder / "logs" / f"{name}.log", env, hosts, command.image)
