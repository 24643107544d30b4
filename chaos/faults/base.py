"""The parts of a fault: one class declares it, lists its needs, and resolves its target into an injection.

::

    declared in scenarios.yaml ─▶ FaultBase ──prepare──▶ Injection
                                                            inject    puts it in force; the moment may last milliseconds
                                                            complete  does the slow rest, once a held request was let go
                                                            proof     checks whether it was effective, and changes nothing
                                                            heal      undoes it, also after half an injection

A fault and its injection are two classes side by side in one module. To add a fault, see docs/adding-a-fault.md.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, ClassVar, Protocol, Self, get_args

from confluent_kafka import KafkaException
from pydantic import Field, model_validator

from chaos.cluster.rules import Interception
from chaos.cluster.spark import SparkApp
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import ChaosError, DeadlineError
from chaos.grammar.base import Declared, FaultName, WrongValueError
from chaos.grammar.targets import Broker, BrokerTarget, LinkPattern, Links, Role
from chaos.grammar.triggers import Api, When
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_STEPS_END_WITHIN_S = 60.0
_NOT_YET = (KafkaException, LookupError, OSError)  # a broker is down, or has no such role now


class HeldRequest(Protocol):
    """A request or response that a trigger holds on the wire."""

    @property
    def name(self) -> str:
        """The name of the rule that holds it."""

    def interception(self) -> Interception | None:
        """The facts about it; None while nothing is held."""

    def let_go(self, how: str) -> None:
        """``deliver`` it, ``drop`` it, or ``close`` its connection."""


class PipelineUnderTest(Protocol):
    """The pipeline under test, as a fault sees it."""

    def crash(self) -> Mapping[str, int]:
        """Send SIGKILL to all of its processes; return name -> pid of those that were killed."""

    def running(self, command: str) -> Mapping[str, int]:
        """Name -> pid of its processes whose command line contains a text."""

    def terminate(self) -> Mapping[str, int]:
        """Send SIGTERM to it; return name -> pid of its running processes, empty if it has ended already."""

    def has_ended(self) -> bool:
        """Whether its process has ended."""

    def resisted(self) -> str:
        """Evidence that it did not end by itself after `terminate`, and was killed; "" without any."""

    def restart(self) -> None:
        """Start it again, and return when it runs."""

    def pause(self) -> Mapping[str, int]:
        """Send SIGSTOP to all of its processes; return name -> pid of those that are stopped."""

    def resume(self) -> None:
        """Send SIGCONT to all of its processes."""

    @property
    def instances(self) -> int:
        """Number of its working instances."""

    def scale(self, to: int) -> Mapping[str, int]:
        """Start or end as many instances as needed, and return at once, with name -> pid of each of them."""

    def wait_until_scaled(self) -> None:
        """Return when all started instances run, and all instances to be ended have ended."""

    def take_over(self) -> None:
        """Start a second instance beside the paused one, and return when it runs; from now on it is the pipeline."""

    def fenced(self) -> Mapping[str, str]:
        """The instance that was fenced since the first one was resumed, and its report of that; empty if none was."""

    def zombie_ended(self) -> str:
        """The end of the first instance, beside a second one, in words; "" while it lives."""


class ServiceUnderTest(Protocol):
    """A service that the run has started, as a fault sees it."""

    def crash(self) -> Mapping[str, int]:
        """Send SIGKILL to all of its processes; return name -> pid of those that were killed."""

    def refuses(self) -> bool:
        """Whether nothing listens at its address, past its links."""

    def restart(self) -> None:
        """Start it again, and return when it listens."""


def _no_service(name: str) -> ServiceUnderTest:
    raise LookupError(f"this run has started no service {name}")


def _lacking(message: str) -> Callable[[], Any]:
    def ask() -> Any:
        raise LookupError(message)

    return ask


_NO_APPLICATION = _lacking("this pipeline does not run on Spark: there is no executor to crash")
_NO_PIPELINE = _lacking("this scenario has no pipeline to crash")
_NO_POSITIONS = _lacking("this scenario has no pipeline, so there are no positions")


@dataclass(frozen=True, slots=True)
class FaultContext:
    """The targets of faults: the system, and the names that belong to this run.

    Attributes:
        topics: names in the file -> the run's topics.
        source: the topic that the loader fills, and sink: the one that the pipeline writes; both by their names in the run.
        transactional_ids: those of the pipeline, by source partition; empty when none are declared.
        spark_app: the pipeline's application; raises LookupError when it does not run on Spark.
        client: the client group of the program under test: ``spark``, ``app`` or ``loader``.
        group: consumer group of the pipeline, "" when it has none.
        pipeline: the pipeline to crash; raises LookupError when there is none.
        readable: the read_committed end of the pipeline's output, over all partitions; 0 when it cannot be read now.
        held: the request that this fault's trigger holds, or the trigger of the fault it follows.
        checkpoint: the checkpoint of the pipeline's query; None when it does not run on Spark.
        positions: source partition -> committed position of the pipeline, exclusive; raises KafkaException while its
            coordinator does not answer.
        timeouts: name -> seconds of silence after which somebody gives up on the pipeline; known ones only.
        service: a service that the run has started, by its name; raises LookupError when there is none.
    """

    system: System
    topics: Mapping[str, str]
    transactional_ids: tuple[str, ...] = ()
    spark_app: Callable[[], SparkApp] = _NO_APPLICATION
    client: str = "spark"
    group: str = ""
    pipeline: Callable[[], PipelineUnderTest] = _NO_PIPELINE
    readable: Callable[[], int] = lambda: 0
    held: HeldRequest | None = None
    checkpoint: Path | None = None
    positions: Callable[[], Mapping[int, int]] = _NO_POSITIONS
    timeouts: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    sink: str = ""
    service: Callable[[str], ServiceUnderTest] = _no_service


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault was effective, and the facts that show it.

    Attributes:
        effective: False makes the run UNKNOWN: it proved nothing.
        facts: JSON values only.
    """

    effective: bool
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Injection:
    """One fault with its target resolved.

    Attributes:
        target: in words, e.g. ``broker-2 (leader(orders, 0))``.
        hold_s: seconds that it stays in force before it is healed.
    """

    target: str
    hold_s: float

    def inject(self) -> None:
        """Put it in force.

        Raises:
            ChaosError: it failed; the injection is healed then, as after half of it.
        """
        raise NotImplementedError

    def complete(self) -> None:
        """Do the steps that take time, or need the held request to be let go; most faults have nothing to do here.

        Raises:
            ChaosError: it failed: the fault is not effective.
        """

    def proof(self) -> Proof:
        """Check whether it was effective, for as long as it is in force; an ineffective fault raises no error."""
        raise NotImplementedError

    def heal(self) -> Mapping[str, Any] | None:
        """Undo whatever part of it is in force, and return facts about that, if there are any. Idempotent.

        ``effective: False`` among the facts, with the reason as ``problem``, means that only the end of the fault has shown
        that it had no effect, e.g. by the answer to a held request.

        By default it does nothing: a lost request, or a process that Spark replaces, leaves nothing to undo.

        Raises:
            ChaosError: the system does not come back.
        """
        return None


