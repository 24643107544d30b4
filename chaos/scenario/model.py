"""The grammar of `scenarios.yaml`, version 2. Field names have units; aliases are the keys in YAML.

Faults are in `chaos.faults`, their triggers in `chaos.grammar.triggers`.

Every verifier that applies to the pipeline is asked, but those that a scenario leaves out with a reason. A scenario can expect
``valid``; of single verifiers ``invalid``, or the exact anomaly: ``{duplicates: {duplicate: 1}}``; and ``not_sent``, if its
client never sends the request that its fault waits for.

It imports more than fifteen modules: every part of the grammar has a module, and a scenario has all of them.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from chaos.common import plugins
from chaos.common.errors import PluginError
from chaos.contract.placeholders import names_in
from chaos.faults.registry import FAULTS, Fault
from chaos.faults.registry import PLUGINS as _FAULTS
from chaos.grammar.base import Declared, Name, Tag, WrongValueError, did_you_mean, shown
from chaos.grammar.counts import Counts
from chaos.grammar.triggers import After
from chaos.grammar.units import Percent, PerSecond, SomeSeconds, text_of_seconds, text_of_setting
from chaos.install import jars, spark_versions
from chaos.loader.generators import PLUGINS as _GENERATORS
from chaos.runtime.capabilities import Capability
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.rows import Rows
from chaos.scenario.services import Services
from chaos.scenario.sinks import TableSink
from chaos.scenario.sinks.reader import READERS as _READERS
from chaos.scenario.topics import TopicName, TopicSpecs
from chaos.scenario.verifiers import NAMES, PRECEDENCE, TRANSACTIONS, VerifierName
from chaos.scenario.verifiers import PLUGINS as _VERIFIERS

plugins.require(_FAULTS, _VERIFIERS, _GENERATORS, _READERS)

# faults by chance -----------------------------------------------------------------------------------------------------


def _without_trigger(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "when" in value:
        raise WrongValueError("when-of-random-fault", "the time of this fault is drawn; leave `when` out")
    if "until" in value or "name" in value:
        raise WrongValueError("name-of-random-fault", "this fault may happen several times; leave `name` and `until` out")
    return {**value, "when": {"after": "0s"}}


def _as_declared(fault: Fault) -> dict[str, Any]:
    """The fault without the keys that `_without_trigger` refuses."""
    return fault.model_dump(mode="json", exclude={"when", "until", "name"})


class Pick(Declared):
    """A fault that may happen, and its weight in the draw."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """how often it is drawn, compared with the others."""
    fault: Annotated[
        Fault,
        BeforeValidator(_without_trigger),
        PlainSerializer(_as_declared),
        WithJsonSchema({"title": "fault without `when`", "type": "object", "required": ["kind"]}),
    ]
    """as in ``faults``, but without ``when``, ``until`` and ``name``."""


class RandomFaults(Declared):
    """Which faults may happen by chance, how often, and the schedule that is drawn with a seed.

        random:
          every: 15s                      # a round has one fault of `pick`, or none
          quiet: 25%                      # the share of rounds without a fault (a quarter, as in Jepsen's nemesis package)
          pick:
            - {weight: 3, fault: {kind: kill_broker, target: any}}
            - {fault: {kind: cut_link, link: "pipeline->any", for: 5s}}

    Everything is drawn before the run, with the scenario's seed, and the schedule lists what was drawn. Only one fault is in
    force at a time: a round waits until the fault before it is healed and the output has grown again. Rounds that are still
    waiting when the whole workload has passed are skipped.
    """

    every_s: SomeSeconds = Field(alias="every")
    """how long a round is."""
    quiet: Percent = 25.0
    """the share of rounds without a fault."""
    pick: Annotated[tuple[Pick, ...], Field(min_length=1)]
    """the faults that are drawn from."""

    def drawn(self, seed: int, lasts_s: float) -> Iterator[Fault]:
        """The faults for a workload of so many seconds, with names and triggers; the last round leaves time to recover."""
        rng = Random(seed)  # noqa: S311 - this is not a secret
        weights = [pick.weight for pick in self.pick]
        for number in range(1, int(lasts_s / self.every_s)):
            quiet, (picked,) = rng.random() < self.quiet / 100, rng.choices(self.pick, weights)
            if not quiet:
                when = After(after=text_of_seconds(round(number * self.every_s, 3)))
                yield picked.fault.model_copy(update={"name": f"round-{number}-{picked.fault.kind}", "when": when})


# the file and its parts ------------------------------------------------------------------------------------------------


Records = Annotated[int, Field(strict=True, ge=1)]
PipelineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([-_][a-z0-9]+)*$")]
VERSION = 2
MOST_BROKERS = 5
_OLDEST_KAFKA = (3, 3, 1)  # KRaft is ready for production from it on (KIP-833)
_OLDEST_SPARK = (3, 5, 0)
_SETTINGS_OF_OURS = ("node.id", "broker.id", "process.roles", "log.dir", "log.dirs", "metadata.log.dir", "cluster.id")
_FAMILIES_OF_OURS = ("controller.", "listener", "advertised.", "inter.broker.", "early.start.listeners")
MOST_WORKERS = 4

Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Expectation = Literal["valid", "invalid"]
Outcome = Literal["valid", "not_sent"]
Isolation = Literal["read_committed", "read_uncommitted"]


class Producer(Declared):
    """How the loader writes.

    With ``batch_records: 1`` and ``in_flight: 1`` the counts of anomalies are exact.
    """

    idempotence: Annotated[bool, Field(strict=True)] = True
    """whether brokers leave out what a retry sends again; it needs ``acks: all``."""
    acks: Literal["all", 1] = "all"
    """whether a record is acknowledged when all replicas in sync have it, or the leader alone."""
    batch_records: Records | None = None
    """how many records go into one request; the default is as many as come within 10 ms."""
    in_flight: Annotated[int, Field(strict=True, ge=1, le=5)] = 5
    """how many requests may wait for their answers on one connection."""
    transaction_records: Records | None = None
    """how many records make a transaction; the default is none, without transactions."""

    @model_validator(mode="after")
    def _idempotent_needs_all(self) -> Self:
        if self.idempotence and self.acks != "all":
            raise WrongValueError(
                "idempotence-without-acks", "an idempotent producer needs acks: all; write that, or idempotence: false"
            )
        if self.transaction_records and not self.idempotence:
            raise WrongValueError(
                "transactions-without-idempotence",
                "transaction_records needs idempotence: true and acks: all; write these, or leave it out",
            )
        return self


class Filling(Declared):
    """The records that a loader writes to one topic."""

    into: TopicName | Literal[""] = ""
    """the topic."""
    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    """how many; without it, all that ``rows`` from a file, a function or a generator has."""
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)
    """how many in a second."""
    refused: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """how many of them the brokers refuse for good, a record that is too large, say. Where it is another number, the pipeline
    had another workload than is declared: the run is UNKNOWN.
    """
    producer: Producer = Producer()
    """how they are sent."""
    rows: Rows | None = None
    """what they are; the default are the integers 0, 1, 2, …, as keys and values, id i to partition i mod the number of
    partitions.
    """

    @model_validator(mode="after")
    def _some_are_written(self) -> Self:
        if self.refused >= self.records and self.wanted is not None:
            raise WrongValueError(
                "all-refused", f"refused: {self.refused} of {self.records} records leaves nothing that is written; refuse fewer"
            )
        return self

    @model_validator(mode="after")
    def _of_user_loader(self) -> Self:
        if self.rows is None or not self.rows.SENDS_ITSELF:
            return self
        if "records" not in self.model_fields_set:
            raise WrongValueError(
                "own-loader-without-records",
                "records is missing: a run waits for as many as rows: {command: …} sends; write records: 20000",
            )
        if self.producer != Producer():
            raise WrongValueError(
                "own-loader-with-producer",
                "producer says how our loader writes, and rows: {command: …} writes itself; leave it out",
            )
        return self

    @property
    def wanted(self) -> int | None:
        """How many rows of one's own there must be; None where a file, a function or a generator says that itself."""
        leaves_open = self.rows is not None and self.rows.KNOWS_COUNT and "records" not in self.model_fields_set
        return None if leaves_open else self.records

    def below(self, folder: Path) -> Self:
        """The same with whole paths, and with as many records as a file has, unless it says how many."""
        if self.rows is None:
            return self
        rows = self.rows.below(folder)
        count = rows.count() if self.wanted is None else None
        return self.model_copy(update={"rows": rows, **({"records": count} if count else {})})

    @property
    def sending_s(self) -> float:
        """How long it takes to send these if nothing is broken."""
        return self.records / self.rate_per_s


