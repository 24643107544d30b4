"""`topics:`, and the topics that a scenario reads, fills and writes.

    topics:
      orders:   {partitions: 6}
      enriched: {partitions: 6, config: {compression.type: zstd}}

    pipelines:
      enrich: {reads: [orders], sink: {topic: enriched}, …}

    scenarios:
      - {name: …, pipeline: enrich, workload: {into: orders, …}}

The name of a topic is a word of the file, and a placeholder in the declaration of a pipeline. Each run has topics of its own,
whose names on the wire begin with this word.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from chaos.contract.placeholders import RESERVED, check
from chaos.grammar.base import Declared, Message, Problem, WrongValueError, did_you_mean, shown
from chaos.grammar.units import text_of_setting

PLACEHOLDERS = RESERVED
"""Placeholders beside the topics, whose values are known only when a scenario runs."""
MISSING = Message(
    "topics-missing",
    "topics: is missing; declare the topics, and which of them a pipeline reads and writes, e.g. "
    "topics: {orders: {partitions: 3}, enriched: {partitions: 3}}, and in the pipeline "
    "reads: [orders], sink: {topic: enriched}",
)
_LONGEST = 100  # with the name of a run appended, it must still be a name for Kafka
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NOT_JUDGED = "removes records before they are judged; leave it out: a run lasts for minutes, and its topics end with it"
_REFUSED = {
    "retention.ms": _NOT_JUDGED,
    "retention.bytes": _NOT_JUDGED,
    "min.insync.replicas": "is 2 in every topic of a run, and the limits of faults rely on that; leave it out",
}
"""Settings with which a run would prove something else than it claims."""
_POLICY = "cleanup.policy"
_COMPACTED = "is compacted (cleanup.policy), so Kafka removes records before they are judged"


def _topic_name(value: Any) -> Any:
    """Check the name of a topic, with clearer messages than those of a pattern."""
    if not isinstance(value, str):
        raise WrongValueError("topic-not-text", f"{shown(value)} is not the name of a topic; write it in quotes")
    if not _NAME.fullmatch(value) or len(value) > _LONGEST:
        allowed = f"write letters, digits, dots, underscores and hyphens, at most {_LONGEST}"
        raise WrongValueError("not-a-topic-name", f"{shown(value)} is not the name of a topic; {allowed}")
    return value


def _declared_name(name: str) -> str:
    if name in PLACEHOLDERS:
        raise WrongValueError(
            "topic-name-taken", f"{{{name}}} has another meaning in a pipeline; choose another name for this topic"
        )
    return name


def _settings(config: dict[str, str]) -> dict[str, str]:
    for name in config:
        if name in _REFUSED:
            raise WrongValueError("setting-refused", f"{name} {_REFUSED[name]}")
    return config


TopicName = Annotated[str, BeforeValidator(_topic_name), Field(title="name of a topic")]


class TopicSpec(Declared):
    """One topic; every run has its own."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=100)] = 3
    """the number of partitions."""
    config: Annotated[dict[str, Annotated[str, BeforeValidator(text_of_setting)]], AfterValidator(_settings)] = Field(
        default_factory=dict
    )
    """settings of Kafka, e.g. ``{compression.type: zstd}``. Settings that expire records are refused; so are
    ``min.insync.replicas``, which is 2, and ``cleanup.policy: compact`` for a topic that is judged as a log.
    """

    @property
    def is_compacted(self) -> bool:
        """Whether Kafka removes records that are followed by another one with their key."""
        return "compact" in self.config.get(_POLICY, "")


def _spec(value: Any) -> Any:
    """Read ``orders:`` without a value as a topic with defaults."""
    return {} if value is None else value