def prove(injection: Injection) -> Proof:
    """Complete an injection and return its proof; one that cannot be completed was not effective."""
    try:
        injection.complete()
    except ChaosError as error:
        return Proof(effective=False, facts={"problem": str(error)})
    return injection.proof()


def already_down(names: Sequence[str]) -> str:
    """Word the refusal of a fault of processes: the traces of an ended process would prove a fault without effect."""
    are = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {are} down already, perhaps by another fault: a fault cannot strike a process that has ended"


def unmet(
    condition: Callable[[], object],
    within_s: float,
    reason: str,
    *,
    every_s: float = 0.05,
    ignore: tuple[type[Exception], ...] = (),
    seen: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Wait like `clock.wait_until`, and return the problem, as a fact of a proof; empty when the condition is met in time."""
    try:
        clock.wait_until(condition, within_s=within_s, reason=reason, every_s=every_s, ignore=ignore, seen=seen)
    except DeadlineError as error:
        return {"problem": str(error)}
    return {}


class FaultBase(Declared):
    """The base of all faults. `chaos faults` prints the first paragraph of a fault's docstring, `provokes` and `proved_by`.

    In Python a fault is its class with the keys of YAML: ``KillBroker(target="leader(orders, 0)")``. The class gives `kind`, no
    `when` means at once, and ``for``, which Python reserves, is written ``for_``.
    """

    needs: ClassVar[frozenset[Capability]]
    """capabilities that the system and the pipeline must have; without one of them, the declaration is refused."""
    without: ClassVar[str] = ""
    """a substitute on a system that lacks a capability, named in the refusal."""
    provokes: ClassVar[str] = ""
    """its purpose: the behaviour of Kafka or Spark that it provokes, with its source."""
    proved_by: ClassVar[str] = ""
    """the content of its proof."""
    settles_request: ClassVar[bool] = False
    """whether the fault itself decides the fate of the request that its trigger holds."""
    outlives_client: ClassVar[bool] = False
    """whether that request is delivered although its client has gone."""
    kind: str
    """which fault it is."""
    name: FaultName = ""
    """its name in reports and for other faults; the default is its kind with a number, e.g. ``kill_broker-1``."""
    when: When
    """the moment of its injection."""

    @model_validator(mode="before")
    @classmethod
    def _of_python(cls, keys: Any) -> Any:
        """Fill in the keys that Python may leave out. YAML always has the kind, for it chooses the class."""
        kinds = get_args(cls.model_fields["kind"].annotation)
        if not isinstance(keys, Mapping) or "kind" in keys or not kinds:
            return keys
        words = {"for" if key == "for_" else key: value for key, value in keys.items()}
        return {"kind": kinds[0], "when": {"after": "0s"}, **words}

    def describe(self) -> str:
        """The fault in words, without its trigger; a fault with keys of its own overrides this."""
        return f"{self.kind} {self.aim}".rstrip() + self.ending

    def approach(self, context: FaultContext) -> None:
        """Do preparations before the trigger that are too slow for the moment of injection."""

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        """Resolve the target; nothing is broken yet.

        Raises:
            ChaosError: the target does not exist now.
        """
        raise NotImplementedError

    @property
    def aim(self) -> str:
        """Its target as declared, "" for a fault without one."""
        return str(getattr(self, "target", getattr(self, "link", "")))

    @property
    def ending(self) -> str:
        """The end of `describe`: its duration, or its sequel."""
        return ""

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        """The brokers that it names."""
        target = getattr(self, "target", None)
        return [target] if isinstance(target, BrokerTarget) else []

    @property
    def down_s(self) -> float:
        """Seconds that its brokers are down or silent; 0 for a fault of other things."""
        return 0.0

    @property
    def holds_request_s(self) -> float:
        """Seconds that it holds the request of its trigger by itself."""
        return 0.0


class TimedFault(FaultBase):
    """A fault for a declared time."""

    for_s: SomeSeconds = Field(alias="for")
    """how long it is in force."""

    @property
    def lasts(self) -> str:
        """Its duration in words."""
        return f"for {spoken_seconds(self.for_s)}"

    @property
    def ending(self) -> str:
        return f" {self.lasts}"


class LastingFault(TimedFault):
    """A fault for a declared time, or until another fault of the scenario was proved, if that comes first."""

    until: FaultName | None = None
    """it ends early, when this fault of the scenario is proved."""

    @property
    def lasts(self) -> str:
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class RestartedFault(FaultBase):
    """A fault whose processes end, and are started again at the heal."""

    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)
    """how long its processes are gone before they are started again."""

    @property
    def restarted(self) -> str:
        """The time of the restart, in words."""
        return f"restarted after {spoken_seconds(self.restart_after_s)}"

    @property
    def ending(self) -> str:
        return f", {self.restarted}"


class BrokerFault(FaultBase):
    """A fault of brokers."""

    roles: ClassVar[tuple[Role, ...]] = ()
    """possible targets; empty for all."""
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.BROKER_PROCESSES})
    target: Broker
    """which brokers."""

    @model_validator(mode="after")
    def _has_a_role(self) -> Self:
        if self.roles and self.target.role not in self.roles:
            raise WrongValueError(
                "wrong-role", f"{self.kind} cannot have the target {self.target}; write target: {' or '.join(self.roles)}"
            )
        return self


class RestartedBrokerFault(RestartedFault, BrokerFault):
    """A fault whose brokers end, and are started again at the heal."""

    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def down_s(self) -> float:
        return self.restart_after_s


class LinkFault(LastingFault):
    """A fault of links."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LINKS})
    link: Links
    """which links."""

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        """The brokers at the ends of its links."""
        return ends_of(self.link)


class RequestsFault(LinkFault):
    """A fault of all requests of one kind on some links, from its injection on."""

    request: Api
    """which kind of requests."""


def ends_of(link: LinkPattern) -> list[BrokerTarget]:
    """The broker targets at the ends of a link."""
    return [end for end in (link.left, link.right) if isinstance(end, BrokerTarget)]


@dataclass(slots=True)
class BackgroundSteps:
    """The steps of a fault in a thread of their own, from `begin` until they are done or the fault is healed.

    Attributes:
        steps: the function to run; it returns soon after its flag was set.
    """

    steps: Callable[[Event], None]
    _stop: Event = field(default_factory=Event)
    _running: Future[None] | None = None

    def begin(self) -> None:
        """Start the thread; to be called once."""
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="background-steps")
        self._running = pool.submit(self.steps, self._stop)
        pool.shutdown(wait=False)

    def done(self) -> bool:
        """Whether all steps are done.

        Raises:
            Exception: the error of a step.
        """
        if self._running is None or not self._running.done():
            return False
        self._running.result()
        return True

    def unfinished(self, within_s: float) -> dict[str, Any]:
        """Wait until all steps are done, and return the problem, as a fact of a proof; empty when they are done in time.

        Raises:
            Exception: the error of a step, unless it was the end of a wait.
        """
        if self._running is None or wait([self._running], within_s).not_done:
            return {"problem": f"the steps of this fault were not done after {within_s:g} s"}
        try:
            self._running.result()
        except DeadlineError as error:
            return {"problem": str(error)}
        return {}

    def end(self) -> None:
        """Stop the steps, and return when the thread has ended. Idempotent, also before `begin`.

        Raises:
            DeadlineError: the thread does not end.
        """
        self._stop.set()
        if self._running is not None and wait([self._running], _STEPS_END_WITHIN_S).not_done:
            raise DeadlineError(f"waited {_STEPS_END_WITHIN_S:g} s for the background steps of a fault to end")


def wait_unless_stopped(condition: Callable[[], object], stop: Event, within_s: float, reason: str) -> bool:
    """Wait for a condition between two background steps; False if `stop` was set. Errors of a down broker mean "not yet".

    Raises:
        DeadlineError: the condition was not met in time.
    """
    clock.wait_until(lambda: stop.is_set() or condition(), within_s=within_s, reason=reason, every_s=0.1, ignore=_NOT_YET)
    return not stop.is_set()