class AlsoFilled(Filling):
    """What a loader of its own writes to another topic that the pipeline reads, at the same time."""

    into: TopicName
    """the topic; another than those that are filled before it."""


class Workload(Filling):
    """The records that the loader writes to the source topic, and those that further loaders write to others."""

    into: TopicName | Literal[""] = ""
    """the topic; it may be left out where the pipeline reads one topic or, with ``pipeline: none``, where the file declares
    one.
    """
    also: tuple[AlsoFilled, ...] = ()
    """further topics that the pipeline reads, each filled at the same time by a loader of its own, with a ledger of its own.
    What the sink must hold follows from all of them together.
    """

    @property
    def fillings(self) -> tuple[Filling, ...]:
        """What each topic is filled with."""
        return (self, *self.also)

    @property
    def has_user_loader(self) -> bool:
        """Whether a program of the user's fills one of the topics: what it sends is not known beforehand."""
        return any(one.rows is not None and one.rows.SENDS_ITSELF for one in self.fillings)

    @property
    def may_use_transactions(self) -> bool:
        """Whether what fills the topics may write in transactions: of a program of the user's it is not known."""
        return self.has_user_loader or any(one.producer.transaction_records for one in self.fillings)

    @property
    def total(self) -> int:
        """How many records all topics get."""
        return sum(one.records for one in self.fillings)

    @property
    def loading_s(self) -> float:
        """How long loading takes if nothing is broken: all loaders work at once."""
        return max(one.sending_s for one in self.fillings)

    def sending(self, records: Iterable[int]) -> Self:
        """The same with these numbers of records, one for each topic."""
        own, *others = records
        also = tuple(one.model_copy(update={"records": count}) for one, count in zip(self.also, others, strict=True))
        return self.model_copy(update={"records": own, "also": also})

    def below(self, folder: Path) -> Self:
        """The same with whole paths, and with as many records as files have, of those that do not say how many."""
        return super().below(folder).model_copy(update={"also": tuple(one.below(folder) for one in self.also)})


