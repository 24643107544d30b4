"""The facts of a run that processes under test need: topics and endpoints; and the command that starts one.

The loader's process imports this module as well, and starts sooner without Spark.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeVar

V = TypeVar("V")

CHECKPOINT = "checkpoint"
"""The folder, in that of a run, where a query of Spark keeps its position."""


DRIVER_PORT = 4040
"""The port of the page of a user's driver; Spark takes the next one if it is taken."""


class Topic(NamedTuple):
    """A topic by its name on the wire."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one run, by their names on the wire.

    Attributes:
        filled: the topics that loaders fill; the pipeline must read them to their ends, and its output is judged against them.
        sink: the topic that the pipeline writes; "" without a pipeline.
        prefix: the beginning of all names, and of all other names that a pipeline uses, on a cluster that others use.
        suffix: the end of all names.
        sink_partitions: the number of the sink's partitions, if it is not that of the source.
        read: all topics that the pipeline reads, in the declared order; empty stands for `filled`.
        names: declared name -> name on the wire, for every topic of the run.
    """

    filled: tuple[Topic, ...]
    sink: str
    prefix: str = ""
    suffix: str = ""
    sink_partitions: int = 0
    read: tuple[Topic, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def input(self) -> Topic:
        """The source: the filled topic that faults, batches and partition numbers refer to, since they concern one topic."""
        return self.filled[0]

    @property
    def source(self) -> str:
        return self.input.name

    @property
    def partitions(self) -> int:
        """Number of the source's partitions."""
        return self.input.partitions

    @property
    def output(self) -> Topic:
        """The topic whose growth is the progress of a run: the sink, or the source without a pipeline."""
        return Topic(self.sink, self.sink_partitions or self.partitions) if self.sink else self.input

    @property
    def sources(self) -> tuple[Topic, ...]:
        """All topics that the pipeline reads."""
        return self.read or self.filled

    def of_one(self, topic: Topic) -> Self:
        """Return these topics for the loader of one of them, with that one as the only filled topic."""
        return replace(self, filled=(topic,))


def numbered_through(topics: Iterable[Topic], of: Callable[[Topic], Mapping[int, V]]) -> dict[int, V]:
    """Merge values by partition of several topics, numbering each topic's partitions on from those of the topic before.

    A single topic keeps its own numbers.
    """
    told: dict[int, V] = {}
    first = 0
    for topic in topics:
        told |= {first + partition: value for partition, value in of(topic).items()}
        first += topic.partitions
    return told


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of the system for one client, and its options.

    Attributes:
        kafka: bootstrap servers of the listener that belongs to this client.
        audit: bootstrap servers for requests about progress, not for the data path.
        spark_master: ``spark://host:port``.
        host: the address a driver binds to.
        java_options: for driver and executors.
        class_path: jars of driver and executors, Spark's Kafka connector among others, at the same paths on every machine.
        options: for librdkafka clients, TLS and SASL for example.
        java: for Java clients, likewise.
        spark_options: further settings of a Spark application.
        services: name -> ``HOST:PORT``, the addresses of services beside Kafka for this client.
    """

    kafka: str
    audit: str
    spark_master: str = ""
    host: str = "127.0.0.1"
    java_options: str = ""
    class_path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)
    spark_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    services: Mapping[str, str] = field(default_factory=dict)


class Image(NamedTuple):
    """A user's image, in place of programs of this machine.

    Attributes:
        around: a command that runs the image's entrypoint, whose words are appended to it.
    """

    name: str
    around: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: its arguments, and variables that are added to its environment.

    Attributes:
        has_events: whether lines ``{"event": …}`` of its output are reports. Many programs that report nothing begin the lines
            of their log so.
        has_begun: called after its report ``started``; returns whether its program visibly works.
        begins_by: the observation that `has_begun` waits for, in words; "" if there is none.
        image: the image that it runs in; its arguments then replace the image's arguments of the entrypoint.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    has_events: bool = True
    has_begun: Callable[[], bool] = lambda: True
    begins_by: str = ""
    image: Image | None = None