class _OrNothing:
    """Allows in the schema the missing value that `_spec` allows."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _distinct(topics: dict[str, TopicSpec]) -> dict[str, TopicSpec]:
    """Refuse names that differ in ``.`` and ``_`` only: Kafka refuses the second, because its metrics would be the same."""
    seen: dict[str, str] = {}
    for name in topics:
        other = seen.setdefault(name.replace(".", "_"), name)
        if other != name:
            raise WrongValueError(
                "topics-of-one-metric",
                f"{name} and {other} are the same name in Kafka's metrics, so Kafka refuses the second; rename one",
            )
    return topics


TopicSpecs = Annotated[
    dict[Annotated[TopicName, AfterValidator(_declared_name)], Annotated[TopicSpec, BeforeValidator(_spec), _OrNothing]],
    AfterValidator(_distinct),
]


Form = Literal["log", "state"]


class WrittenTo(Protocol):
    """The sink of a pipeline (`chaos.scenario.sinks`); the topic of a table is ""."""

    @property
    def topic(self) -> str: ...

    @property
    def routing(self) -> Literal["same", "any"] | None: ...

    @property
    def form(self) -> Form: ...


Reads = Annotated[tuple[TopicName, ...], Field(min_length=1)]


def unknown_placeholder(text: str, known: Collection[str]) -> Message | None:
    """Report an unknown placeholder in a text; None if all are known."""
    try:
        check(text, known)
    except ValueError as error:
        return Message("unknown-placeholder", str(error))
    return None


def unknown(name: str, topics: Mapping[str, TopicSpec]) -> Message | None:
    """Report a name that is not a topic; None if it is one."""
    if name in topics:
        return None
    there = f"the topics are {', '.join(topics)}" if topics else "no topics are declared"
    return Message("not-a-topic", f"{shown(name)} is not a topic{did_you_mean(name, topics)}; {there}")


def no_partition(name: str, partition: int, topics: Mapping[str, TopicSpec]) -> Message | None:
    """Report a partition that an existing topic does not have; None if it has it."""
    last = topics[name].partitions - 1
    if partition <= last:
        return None
    text = f"{name} has no partition {partition}; it has {f'0 to {last}' if last else 'partition 0 only'}"
    return Message("no-such-partition", text)


def of_pipeline(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], sink: WrittenTo | None) -> Iterator[Problem]:
    """Find mistakes in the topics that a pipeline names, with places in its declaration.

    Args:
        reads: empty without a pipeline; then `sink` is None.
        sink: a sink without a topic is a table.
    """
    for number, name in enumerate(reads):
        if message := unknown(name, topics):
            yield ("reads", number), message
        elif name in reads[:number]:
            yield ("reads", number), Message("topic-read-twice", f"reads has {name} twice; keep one")
        elif message := _compacted(name, topics):
            yield ("reads", number), message
    if sink is not None and sink.topic:
        yield from _of_sink(topics, reads, sink)


def _of_sink(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], sink: WrittenTo) -> Iterator[Problem]:
    if message := unknown(sink.topic, topics):
        yield ("sink", "topic"), message
    elif sink.topic in reads:
        own = f"this pipeline also reads {sink.topic}, so it would read its own output"
        yield ("sink", "topic"), Message("reads-own-sink", f"{own}; name another topic as its sink")
    elif sink.form == "log" and topics[sink.topic].is_compacted:
        mend = "add as: state to the sink, or leave cleanup.policy out of its config"
        yield ("sink", "topic"), Message("compacted-log", f"{sink.topic} {_COMPACTED} as a log; {mend}")


def of_workload(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], into: str) -> Iterator[Problem]:
    """Find mistakes in the filled topic, with places in the workload.

    Args:
        into: "" if the workload names no topic.
    """
    if into:
        if message := unknown(into, topics) or (_stray(into, reads) if reads else _compacted(into, topics)):
            yield ("into",), message
        return
    choice = tuple(dict.fromkeys(reads)) or tuple(topics)
    if not choice:
        text = "no topics are declared, so the loader has none to fill; write topics: {orders: {partitions: 3}}"
        yield (), Message("no-topics", text)
    elif len(choice) > 1:
        which = "this pipeline reads several topics" if reads else "there is no pipeline, and the file has several topics"
        text = f"{which}: {', '.join(choice)}; name the one to fill: workload: {{into: {choice[0]}}}"
        yield (), Message("filled-topic-open", text)
    elif not reads and (message := _compacted(choice[0], topics)):
        yield (), message


def of_more(
    topics: Mapping[str, TopicSpec], reads: tuple[str, ...], source: str, more: Sequence[str]
) -> Iterator[tuple[int, Message]]:
    """Find mistakes in further filled topics: the number of the topic among them, and the message.

    Args:
        reads: empty without a pipeline.
        source: the first filled topic.
        more: at least one.
    """
    if not reads:
        text = "without a pipeline, only the loader of one topic is under test; leave `also` out"
        yield 0, Message("also-without-pipeline", text)
        return
    for number, name in enumerate(more):
        if message := unknown(name, topics) or _stray(name, reads):
            yield number, message
        elif name in (source, *more[:number]):
            yield number, Message("topic-filled-twice", f"{name} is already filled; name another topic, or leave this one out")


def _stray(name: str, reads: tuple[str, ...]) -> Message | None:
    """Report a filled topic that the pipeline does not read; None if it reads it."""
    if name in reads:
        return None
    return Message("topic-not-read", f"this pipeline does not read {name}; it reads {', '.join(reads)}")


def _compacted(name: str, topics: Mapping[str, TopicSpec]) -> Message | None:
    """Report a filled topic that cannot be judged; None if it can."""
    if not topics[name].is_compacted:
        return None
    return Message("compacted-source", f"{name} {_COMPACTED}; leave cleanup.policy out of its config")


def cannot_stay(topics: Mapping[str, TopicSpec], source: str, sink: WrittenTo | None) -> Message | None:
    """Report a sink with too few partitions for `routing: same`; None if it has enough."""
    if sink is None or sink.routing != "same" or not {source, sink.topic} <= topics.keys():
        return None
    many, few = topics[source].partitions, topics[sink.topic].partitions
    if few >= many:
        return None
    text = f"{sink.topic} has {few} partitions and {source} has {many}, so not every record can keep its partition"
    return Message("partitions-too-few", f"{text}; write routing: any, or give {sink.topic} more partitions")