def _expectation(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    outcomes = get_args(Outcome)
    if value in outcomes or isinstance(value, Mapping):
        return value
    hint = "" if value == "invalid" else did_you_mean(value, outcomes)
    allowed = "write valid, or, for a control, what its verifiers must find: {duplicates: invalid}"
    raise WrongValueError("not-an-expectation", f"{shown(value)} is not an expectation{hint}; {allowed}")


def _prediction(value: Any) -> Any:
    """``valid``, ``invalid``, or counts of anomalies."""
    if value in get_args(Expectation) or isinstance(value, Mapping):
        return value
    hint = did_you_mean(value, get_args(Expectation))
    raise WrongValueError(
        "not-a-prediction",
        f"{shown(value)} is not known here{hint}; write valid or invalid, or the exact anomaly: {{duplicate: 1}}",
    )


Prediction = Annotated[Expectation | Counts, BeforeValidator(_prediction)]
Expected = Annotated[Outcome | dict[VerifierName, Prediction], BeforeValidator(_expectation)]


def _numbers(value: Any, product: str, example: str) -> tuple[int, ...]:
    """Three; YAML reads ``4.0`` as a number."""
    numbers = value.split(".") if isinstance(value, str) else []
    if len(numbers) != len(("major", "minor", "patch")) or not all(number.isdecimal() for number in numbers):
        raise WrongValueError(
            "not-a-version", f"{shown(value)} is not a version of {product}; write all three numbers, e.g. {example}"
        )
    return tuple(map(int, numbers))


def _kafka_version(value: Any) -> Any:
    if _numbers(value, "Kafka", "3.9.1") < _OLDEST_KAFKA:
        raise WrongValueError("kafka-too-old", f"Kafka {value} is too old; the oldest with KRaft is 3.3.1")
    return value


def _spark_version(value: Any) -> Any:
    """That of this environment may be one that is not released."""
    if value != spark_versions.here() and _numbers(value, "Spark", "3.5.7") < _OLDEST_SPARK:
        raise WrongValueError("spark-too-old", f"Spark {value} is too old; the oldest that can be tested is 3.5.0")
    return value


def _of_brokers(config: Mapping[str, str]) -> Mapping[str, str]:
    for name in config:
        if name in _SETTINGS_OF_OURS or name.startswith(_FAMILIES_OF_OURS):
            raise WrongValueError(
                "setting-of-ours",
                f"{name} leads brokers and clients to each other, which is arranged here already; leave it out",
            )
    return config


_Settings = Annotated[dict[str, Annotated[str, BeforeValidator(text_of_setting)]], AfterValidator(_of_brokers)]


class KafkaSpec(Declared):
    """The brokers."""

    brokers: Annotated[int, Field(strict=True, ge=3, le=MOST_BROKERS)] = 3
    """how many."""
    version: Annotated[str, BeforeValidator(_kafka_version)] = Field(default_factory=jars.kafka_version)
    """all three numbers, e.g. ``3.9.1``, from 3.3.1 on; the default is the one that ``chaos parts`` shows. It may be an axis of
    a matrix.
    """
    config: _Settings = Field(default_factory=dict)
    """settings of each broker, beside ours, and over them."""


class SparkSpec(Declared):
    """Spark's master and workers."""

    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 2
    """how many."""
    version: Annotated[str, BeforeValidator(_spark_version)] = Field(default_factory=spark_versions.here)
    """all three numbers, e.g. ``3.5.7``, from 3.5.0 on; of master, workers, drivers and Python workers. The default is the
    PySpark of this environment, which is that of the judge in any case. It may be an axis of a matrix, but not in containers.
    """


class SystemSpec(Declared):
    """What the pipeline runs on."""

    kafka: KafkaSpec = KafkaSpec()
    """its brokers."""
    spark: SparkSpec = SparkSpec()
    """its cluster of Spark."""
    services: Services = Field(default_factory=dict)
    """servers that a pipeline uses beside Kafka, by their names, each behind links of its own: ``app->service(NAME)``.
    ``{NAME}`` is where a pipeline finds it, ``HOST:PORT``.
    """

    def below(self, folder: Path) -> Self:
        """The same with whole paths."""
        return self.model_copy(update={"services": {name: spec.below(folder) for name, spec in self.services.items()}})


_SOURCE = "source"
_ASKED = "verify"
_NOT_THEN = "it was not asked when the scenario ran"
_PLUGINS = "plugins"


class Scenario(Declared):
    """One declared experiment."""

    name: Name
    """stable, because Allure's history is kept by name."""
    title: Annotated[str, StringConstraints(min_length=1)]
    """a sentence that says what happens, and what must hold."""
    tags: tuple[Tag, ...] = ()
    """become marks of pytest: ``pytest -m "chaos and broker"``."""
    matrix: dict[str, Any] = Field(default_factory=dict)
    """axes, which make many scenarios of this one, as below; with ``overrides`` for single cases. Of a
    case, its coordinates.
    """
    pipeline: Pipeline
    """what is under test: the name of one of ``pipelines``, ``{use: NAME, with: {parameter: value}}``, a declaration, or
    ``none``: the loader alone, whose topic is judged by its ledger.
    """
    system: SystemSpec | None = None
    """in place of that of the file."""
    topics: TopicSpecs = Field(default_factory=dict)
    """in place of those of the file."""
    workload: Workload = Workload()
    """what the loader sends."""
    faults: tuple[Fault, ...] = ()
    """what is broken; nothing, where there are none."""
    random: RandomFaults | None = None
    """what is broken by chance beside that."""
    leave_out: dict[VerifierName, Reason] = Field(default_factory=dict)
    """verifiers that are not asked, each with the reason."""
    isolation: Isolation = "read_committed"
    """as which reader the sink is read for judging."""
    recovery_slo_s: SomeSeconds = Field(alias="recovery_slo", default=60.0)
    """how long the output may stand still after a fault, for the verifier ``progress``."""
    gives_up_after_s: SomeSeconds | None = Field(alias="gives_up_after", default=None)
    """how long a run waits where nothing moves: for the workload to pass, for a fault's moment, for output after a fault, and
    for the end. The default is three minutes. It must not be shorter than ``recovery_slo``.
    """
    expect: Expected = "valid"
    """``valid``; ``not_sent``, if the client never sends the request of the trigger; or, for single verifiers, ``valid``,
    ``invalid`` (a control: an anomaly must be found), or how often each anomaly must be found, and no other, e.g.
    ``{duplicates: {duplicate: 1}}``. Where the fault cannot be aimed that exactly, it is a range, ``100..400``, or ``100..``
    for at least 100; ``some`` is once or more, whatever else that verifier finds.
    """
    ends: Reason | None = None
    """the pipeline must end by itself, and its error, or the last line of its log, must have this text."""
    unsafe: Annotated[bool, Field(strict=True)] = False
    """allows faults that together may take down more brokers than min ISR tolerates."""

    def lasting(self, minutes: float) -> Self:
        """The same scenario with a workload that lasts for so many minutes; what fills further topics is as long as it was."""
        records = round(60 * minutes * self.workload.rate_per_s)
        return self.model_copy(update={"workload": self.workload.model_copy(update={"records": records})})

    def among(self, topics: TopicSpecs) -> Self:
        """The same scenario with these topics, if it has none of its own."""
        return self if self.topics else self.model_copy(update={"topics": topics})

    @property
    def source(self) -> str:
        """The topic that the loader fills; "" where none is declared."""
        return self.workload.into or next(iter(self.pipeline.reads or self.topics), "")

    @property
    def filled(self) -> Mapping[str, Filling]:
        """Topic -> what it is filled with."""
        return {self.source: self.workload} | {one.into: one for one in self.workload.also}

    @property
    def marks(self) -> Mapping[str, str]:
        """Topic that is filled -> what tells its evidence, loader and files from those of others: "" for one, or ``-TOPIC``."""
        return {topic: f"-{topic}" if number else "" for number, topic in enumerate(self.filled)}

    @property
    def subjects(self) -> Mapping[str, str]:
        """Topic that is filled -> what its evidence is called, and findings about it: ``source``, or ``source-TOPIC``."""
        return {topic: f"{_SOURCE}{mark}" for topic, mark in self.marks.items()}

    @property
    def sink(self) -> str:
        """The topic that the pipeline writes; "" where there is no pipeline, and where it writes a table."""
        return self.pipeline.sink.topic if self.pipeline.sink else ""

    @property
    def table(self) -> TableSink | None:
        """The table that the pipeline writes; None where it writes a topic, and where there is no pipeline."""
        return self.pipeline.sink.table if self.pipeline.sink else None

    @property
    def used(self) -> tuple[str, ...]:
        """The topics that a run has: those that are filled, read or written, and those that texts name otherwise."""
        of_rows = (text for one in self.workload.fillings if one.rows for text in one.rows.texts.values())
        texts = (text for text, _ in (*self.pipeline.texts.values(), *of_rows))
        named = (name for text in texts for name in names_in(text) if name in self.topics)
        own = (*self.filled, *self.pipeline.reads, self.sink, *named)
        return tuple(dict.fromkeys(name for name in own if name))

    @property
    def keeps_partitions(self) -> bool:
        """Whether a record must be in the partition of the sink that it had in the source."""
        if self.pipeline.sink is None or self.pipeline.sink.routing is not None:
            return self.pipeline.sink is None or self.pipeline.sink.routing == "same"
        if self.table is not None or self.workload.also:
            return False
        return self.topics[self.source].partitions == self.topics[self.sink].partitions

    def below(self, folder: Path) -> Self:
        """The same scenario; paths that it has are below this folder, unless they are whole."""
        workload = self.workload.below(folder)
        pipeline = self.pipeline.below(folder)
        system = self.system.below(folder) if self.system else None
        return self.model_copy(update={"pipeline": pipeline, "workload": workload, "system": system})

    def without(self, names: Iterable[str], reason: str) -> Self:
        """The same scenario, where these verifiers are not asked."""
        unasked = {name: reason for name in names if name in self.verify}
        return self.model_copy(update={"leave_out": {**self.leave_out, **unasked}}) if unasked else self

    def to_run(self) -> str:
        """As JSON for the run directory, with the verifiers that are asked, and the packages that other words come from.

        A later version may know more verifiers, and another machine may lack a package.
        """
        picked = [pick.fault for pick in self.random.pick] if self.random else []
        kinds = {fault.kind for fault in (*self.faults, *picked)}
        generators = {name for one in self.workload.fillings if one.rows for name in one.rows.generators}
        brought = {
            _FAULTS.group: _FAULTS.used(kinds),
            _VERIFIERS.group: _VERIFIERS.used(self.verify),
            _GENERATORS.group: _GENERATORS.used(generators),
            _READERS.group: _READERS.used(self.pipeline.sink.readers if self.pipeline.sink else ()),
        }
        added = {_ASKED: self.verify, _PLUGINS: brought}
        return json.dumps(self.model_dump(mode="json", by_alias=True) | added, indent=1)

    @classmethod
    def of_run(cls, text: str) -> Self:
        """What `to_run` has written: what was not asked then has no evidence, and is not asked now.

        Raises:
            PluginError: it has words of a package that is not installed here.
        """
        declared = json.loads(text)
        asked = declared.pop(_ASKED)
        known: Mapping[str, Collection[str]] = {_FAULTS.group: FAULTS, _VERIFIERS.group: NAMES}
        brought = declared.pop(_PLUGINS, {})
        for group, there in known.items():  # what generators and readers gave is in the folder of the run
            for word, origin in brought.get(group, {}).items():
                if word not in there:
                    raise PluginError(f"{word!r} came from {origin}, which is not installed here: install it to judge this run")
        scenario = cls.model_validate(declared)
        return scenario.without((name for name in scenario.verify if name not in asked), _NOT_THEN)

    @property
    def speaks(self) -> frozenset[str]:
        """Of what the program under test makes statements: ``transactions``, ``deliveries`` (docs/adapters.md)."""
        if self.pipeline.sink is None and self.workload.producer.transaction_records:
            return frozenset({"transactions"})  # of our own loader
        return self.pipeline.statements

    @property
    def applicable(self) -> tuple[VerifierName, ...]:
        """The verifiers that have something to judge: a loader has no positions, and few programs say what they are told."""
        there = {
            TRANSACTIONS: not self.pipeline.way.compares_rows or self.pipeline.rows_per_record is not None,
            "offsets": self.pipeline.has_positions,
            "commits": Capability.CONSUMER_GROUP in self.pipeline.capabilities,
            PRECEDENCE: self._promises_rows_first,
            "outcomes": "transactions" in self.speaks,
            "deliveries": "deliveries" in self.speaks,
        }
        there |= dict.fromkeys(self._not_of_sink, False)
        there |= dict.fromkeys(self.pipeline.way.left_out, False)
        views = {"commits": there["commits"], "told": there["outcomes"], "deliveries": there["deliveries"]}
        views |= dict.fromkeys(("looks", "reached"), there[PRECEDENCE])
        for name, verifier in _VERIFIERS.things.items():
            has_log = "source" in verifier.subjects or self.pipeline.sink is not None
            there[name] = has_log and all(views.get(view, True) for view in verifier.views)
        return tuple(name for name in NAMES if there.get(name, True))

    @property
    def left_out(self) -> Mapping[str, str]:
        """Verifier -> why it is not asked, also where that follows from the declaration of the pipeline."""
        if self.pipeline.way.left_out:
            return {**self.leave_out, **self.pipeline.way.left_out}
        if self._not_of_sink:
            return {**self._not_of_sink, **self.leave_out}
        if self.pipeline.sink is None or self.pipeline.has_positions:
            return self.leave_out
        return {**self.leave_out, **dict.fromkeys(("offsets", "commits", PRECEDENCE), "positions: none")}

    @property
    def _promises_rows_first(self) -> bool:
        """Whether a group holds the positions of a pipeline whose rows are known, and that promises more than at most once."""
        with_group = Capability.CONSUMER_GROUP in self.pipeline.capabilities and self.pipeline.way.compares_rows
        return with_group and self.pipeline.delivery != "at_most_once"

    @property
    def _not_of_sink(self) -> Mapping[str, str]:
        """Verifiers that its sink gives nothing to judge, with the reason."""
        return self.pipeline.sink.not_asked(self.topics) if self.pipeline.sink else {}

    @property
    def verify(self) -> tuple[str, ...]:
        """The verifiers that are asked, in the order of reports."""
        return tuple(name for name in self.applicable if name not in self.leave_out)

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """Verifier -> the verdict that it must come to."""
        return {name: "valid" if self._named.get(name, "valid") == "valid" else "invalid" for name in self.verify}

    @property
    def exactly(self) -> Mapping[str, Mapping[str, int | str]]:
        """Verifier -> anomaly -> its count, a range, or ``some``, for verifiers whose anomalies are predicted too."""
        return {name: counts for name, counts in self._named.items() if isinstance(counts, Mapping)}

    @property
    def _named(self) -> dict[str, Any]:
        return {str(name): expected for name, expected in self.expect.items()} if isinstance(self.expect, Mapping) else {}

    @property
    def is_control(self) -> bool:
        """Whether a verifier must find something wrong."""
        return "invalid" in self.expected.values()

    @model_validator(mode="after")
    def _sees_recoveries(self) -> Self:
        """A run that gives up before a recovery is too slow would never see one that is."""
        if self.gives_up_after_s is not None and self.gives_up_after_s < self.recovery_slo_s:
            given_up, slo = text_of_seconds(self.gives_up_after_s), text_of_seconds(self.recovery_slo_s)
            raise WrongValueError(
                "gives-up-too-early",
                f"gives_up_after: {given_up} is shorter than recovery_slo: {slo}, so no recovery could be too slow; "
                f"write recovery_slo: {given_up} as well, or gives_up_after: {slo}",
            )
        return self

    @model_validator(mode="after")
    def _name_faults(self) -> Self:
        """Give faults without a name the name of their kind and their number in it, e.g. ``kill_broker-1``."""
        counts: dict[str, int] = {}
        named = []
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
            named.append(fault if fault.name else fault.model_copy(update={"name": f"{fault.kind}-{counts[fault.kind]}"}))
        object.__setattr__(self, "faults", tuple(named))
        return self


def _version(value: Any) -> Any:
    if isinstance(value, bool) or value != VERSION:
        raise WrongValueError("unknown-version", f"version {shown(value)} is not known; write version: {VERSION}")
    return value


class ScenarioFileModel(Declared):
    """A scenarios file: what is under test, and the experiments with it."""

    version: Annotated[Literal[2], BeforeValidator(_version)]
    """of the grammar."""
    system: SystemSpec = SystemSpec()
    """what every scenario runs on that has none of its own."""
    topics: TopicSpecs = Field(default_factory=dict)
    """their names, as the file calls them, and what they are; those of every scenario that has none of its own."""
    pipelines: dict[PipelineName, Pipeline] = Field(default_factory=dict)
    """their names and declarations. One may have ``parameters`` with their defaults, which are placeholders in it."""
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]
    """at least one."""
