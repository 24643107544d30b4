"""What a fault is made of: one class that declares it, says what it needs, and resolves its target into an injection.

::

    declared in scenarios.yaml ─▶ FaultBase ──prepare──▶ Injection
                                                            inject    put in force; the moment may be milliseconds long
                                                            complete  what takes time, after a held request was let go
                                                            proof     was it effective? asks, and changes nothing
                                                            heal      undone, also after half an injection

A fault and its injection are two classes of one module; a family of faults shares the bases of this one. To add a fault, see
docs/adding-a-fault.md.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, ClassVar, Protocol, Self

from confluent_kafka import KafkaException
from pydantic import Field, model_validator

from chaos.cluster.rules import Trip
from chaos.cluster.spark import SparkApp
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import ChaosError, DeadlineError
from chaos.grammar.base import Declared, FaultName
from chaos.grammar.targets import Broker, BrokerTarget, LinkPattern, Links, Role
from chaos.grammar.triggers import Api, When
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability


class HeldRequest(Protocol):
    """A request or response that a trigger holds on the wire."""

    @property
    def name(self) -> str:
        """Of the rule that holds it."""
        ...

    def trip(self) -> Trip | None:
        """What is known of it; None while nothing is held."""
        ...

    def let_go(self, how: str) -> None:
        """``deliver`` it, ``drop`` it, or ``close`` its connection."""
        ...

    def remove(self) -> None:
        """Take the rule away; what is held is delivered. Idempotent."""
        ...


class PipelineUnderTest(Protocol):
    """The pipeline under test, as a fault sees it."""

    def crash(self) -> Mapping[str, int]:
        """Send SIGKILL to all of its processes; name -> pid of those that were killed."""
        ...

    def restart(self) -> None:
        """Start it again, and return when it runs."""
        ...

    def pause(self) -> Mapping[str, int]:
        """Send SIGSTOP to all of its processes; name -> pid of those that are stopped."""
        ...

    def resume(self) -> None:
        """Send SIGCONT to all of its processes."""
        ...

    def take_over(self) -> None:
        """Start a second instance beside the paused one, and return when it runs; from now on it is the pipeline."""
        ...

    def fenced(self) -> bool:
        """Whether the first instance has ended, or said that it was fenced, after it was resumed."""
        ...


def _no_application() -> SparkApp:
    raise LookupError("this pipeline does not run on Spark: there is no executor to crash")


def _no_pipeline() -> PipelineUnderTest:
    raise LookupError("this scenario has no pipeline to crash")


def _no_positions() -> Mapping[int, int]:
    raise LookupError("this scenario has no pipeline: it has no positions")


@dataclass(frozen=True, slots=True)
class FaultContext:
    """What faults are aimed at: the system, and the names that belong to this run.

    Attributes:
        topics: ``datasource`` and ``datasink`` -> the run's topics.
        transactional_ids: of the pipeline, by source partition; empty when it uses none.
        spark_app: the pipeline's application; raises LookupError when it does not run on Spark.
        client: the client group of what is under test: ``spark``, ``app`` or ``loader``.
        group: consumer group of the pipeline, "" when it has none.
        pipeline: what can be crashed; raises LookupError when there is none.
        readable: the read_committed end of the pipeline's output, over all partitions; 0 when it cannot be had now.
        held: the request that this fault's trigger holds, or that of the fault it follows.
        checkpoint: of the pipeline's query; None when it does not run on Spark.
        positions: where the pipeline is: source partition -> committed position, exclusive; raises KafkaException while its
            coordinator does not answer.
    """

    system: System
    topics: Mapping[str, str]
    transactional_ids: tuple[str, ...] = ()
    spark_app: Callable[[], SparkApp] = _no_application
    client: str = "spark"
    group: str = ""
    pipeline: Callable[[], PipelineUnderTest] = _no_pipeline
    readable: Callable[[], int] = lambda: 0
    held: HeldRequest | None = None
    checkpoint: Path | None = None
    positions: Callable[[], Mapping[int, int]] = _no_positions


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault was effective, and what says so.

    Attributes:
        effective: False makes the run UNKNOWN: it proved nothing.
        facts: the numbers, JSON values only.
    """

    effective: bool
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Injection:
    """One fault with its target resolved.

    Attributes:
        target: in words, e.g. ``broker-2 (leader of datasink-0)``.
        hold_s: how long it stays in force before it is healed.
    """

    target: str
    hold_s: float

    def inject(self) -> None:
        """Put it in force."""
        raise NotImplementedError

    def complete(self) -> None:
        """Do what takes time or needs the held request to be let go; most faults have nothing to do here.

        Raises:
            ChaosError: it cannot be done: the fault is not effective.
        """

    def proof(self) -> Proof:
        """Ask whether it was effective, for as long as it is in force; never raises because it was not."""
        raise NotImplementedError

    def heal(self) -> Mapping[str, Any] | None:
        """Undo whatever part of it is in force, and say what came of it, if there is something to say. Idempotent."""
        raise NotImplementedError


