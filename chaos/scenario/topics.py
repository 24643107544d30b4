"""`topics:`, and which of them a scenario reads, fills and writes.

    topics:
      orders:   {partitions: 6}
      enriched: {partitions: 6, config: {compression.type: zstd}}

    pipelines:
      enrich: {reads: [orders], sink: {topic: enriched}, …}

    scenarios:
      - {name: …, pipeline: enrich, workload: {into: orders, …}}

The name of a topic is a word of the file, and a placeholder in the declaration of a pipeline. On the wire each run has topics
of its own, whose names begin with it.
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
"""What stands for something that is known only when a scenario runs, beside the topics."""
MISSING = Message(
    "topics-missing",
    "topics: is missing; declare the topics, and say which a pipeline reads and writes, e.g. "
    "topics: {orders: {partitions: 3}, enriched: {partitions: 3}}, and in the pipeline "
    "reads: [orders], sink: {topic: enriched}",
)
_LONGEST = 100  # with the name of a run behind it, it must be one that Kafka allows
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NOT_JUDGED = "removes records before they are judged; leave it out: a run lasts for minutes, and its topics go with it"
_REFUSED = {
    "retention.ms": _NOT_JUDGED,
    "retention.bytes": _NOT_JUDGED,
    "min.insync.replicas": "is 2 in every topic of a run, and by that it is judged what faults may take down; leave it out",
}
"""Settings by which a run would prove something else than it says."""
_POLICY = "cleanup.policy"
_COMPACTED = "is compacted (cleanup.policy), so Kafka removes records of it before they are judged"


def _topic_name(value: Any) -> Any:
    """Unlike a pattern, it says what is wrong in the words of topics."""
    if not isinstance(value, str):
        raise WrongValueError("topic-not-text", f"{shown(value)} is not the name of a topic; write it in quotes")
    if not _NAME.fullmatch(value) or len(value) > _LONGEST:
        allowed = f"write letters, digits, dots, underscores and hyphens, at most {_LONGEST}"
        raise WrongValueError("not-a-topic-name", f"{shown(value)} is not the name of a topic; {allowed}")
    return value


def _declared_name(name: str) -> str:
    if name in PLACEHOLDERS:
        raise WrongValueError(
            "topic-name-taken", f"{{{name}}} stands for something else in a pipeline; choose another name for this topic"
        )
    return name


def _settings(config: dict[str, str]) -> dict[str, str]:
    for name in config:
        if name in _REFUSED:
            raise WrongValueError("setting-refused", f"{name} {_REFUSED[name]}")
    return config


TopicName = Annotated[str, BeforeValidator(_topic_name), Field(title="name of a topic")]


class TopicSpec(Declared):
    """One topic, of which every run has its own."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=100)] = 3
    """how many."""
    config: Annotated[dict[str, Annotated[str, BeforeValidator(text_of_setting)]], AfterValidator(_settings)] = Field(
        default_factory=dict
    )
    """settings of Kafka, e.g. ``{compression.type: zstd}``. Those by which records expire, and ``min.insync.replicas``, which
    is 2, are refused; so is ``cleanup.policy: compact`` of what is judged as a log.
    """

    @property
    def is_compacted(self) -> bool:
        """Whether Kafka removes records to which a later one of their key has come."""
        return "compact" in self.config.get(_POLICY, "")


def _spec(value: Any) -> Any:
    """``orders:`` with nothing behind it is a topic with defaults."""
    return {} if value is None else value


