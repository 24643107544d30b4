"""What a fault is made of. To add one, see docs/adding-a-fault.md.

declared (scenario/faults/)  ──prepare──▶  Injection  ──inject──▶ in force ──proof──▶ did it bite? ──heal──▶ undone
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from chaos.cluster.rules import Trip
from chaos.cluster.spark import SparkApp
from chaos.cluster.system import System


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a fault bit, and what says so.

    Attributes:
        bit: False makes the run UNKNOWN: it proved nothing.
        facts: the numbers, JSON values only.
    """

    bit: bool
    facts: Mapping[str, Any]


class Injection(Protocol):
    """One fault with its target resolved.

    Attributes:
        target: in words, e.g. ``broker-2 (leader of datasink-0)``.
        hold_s: how long it stays in force before it is healed.
    """

    target: str
    hold_s: float

    def inject(self) -> None:
        """Put it in force."""
        ...

    def proof(self) -> Proof:
        """Did it bite? May wait for the evidence, for as long as the fault is in force; never raises because it did not."""
        ...

    def heal(self) -> Mapping[str, Any] | None:
        """Undo it, whatever part of it is in force, and say what came of it, if there is something to say. Idempotent."""
        ...


def _no_application() -> SparkApp:
    raise LookupError("this pipeline runs on no Spark: there is no executor to crash")


def _no_pipeline() -> "PipelineUnderTest":
    raise LookupError("this scenario has no pipeline to crash")


def _no_positions() -> Mapping[int, int]:
    raise LookupError("this scenario has no pipeline: it has no positions")


def _nothing_readable() -> int:
    return 0


class Frame(Protocol):
    """A frame that a trigger holds on the wire."""

    @property
    def name(self) -> str:
        """Of the rule."""
        ...

    def trip(self) -> Trip | None:
        """What is known of it."""
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
        """SIGKILL to all of its processes; name -> pid of those that were killed."""
        ...

    def restart(self) -> None:
        """Start it again, and return when it runs."""
        ...

    def pause(self) -> Mapping[str, int]:
        """SIGSTOP to all of its processes; name -> pid of those that are stopped."""
        ...

    def resume(self) -> None:
        """SIGCONT."""
        ...

    def take_over(self) -> None:
        """Start a second instance beside the paused one, and return when it runs; from now on it is the pipeline."""
        ...

    def fenced(self) -> bool:
        """Whether the first instance has ended, or said that it was fenced, after it was resumed."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """What faults are aimed at: the system, and the names that belong to this run.

    Attributes:
        topics: ``datasource`` and ``datasink`` -> the run's topics.
        transactional_ids: of the pipeline, by source partition; empty when it uses none.
        spark_app: the pipeline's application; raises LookupError when it runs on no Spark.
        client: the client group of what is under test: ``spark``, ``app`` or ``loader``.
        group: consumer group of the pipeline, "" when it has none.
        pipeline: what can be crashed; raises LookupError when there is none.
        readable: the read_committed end of the pipeline's output, over all partitions; 0 when it cannot be had now.
        held: the frame that this fault's trigger holds, or that of the fault it follows.
        checkpoint: of the pipeline's query; None when it runs on no Spark.
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
    readable: Callable[[], int] = _nothing_readable
    held: Frame | None = None
    checkpoint: Path | None = None
    positions: Callable[[], Mapping[int, int]] = _no_positions


Prepare = Callable[[Any, Scene, Random], Injection]
Approach = Callable[[Any, Scene], None]
