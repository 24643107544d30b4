"""The processes of a run: the loaders, each of which fills a topic, and the pipeline under test.

Both report their actions as JSON lines on their standard output, as any Spark application might log its progress. These lines
are copied to the history, and a pipeline needs nothing else.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.system import Service
from chaos.common import clock
from chaos.common.errors import InconclusiveError, ProcessEndedError
from chaos.common.events import PIPELINE, ProcessReport
from chaos.common.history import History
from chaos.contract.base import Command
from chaos.contract.placeholders import substituted
from chaos.engine.error_lines import last_errors
from chaos.engine.instances import Instance, spec_of
from chaos.judging.statements import STARTED_AGAIN
from chaos.runtime.base import Process, Runtime

_SERVES_WITHIN_S = 60.0
_STARTED_WITHIN_S = 180.0
_STOPS_WITHIN_S = 12.0  # its supervisor waits five seconds for its copies, and five for what they leave behind
_ERRORS_AT_MOST = 3


class ManagedProcess:
    """One process of a run and its messages; a second instance of it may take over, and others may work beside it."""

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        name: str,
        command: Command,
        folder: Path,
        instance: Callable[[int], Command] | None = None,
    ) -> None:
        """Start the process; its log is ``<folder>/logs/<name>.log``.

        Args:
            instance: makes the command of another instance from its number; None if there can be no other.
        """
        self.name = name
        self._history = history
        self._folder = folder
        self._log = folder / "logs" / f"{name}.log"
        self._spec = spec_of(name, command, folder)
        self._has_begun = command.has_begun
        self._begins_by = command.begins_by
        self._down = False
        self._killed_before: list[tuple[Instance, ProcessReport | None]] = []
        self._zombie: Instance | None = None
        self._start = partial(Instance, runtime, has_events=command.has_events)
        self._command_of = instance
        self._others: list[Instance] = []
        self._leaving: list[Instance] = []
        self._instance = self._start(self._spec)

    @property
    def process(self) -> Process:
        """The working instance: after `take_over` the second one, unless the first has fenced it and it ended."""
        return self._instance.process

    def listen(self) -> list[Mapping[str, Any]]:
        """Return the messages since the last call, and write them to the history as well."""
        messages = list(self._instance.new_messages())
        self._record(self.name, messages)
        if self._zombie:
            self._record(f"{self.name}-zombie", self._zombie.new_messages())
        for other in (*self._others, *self._leaving):
            self._record(other.name, other.new_messages())
        return messages

    def must_live(self) -> None:
        """Raise unless the process runs, or was killed by a fault that has not been healed yet.

        Raises:
            InconclusiveError: it has ended; its unfinished work proves nothing about the faults.
        """
        self.listen()
        self._fall_back()
        if not self._down and not self.process.alive():
            raise ProcessEndedError(self.name, self.how_it_ended("in the middle of the run"))
        for other in self._others:
            if not self._down and not other.process.alive():
                raise InconclusiveError(f"{other.name} ended with {other.how_it_ended('in the middle of the run')}")

    def how_it_ended(self, when: str) -> str:
        """Word its exit code, its error if its log has one, and the last line of the log."""
        return f"the {self.name} ended with {self._instance.how_it_ended(when)}"

    def last_errors(self) -> str:
        """Word the last lines of its log that look like errors; "" if none does. It may have gone on after them."""
        errors = last_errors(self.process.spec.log, _ERRORS_AT_MOST)
        return f"the last errors in logs/{self.process.spec.log.name}: {' | '.join(errors)}" if errors else ""

    def wait_until_started(self) -> None:
        """Return when the process has reported that it started, and its program works.

        Raises:
            InconclusiveError: the process ended first.
            DeadlineError: it did not start in time.
        """
        self._wait_until_started(before=None)

    def crash(self) -> Mapping[str, int]:
        """Send SIGKILL to the whole process tree; return name -> pid of the killed. Until `restart` it may be dead."""
        self._down = True
        return {name: pid for one in self._working() for name, pid in one.process.kill_tree().items()}

    def running(self, command: str) -> Mapping[str, int]:
        """Return name -> pid of its processes whose command line contains a text."""
        return {name: pid for one in self._working() for name, pid in one.process.running(command).items()}

    def terminate(self) -> Mapping[str, int]:
        """Send SIGTERM to its supervisor, which passes it on, and return at once. Until `restart` it may be gone."""
        self._down = True
        self._killed_before = [(one, self._last_report(one, "killed")) for one in self._working()]
        return {name: pid for one in self._working() for name, pid in one.terminate().items()}

    def has_ended(self) -> bool:
        """Whether all working instances have ended."""
        return not any(one.process.alive() for one in self._working())

    def resisted(self) -> str:
        """Return its supervisor's report of copies that did not end after `terminate`, and were killed; "" without one."""
        self.listen()
        for one, before in self._killed_before:
            killed = self._last_report(one, "killed")
            if killed is not None and killed is not before:
                return f"its supervisor had to kill {', '.join(f'copy {number}' for number in killed.content['copies'])}"
        return ""

    def restart(self) -> None:
        """Start the process again unless it runs, and return when it has reported that it started, and works."""
        before = {one.name: self._last_report(one, "started") for one in self._working()}
        for one in self.start_again():
            self._wait_until_started(before[one.name], one)

    def start_again(self) -> list[Instance]:
        """Start the instances that do not run, and return them at once."""
        ended = [one for one in self._working() if not one.process.alive()]
        for one in ended:
            with one.process.spec.log.open("ab") as log:  # a killed process may have left half a line
                log.write(b"\n" + STARTED_AGAIN)
            one.process.start()
        self._down = False
        return ended

    def pause(self) -> Mapping[str, int]:
        """Send SIGSTOP to the whole process tree; return name -> pid of the stopped."""
        return {name: pid for one in self._working() for name, pid in one.process.pause_tree().items()}

    def resume(self) -> None:
        """Send SIGCONT; if a second instance has taken over, to the first one, the zombie."""
        if self._zombie:
            self._instance.contest()
            self._zombie.contest()
        (self._zombie or self._instance).process.resume_tree()
        for other in self._others:
            other.process.resume_tree()

    @property
    def instances(self) -> int:
        """Number of working instances."""
        return 1 + len(self._others)

    def scale(self, to: int) -> Mapping[str, int]:
        """Start or end as many instances as needed, the newest first; return at once, with name -> pid of each of them.

        Raises:
            LookupError: it can have no other instance.
        """
        if self._command_of is None:
            raise LookupError(f"the {self.name} can have only one instance")
        changed = dict[str, int]()
        while self.instances > to:
            self._leaving.append(self._others.pop())
            changed |= self._leaving[-1].terminate()
        while self.instances < to:
            name = f"{self.name}-instance-{self.instances + 1}"
            other = self._start(spec_of(name, self._command_of(self.instances + 1), self._folder))
            self._others.append(other)
            changed[name] = other.process.pid
        return changed

    def wait_until_scaled(self) -> None:
        """Return when all instances have reported that they started, and those with SIGTERM have ended.

        Raises:
            DeadlineError: one has not.
        """
        for other in self._others:
            self._wait_until_started(None, other)
        clock.wait_until(
            lambda: not any(one.process.alive() for one in self._leaving),
            within_s=_STARTED_WITHIN_S,
            reason=f"instances of the {self.name} to end",
        )

    def _working(self) -> list[Instance]:
        """Return the working instance, and those beside it."""
        return [self._instance, *self._others]

    def _last_report(self, instance: Instance, event: str) -> ProcessReport | None:
        return self._history.last_report(self.name if instance is self._instance else instance.name, event)

    @property
    def _beside(self) -> list[Instance]:
        """Return all other instances that may still run."""
        return [*([self._zombie] if self._zombie else []), *self._leaving, *self._others]

    def take_over(self) -> None:
        """Start a second instance, with its own log, and return when it has reported that it started, and works."""
        before = self._last_report(self._instance, "started")
        self._zombie = self._instance
        self._log = self._log.with_stem(f"{self._log.stem}-2")
        self._instance = self._start(replace(self._spec, name=self._log.stem, log=self._log))
        self._wait_until_started(before)

    def fenced(self) -> Mapping[str, str]:
        """Return the instance that was fenced since the first one was resumed, and its report of that; empty if none was.

        A process that is merely gone was not fenced: it may have run out of memory. The zombie may fence the second one, too: a
        client that makes a new producer after its long pause takes its transactional.id back (``init_transactions``). If the
        second one ended for that, the first one is the pipeline again.
        """
        self.listen()
        self._fall_back()
        said = self._zombie.fenced() if self._zombie else ""
        return {self._zombie.name: said} if self._zombie and said else {}

    def zombie_ended(self) -> str:
        """Word the end of the zombie; "" while it lives, and when there is none."""
        if self._zombie is None or self._zombie.process.alive():
            return ""
        return f"it ended with {self._zombie.how_it_ended('after it woke up')}"

    def stop(self) -> None:
        """End the process, and read its last messages."""
        for one in (*self._beside, self._instance):
            one.process.stop(within_s=_STOPS_WITHIN_S)
        self.listen()

    def kill(self) -> None:
        """Kill the process and everything that it started."""
        for one in (self._instance, *self._beside):
            one.process.kill_tree()

    def _fall_back(self) -> None:
        """Take the first instance for the pipeline again if it has fenced the second one, and that has ended."""
        first, second = self._zombie, self._instance
        if first and first.process.alive() and not second.process.alive() and second.fenced() and not first.fenced():
            self._instance, self._zombie = first, second

    def _wait_until_started(self, before: ProcessReport | None, instance: Instance | None = None) -> None:
        """Wait until the process works, since faults need work under way: a driver's query may begin long after its start."""
        one = instance or self._instance

        def started() -> bool:
            self.must_live()
            return self._last_report(one, "started") is not before and self._has_begun()

        begun = f", and for {self._begins_by}" if self._begins_by else ""
        name, log = f"the {self.name}" if one is self._instance else one.name, one.process.spec.log
        clock.wait_until(started, within_s=_STARTED_WITHIN_S, reason=f"{name} to start{begun}; see {log}")

    def _record(self, process: str, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            content = {key: value for key, value in message.items() if key != "event"}
            self._history.record(ProcessReport(who=process, event=message["event"], content=content))


@dataclass(frozen=True, slots=True)
class StartedService:
    """A server beside Kafka that a run has started.

    Attributes:
        address: its listening address, past its links.
    """

    name: str
    address: Address
    process: ManagedProcess

    def wait_until_it_listens(self) -> None:
        """Return when it listens.

        Raises:
            InconclusiveError: it ended first.
            DeadlineError: it did not listen in time.
        """

        def listens() -> bool:
            self.process.must_live()
            return not self.refuses()

        host, port = self.address
        reason = f"the service {self.name} to listen at {host}:{port}; see logs/{self.process.name}.log"
        clock.wait_until(listens, within_s=_SERVES_WITHIN_S, reason=reason)

    def crash(self) -> Mapping[str, int]:
        """Send SIGKILL to all of its processes; return name -> pid of the killed. Until `restart` it may be dead."""
        return self.process.crash()

    def refuses(self) -> bool:
        """Whether nothing listens at its address."""
        return protocol.refused(self.address)

    def restart(self) -> None:
        """Start it again unless it runs, and return when it listens; errors as in `wait_until_it_listens`."""
        self.process.start_again()
        self.wait_until_it_listens()


@dataclass(slots=True)
class RunProcesses:
    """The pipeline, the loaders and the services of one run, by their names, each from its start on."""

    runtime: Runtime
    history: History
    folder: Path
    pipeline: ManagedProcess | None = None
    loaders: dict[str, ManagedProcess] = field(default_factory=dict)
    services: dict[str, StartedService] = field(default_factory=dict)

    def start_service(self, service: Service) -> None:
        """Start a server beside Kafka, and return when it listens.

        Raises:
            InconclusiveError: it ended first.
            DeadlineError: it did not listen in time.
        """
        host, port = service.address
        known = {"address": f"{host}:{port}", "folder": str(self.folder), "python": sys.executable}
        words = tuple(substituted(word, known) for word in service.run)
        environment = {name: substituted(value, known) for name, value in service.environment.items()}
        process = ManagedProcess(
            self.runtime, self.history, f"service-{service.name}", Command(words, environment, has_events=False), self.folder
        )
        self.services[service.name] = StartedService(service.name, service.address, process)
        self.services[service.name].wait_until_it_listens()

    def service(self, name: str) -> StartedService:
        """Return a started service, to break its processes.

        Raises:
            LookupError: the run has started no service of this name.
        """
        if name not in self.services:
            raise LookupError(f"this run has started no service {name}")
        return self.services[name]

    def start_pipeline(self, command: Command, instance: Callable[[int], Command] | None = None) -> ManagedProcess:
        self.pipeline = ManagedProcess(self.runtime, self.history, PIPELINE, command, self.folder, instance)
        return self.pipeline

    def start_loader(self, command: Command, name: str) -> None:
        self.loaders[name] = ManagedProcess(self.runtime, self.history, name, command, self.folder)

    @property
    def nothing_is_loaded(self) -> bool:
        """Whether no loader works any more; loaders that were never started, for want of a pipeline, count as ended."""
        return not any(one.process.alive() for one in self.loaders.values())

    def crashable(self) -> ManagedProcess:
        """Return the pipeline, to break its process.

        Raises:
            LookupError: no pipeline has been started.
        """
        if self.pipeline is None:
            raise LookupError("this scenario has no pipeline to crash")
        return self.pipeline

    def check(self) -> None:
        """Raise InconclusiveError when the pipeline or a service has ended: both must outlive the faults."""
        for service in self.services.values():
            service.process.must_live()
        if self.pipeline is not None:
            self.pipeline.must_live()

    def error_of_pipeline(self) -> str:
        """Word the last errors in the pipeline's log; "" if there are none, or no pipeline was started."""
        return "" if self.pipeline is None else self.pipeline.last_errors()

    def hear_loaders(self) -> Mapping[str, ManagedProcess]:
        """Read the loaders' last reports: the numbers of refused records, which will not pass.

        Returns:
            The ended loaders, by their names; all their reports have been read.
        """
        ended = {name: loader for name, loader in self.loaders.items() if not loader.process.alive()}
        for name, loader in ended.items():
            if self.history.last_report(name, "loaded") is None:
                loader.listen()
        return ended

    def check_loaders(self) -> None:
        """Raise InconclusiveError when a loader has failed: the rest of the workload will not come."""
        for name, loader in self.hear_loaders().items():
            loaded = self.history.last_report(name, "loaded")
            if loaded is None or loaded.content.get("failed"):
                raise InconclusiveError(loader.how_it_ended("in the middle of the run"))

    def stop(self) -> None:
        """End pipeline and loader. Services stay: one of them may hold the pipeline's table."""
        for process in self._started():
            process.stop()

    def stop_services(self) -> None:
        """Send SIGTERM to the services, and wait for their ends."""
        for service in self.services.values():
            service.process.stop()

    def kill(self) -> None:
        """Kill everything that runs, services too."""
        for process in (*self._started(), *(service.process for service in self.services.values())):
            process.kill()

    def _started(self) -> list[ManagedProcess]:
        return [process for process in (self.pipeline, *self.loaders.values()) if process is not None]