class _OrNothing:
    """What `_spec` allows, in the schema."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _distinct(topics: dict[str, TopicSpec]) -> dict[str, TopicSpec]:
    """Kafka names its metrics with ``_`` in place of ``.``, and refuses a topic that would share them."""
    seen: dict[str, str] = {}
    for name in topics:
        other = seen.setdefault(name.replace(".", "_"), name)
        if other != name:
            raise WrongValueError(
                "topics-of-one-metric",
                f"{name} and {other} are one name to Kafka's metrics, so it refuses the second; rename one",
            )
    return topics


TopicSpecs = Annotated[
    dict[Annotated[TopicName, AfterValidator(_declared_name)], Annotated[TopicSpec, BeforeValidator(_spec), _OrNothing]],
    AfterValidator(_distinct),
]


Form = Literal["log", "state"]


class WrittenTo(Protocol):
    """What a pipeline writes (`chaos.scenario.sinks`); the topic of a table is ""."""

    @property
    def topic(self) -> str: ...

    @property
    def routing(self) -> Literal["same", "any"] | None: ...

    @property
    def form(self) -> Form: ...


Reads = Annotated[tuple[TopicName, ...], Field(min_length=1)]


def unknown_placeholder(text: str, known: Collection[str]) -> Message | None:
    """What is wrong with the placeholders in a text; None if all are known."""
    try:
        check(text, known)
    except ValueError as error:
        return Message("unknown-placeholder", str(error))
    return None


def unknown(name: str, topics: Mapping[str, TopicSpec]) -> Message | None:
    """What is wrong with a name that is none of the topics; None if it is one."""
    if name in topics:
        return None
    there = f"the topics are {', '.join(topics)}" if topics else "no topics are declared"
    return Message("not-a-topic", f"{shown(name)} is not a topic{did_you_mean(name, topics)}; {there}")


def no_partition(name: str, partition: int, topics: Mapping[str, TopicSpec]) -> Message | None:
    """What is wrong with a partition of a topic that there is; None if there is such a partition."""
    last = topics[name].partitions - 1
    if partition <= last:
        return None
    text = f"{name} has no partition {partition}; it has {f'0 to {last}' if last else 'partition 0 only'}"
    return Message("no-such-partition", text)


def of_pipeline(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], sink: WrittenTo | None) -> Iterator[Problem]:
    """What is wrong with the topics that a pipeline names, with places in its declaration.

    Args:
        reads: empty where there is no pipeline, as `sink` is None.
        sink: one without a topic is a table.
    """
    for number, name in enumerate(reads):
        if message := unknown(name, topics):
            yield ("reads", number), message
        elif name in reads[:number]:
            yield ("reads", number), Message("topic-read-twice", f"{name} is here twice; keep one")
        elif message := _compacted(name, topics):
            yield ("reads", number), message
    if sink is not None and sink.topic:
        yield from _of_sink(topics, reads, sink)


def _of_sink(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], sink: WrittenTo) -> Iterator[Problem]:
    if message := unknown(sink.topic, topics):
        yield ("sink", "topic"), message
    elif sink.topic in reads:
        own = f"{sink.topic} is read by this pipeline too, so it would read what it writes"
        yield ("sink", "topic"), Message("reads-own-sink", f"{own}; name another topic for its sink")
    elif sink.form == "log" and topics[sink.topic].is_compacted:
        mend = "write as: state beside it, or leave cleanup.policy out of its config"
        yield ("sink", "topic"), Message("compacted-log", f"{sink.topic} {_COMPACTED} as a log; {mend}")


def of_workload(topics: Mapping[str, TopicSpec], reads: tuple[str, ...], into: str) -> Iterator[Problem]:
    """What is wrong with the topic that is filled, with places in the workload.

    Args:
        into: "" where the workload does not say.
    """
    if into:
        if message := unknown(into, topics) or (_stray(into, reads) if reads else _compacted(into, topics)):
            yield ("into",), message
        return
    choice = tuple(dict.fromkeys(reads)) or tuple(topics)
    if not choice:
        text = "no topics are declared, so there is none to be filled; write topics: {orders: {partitions: 3}}"
        yield (), Message("no-topics", text)
    elif len(choice) > 1:
        which = "this pipeline reads several topics" if reads else "there is no pipeline, and the file has several topics"
        text = f"{which}: {', '.join(choice)}; say which one is filled: workload: {{into: {choice[0]}}}"
        yield (), Message("filled-topic-open", text)
    elif not reads and (message := _compacted(choice[0], topics)):
        yield (), message


def of_more(
    topics: Mapping[str, TopicSpec], reads: tuple[str, ...], source: str, more: Sequence[str]
) -> Iterator[tuple[int, Message]]:
    """What is wrong with further topics that are filled: its number among them, and the reason.

    Args:
        reads: empty where there is no pipeline.
        source: the topic that is filled before them.
        more: at least one.
    """
    if not reads:
        text = "there is no pipeline here, and its loader alone is under test; leave `also` out"
        yield 0, Message("also-without-pipeline", text)
        return
    for number, name in enumerate(more):
        if message := unknown(name, topics) or _stray(name, reads):
            yield number, message
        elif name in (source, *more[:number]):
            yield number, Message("topic-filled-twice", f"{name} is filled already; name another topic, or leave this out")


def _stray(name: str, reads: tuple[str, ...]) -> Message | None:
    """Why it is of no use to fill this topic; None if the pipeline reads it."""
    if name in reads:
        return None
    return Message("topic-not-read", f"this pipeline does not read {name}; it reads {', '.join(reads)}")


def _compacted(name: str, topics: Mapping[str, TopicSpec]) -> Message | None:
    """Why what is filled cannot be judged; None if it can."""
    if not topics[name].is_compacted:
        return None
    return Message("compacted-source", f"{name} {_COMPACTED}; leave cleanup.policy out of its config")


def cannot_stay(topics: Mapping[str, TopicSpec], source: str, sink: WrittenTo | None) -> Message | None:
    """Why not every record can keep its partition on the way to the sink, where that is demanded; None if it can."""
    if sink is None or sink.routing != "same" or not {source, sink.topic} <= topics.keys():
        return None
    many, few = topics[source].partitions, topics[sink.topic].partitions
    if few >= many:
        return None
    text = f"{sink.topic} has {few} partitions and {source} has {many}, so not every record can keep its own"
    return Message("partitions-too-few", f"{text}; write routing: any, or give {sink.topic} more")