def prove(injection: Injection) -> Proof:
    """Complete an injection and ask for its proof; one that cannot be completed was not effective."""
    try:
        injection.complete()
    except ChaosError as error:
        return Proof(effective=False, facts={"problem": str(error)})
    return injection.proof()


class FaultBase(Declared):
    """What all faults have. The first paragraph of a fault's docstring is what `chaos faults` says that it does.

    Attributes:
        needs: what the system and the pipeline must have.
        without: what to use instead where a system lacks it, told in the refusal.
        provokes: what it is for: the behaviour of Kafka or Spark that it provokes, with its source.
        proved_by: what its proof shows.
        settles_request: whether the fault itself decides what becomes of the request that its trigger holds.
        outlives_client: whether that request is delivered although its client has gone.
    """

    needs: ClassVar[frozenset[Capability]]
    without: ClassVar[str] = ""
    provokes: ClassVar[str] = ""
    proved_by: ClassVar[str] = ""
    settles_request: ClassVar[bool] = False
    outlives_client: ClassVar[bool] = False
    kind: str
    name: FaultName = ""
    when: When

    def describe(self) -> str:
        """The fault in words, without its trigger."""
        raise NotImplementedError

    def approach(self, context: FaultContext) -> None:
        """Do before the trigger what would be too slow at the moment of injection."""

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        """Resolve the target; nothing is broken yet.

        Raises:
            ChaosError: the target does not exist now.
        """
        raise NotImplementedError

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        """The brokers that it names."""
        target = getattr(self, "target", None)
        return [target] if isinstance(target, BrokerTarget) else []

    @property
    def down_s(self) -> float:
        """How long its brokers are down or silent; 0 for a fault of other things."""
        return 0.0

    @property
    def holds_request_s(self) -> float:
        """How long it holds the request of its trigger by itself."""
        return 0.0


class LastingFault(FaultBase):
    """A fault for a declared time, or until another fault of the scenario was proved, if that comes first."""

    for_s: SomeSeconds = Field(alias="for")
    until: FaultName | None = None

    @property
    def lasts(self) -> str:
        """How long, in words."""
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class BrokerFault(FaultBase):
    """A fault of brokers.

    Attributes:
        roles: the targets that it can have; empty for all.
    """

    roles: ClassVar[tuple[Role, ...]] = ()
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.BROKER_PROCESSES})
    target: Broker

    @model_validator(mode="after")
    def _has_a_role(self) -> Self:
        if self.roles and self.target.role not in self.roles:
            raise ValueError(f"{self.kind} cannot be aimed at {self.target}; its target is {' or '.join(self.roles)}")
        return self


class RestartedBrokerFault(BrokerFault):
    """A fault whose brokers end, and are started again at the heal."""

    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def restarted(self) -> str:
        """When they come back, in words."""
        return f"restarted after {spoken_seconds(self.restart_after_s)}"

    @property
    def down_s(self) -> float:
        return self.restart_after_s


class LinkFault(LastingFault):
    """A fault of links."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LINKS})
    link: Links

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        """The brokers at the ends of its links."""
        return ends_of(self.link)


class RequestsFault(LinkFault):
    """A fault of all requests of one kind on some links, from its injection on."""

    request: Api


def ends_of(link: LinkPattern) -> list[BrokerTarget]:
    """The broker targets at the ends of a link."""
    return [end for end in (link.left, link.right) if isinstance(end, BrokerTarget)]


_END_S = 60.0
_NOT_YET = (KafkaException, LookupError, OSError)


class BackgroundSteps:
    """Steps in a thread of their own, from the injection until they are done or the fault is healed; `begin` them once."""

    def __init__(self, steps: Callable[[Event], None]) -> None:
        """Prepare.

        Args:
            steps: what is done; it returns soon after the flag that it is given was set.
        """
        self._steps = steps
        self._stop = Event()
        self._running: Future[None] | None = None

    def begin(self) -> None:
        """Start the thread."""
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="background-steps")
        self._running = pool.submit(self._steps, self._stop)
        pool.shutdown(wait=False)

    def done(self) -> bool:
        """Whether all steps are done.

        Raises:
            Exception: what one of its steps raised.
        """
        if self._running is None or not self._running.done():
            return False
        self._running.result()
        return True

    def missing(self, within_s: float) -> dict[str, str]:
        """Wait until all steps are done: empty then, or why they are not, as a fact of a proof that failed.

        Raises:
            Exception: what one of its steps raised, unless that was a wait.
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
            DeadlineError: they do not stop.
        """
        self._stop.set()
        if self._running is not None and wait([self._running], _END_S).not_done:
            raise DeadlineError(f"waited {_END_S:g} s for the background steps of a fault to stop")


def until(condition: Callable[[], object], stop: Event, within_s: float, reason: str) -> bool:
    """Wait for a condition between two steps; False when told to stop. A broker that does not answer is asked again.

    Raises:
        DeadlineError: it did not become so in time.
    """
    clock.wait_until(lambda: stop.is_set() or condition(), within_s=within_s, reason=reason, every_s=0.1, ignore=_NOT_YET)
    return not stop.is_set()
