"""What processes under test are told of a run, and what they become: topics, endpoints, and a command to start.

The loader's process imports this module as well, and starts sooner without Spark.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeVar

V = TypeVar("V")

CHECKPOINT = "checkpoint"
"""The folder, in that of a run, where a query of Spark keeps its position."""


DRIVER_PORT = 4040
"""Of the page of a driver that is not ours; Spark takes the next one if it is taken."""


class Topic(NamedTuple):
    """A topic by its name on the wire."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one run, by their names on the wire.

    Attributes:
        filled: the topics that loaders fill; what the pipeline writes is judged against them, and it must come to their ends.
        sink: "" where there is no pipeline.
        prefix: what all names begin with on a cluster that others use, and all other names that a pipeline uses there.
        suffix: what they end with.
        sink_partitions: where they are not as many as those of the source.
        read: all topics that the pipeline reads, the first one first; where it is empty, those that are filled.
        names: as declared -> on the wire; of every topic of the run.
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
        """The source: the topic that is filled and that faults, batches and numbers of partitions mean, which are of one."""
        return self.filled[0]

    @property
    def source(self) -> str:
        return self.input.name

    @property
    def partitions(self) -> int:
        """Of the source."""
        return self.input.partitions

    @property
    def output(self) -> Topic:
        """The topic whose growth is the progress of a run: the sink, or the source where there is no pipeline."""
        return Topic(self.sink, self.sink_partitions or self.partitions) if self.sink else self.input

    @property
    def sources(self) -> tuple[Topic, ...]:
        """All topics that the pipeline reads."""
        return self.read or self.filled

    def of_one(self, topic: Topic) -> Self:
        """Return these topics as the loader of one of them knows them, which fills no other."""
        return replace(self, filled=(topic,))


def numbered_through(topics: Iterable[Topic], of: Callable[[Topic], Mapping[int, V]]) -> dict[int, V]:
    """What is told of each partition of several topics, where those of a topic are numbered on from those of the one before.

    Of one topic, its own numbers.
    """
    told: dict[int, V] = {}
    first = 0
    for topic in topics:
        told |= {first + partition: value for partition, value in of(topic).items()}
        first += topic.partitions
    return told


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a client finds the system, and how it connects.

    Attributes:
        kafka: bootstrap servers, of the listener that belongs to this client.
        audit: bootstrap servers for questions about progress, not for the data path.
        spark_master: ``spark://host:port``.
        host: the address a driver binds to.
        java_options: for driver and executors.
        class_path: of driver and executors, Spark's Kafka connector among others, at the same paths wherever one runs.
        options: for librdkafka clients, TLS and SASL for example.
        java: the same for Java clients.
        spark_options: further settings of a Spark application.
        services: name -> ``HOST:PORT``, where this client finds what is there beside Kafka.
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
    """An image of the user's, in place of programs of this machine.

    Attributes:
        around: what runs its entrypoint: the words of that follow.
    """

    name: str
    around: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: its arguments, and variables that are added to its environment.

    Attributes:
        has_events: whether lines ``{"event": …}`` of its output are what it reports. Many programs that report nothing begin
            the lines of their log so.
        has_begun: whether what it runs works, as far as that can be seen; asked when it has reported that it started.
        begins_by: what is seen then, for people; "" if nothing is asked.
        image: that it runs in; its arguments are given to the entrypoint then, in place of what the image has for it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be in it
    has_events: bool = True
    has_begun: Callable[[], bool] = lambda: True
    begins_by: str = ""
    image: Image | None = None
