"""The grammar of `scenarios.yaml`, version 2. Field names have units; aliases are the keys in YAML.

Faults are in `chaos.faults`, their triggers in `chaos.grammar.triggers`.

Every verifier that applies to the pipeline runs, except those that a scenario leaves out with a reason. A scenario can expect
``valid``; for single verifiers ``invalid``, or the exact anomaly: ``{duplicates: {duplicate: 1}}``; and ``not_sent``, if its
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
        raise WrongValueError("when-of-random-fault", "a random fault strikes at a random time; leave `when` out")
    if "until" in value or "name" in value:
        raise WrongValueError("name-of-random-fault", "a random fault may happen several times; leave `name` and `until` out")
    return {**value, "when": {"after": "0s"}}


def _as_declared(fault: Fault) -> dict[str, Any]:
    """Dump the fault without the keys that `_without_trigger` refuses."""
    return fault.model_dump(mode="json", exclude={"when", "until", "name"})


class Pick(Declared):
    """A fault that may happen, and its weight in the draw."""

    weight: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    """how often this fault is drawn, compared with the others."""
    fault: Annotated[
        Fault,
        BeforeValidator(_without_trigger),
        PlainSerializer(_as_declared),
        WithJsonSchema({"title": "fault without `when`", "type": "object", "required": ["kind"]}),
    ]
    """as in ``faults``, but without ``when``, ``until`` and ``name``."""


class RandomFaults(Declared):
    """Random faults: which may happen, and how often; a seed decides when.

        random:
          every: 15s                      # a round has one fault of `pick`, or none
          quiet: 25%                      # the share of rounds without a fault (a quarter, as in Jepsen's nemesis package)
          pick:
            - {weight: 3, fault: {kind: kill_broker, target: any}}
            - {fault: {kind: cut_link, link: "pipeline->any", for: 5s}}

    Everything is drawn before the run, with the scenario's seed, and the schedule lists the result. Only one fault is in
    force at a time: a round waits until the fault before it is healed and the output has grown again. Rounds that are still
    waiting when the whole workload has passed are skipped.
    """

    every_s: SomeSeconds = Field(alias="every")
    """the length of a round."""
    quiet: Percent = 25.0
    """the share of rounds without a fault."""
    pick: Annotated[tuple[Pick, ...], Field(min_length=1)]
    """the faults to draw from."""

    def drawn(self, seed: int, lasts_s: float) -> Iterator[Fault]:
        """Draw the faults for a workload of so many seconds, with names and triggers; the last round leaves time to recover."""
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
    """Settings of the loader's producer.

    With ``batch_records: 1`` and ``in_flight: 1`` the counts of anomalies are exact.
    """

    idempotence: Annotated[bool, Field(strict=True)] = True
    """whether brokers drop a record that a retry sends again; it needs ``acks: all``."""
    acks: Literal["all", 1] = "all"
    """which replicas must have a record before it is acknowledged: all in-sync replicas, or the leader alone."""
    batch_records: Records | None = None
    """the number of records in one request; the default is as many as come within 50 ms."""
    in_flight: Annotated[int, Field(strict=True, ge=1, le=5)] = 5
    """the number of requests that may be unanswered on one connection."""
    transaction_records: Records | None = None
    """the number of records in a transaction; without it, the loader uses no transactions."""

    @model_validator(mode="after")
    def _idempotent_needs_all(self) -> Self:
        if self.idempotence and self.acks != "all":
            raise WrongValueError(
                "idempotence-without-acks", "an idempotent producer needs acks: all; write that, or idempotence: false"
            )
        if self.transaction_records and not self.idempotence:
            raise WrongValueError(
                "transactions-without-idempotence",
                "transaction_records needs idempotence: true and acks: all; write both, or leave transaction_records out",
            )
        return self


class Filling(Declared):
    """The records that a loader writes to one topic."""

    into: TopicName | Literal[""] = ""
    """the topic."""
    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    """the number of records; without it, all rows that the file, function or generator of ``rows`` has."""
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)
    """the number of records in a second."""
    refused: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """the number of records that brokers reject for good, for example because they are too large. If they reject another
    number, the workload was not the declared one, and the run is UNKNOWN.
    """
    producer: Producer = Producer()
    """settings of the producer."""
    rows: Rows | None = None
    """the content of the records; the default is the integers 0, 1, 2, …, as keys and values, with id i in partition i mod the
    number of partitions.
    """

    @model_validator(mode="after")
    def _some_are_written(self) -> Self:
        if self.refused >= self.records and self.wanted is not None:
            raise WrongValueError(
                "all-refused",
                f"refused: {self.refused} of {self.records} records leaves no record to write; write a smaller number",
            )
        return self

    @model_validator(mode="after")
    def _of_user_loader(self) -> Self:
        if self.rows is None or not self.rows.SENDS_ITSELF:
            return self
        if "records" not in self.model_fields_set:
            raise WrongValueError(
                "own-loader-without-records",
                "records is missing: the run must know how many rows: {command: …} sends; write e.g. records: 20000",
            )
        if self.producer != Producer():
            raise WrongValueError(
                "own-loader-with-producer",
                "producer configures the built-in loader, but rows: {command: …} replaces it; leave producer out",
            )
        return self

    @property
    def wanted(self) -> int | None:
        """The required number of the user's rows; None if a file, a function or a generator decides it."""
        leaves_open = self.rows is not None and self.rows.KNOWS_COUNT and "records" not in self.model_fields_set
        return None if leaves_open else self.records

    def below(self, folder: Path) -> Self:
        """Resolve paths, and take the number of records from a file if none is declared."""
        if self.rows is None:
            return self
        rows = self.rows.below(folder)
        count = rows.count() if self.wanted is None else None
        return self.model_copy(update={"rows": rows, **({"records": count} if count else {})})

    @property
    def sending_s(self) -> float:
        """Seconds for sending the records if nothing is broken."""
        return self.records / self.rate_per_s


class AlsoFilled(Filling):
    """The records that a further loader writes, at the same time, to another topic that the pipeline reads."""

    into: TopicName
    """the topic; it must differ from the topics that are listed before it."""


class Workload(Filling):
    """The records that the loader writes to the source topic, and further loaders to other topics."""

    into: TopicName | Literal[""] = ""
    """the topic; it may be left out if the pipeline reads one topic or, with ``pipeline: none``, if the file declares one."""
    also: tuple[AlsoFilled, ...] = ()
    """further topics that the pipeline reads. A loader with a ledger of its own fills each at the same time, and all topics
    together decide what the sink must hold.
    """

    @property
    def fillings(self) -> tuple[Filling, ...]:
        """The filling of each topic."""
        return (self, *self.also)

    @property
    def has_user_loader(self) -> bool:
        """Whether a user's program fills one of the topics, so that its records are not known beforehand."""
        return any(one.rows is not None and one.rows.SENDS_ITSELF for one in self.fillings)

    @property
    def may_use_transactions(self) -> bool:
        """Whether a loader may write in transactions; a user's program always may."""
        return self.has_user_loader or any(one.producer.transaction_records for one in self.fillings)

    @property
    def total(self) -> int:
        """The number of records in all topics."""
        return sum(one.records for one in self.fillings)

    @property
    def loading_s(self) -> float:
        """Seconds for loading if nothing is broken; all loaders work at once."""
        return max(one.sending_s for one in self.fillings)

    def sending(self, records: Iterable[int]) -> Self:
        """Return this workload with these numbers of records, one for each topic."""
        own, *others = records
        also = tuple(one.model_copy(update={"records": count}) for one, count in zip(self.also, others, strict=True))
        return self.model_copy(update={"records": own, "also": also})

    def below(self, folder: Path) -> Self:
        """Resolve paths, and take the number of records from files where none is declared."""
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
    """Allow ``valid``, ``invalid``, or counts of anomalies."""
    if value in get_args(Expectation) or isinstance(value, Mapping):
        return value
    hint = did_you_mean(value, get_args(Expectation))
    raise WrongValueError(
        "not-a-prediction",
        f"{shown(value)} is not a verdict{hint}; write valid or invalid, or the exact anomaly: {{duplicate: 1}}",
    )


Prediction = Annotated[Expectation | Counts, BeforeValidator(_prediction)]
Expected = Annotated[Outcome | dict[VerifierName, Prediction], BeforeValidator(_expectation)]


def _numbers(value: Any, product: str, example: str) -> tuple[int, ...]:
    """Split a version into its three numbers; YAML reads ``4.0`` as a number."""
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
    """Allow the version of this environment in any case: it may be an unreleased one."""
    if value != spark_versions.here() and _numbers(value, "Spark", "3.5.7") < _OLDEST_SPARK:
        raise WrongValueError("spark-too-old", f"Spark {value} is too old; the oldest that can be tested is 3.5.0")
    return value


def _of_brokers(config: Mapping[str, str]) -> Mapping[str, str]:
    for name in config:
        if name in _SETTINGS_OF_OURS or name.startswith(_FAMILIES_OF_OURS):
            raise WrongValueError(
                "setting-of-ours",
                f"the framework sets {name} itself, so that brokers and clients find each other; leave it out",
            )
    return config


_Settings = Annotated[dict[str, Annotated[str, BeforeValidator(text_of_setting)]], AfterValidator(_of_brokers)]


class KafkaSpec(Declared):
    """The brokers."""

    brokers: Annotated[int, Field(strict=True, ge=3, le=MOST_BROKERS)] = 3
    """the number of brokers."""
    version: Annotated[str, BeforeValidator(_kafka_version)] = Field(default_factory=jars.kafka_version)
    """all three numbers, e.g. ``3.9.1``, from 3.3.1 on; the default is the version that ``chaos parts`` shows. It may be an
    axis of a matrix.
    """
    config: _Settings = Field(default_factory=dict)
    """settings of each broker; they override those of the framework."""


class SparkSpec(Declared):
    """Spark's master and workers."""

    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 2
    """the number of workers."""
    version: Annotated[str, BeforeValidator(_spark_version)] = Field(default_factory=spark_versions.here)
    """all three numbers, e.g. ``3.5.7``, from 3.5.0 on, for master, workers, drivers and Python workers. The default is the
    PySpark of this environment, which the judge always uses. It may be an axis of a matrix, but not in containers.
    """


class SystemSpec(Declared):
    """The system that the pipeline runs on."""

    kafka: KafkaSpec = KafkaSpec()
    """the brokers."""
    spark: SparkSpec = SparkSpec()
    """the Spark cluster."""
    services: Services = Field(default_factory=dict)
    """servers that a pipeline uses beside Kafka, by name, each behind links of its own: ``app->service(NAME)``. The placeholder
    ``{NAME}`` is the address ``HOST:PORT`` for the pipeline.
    """

    def below(self, folder: Path) -> Self:
        """Resolve paths."""
        return self.model_copy(update={"services": {name: spec.below(folder) for name, spec in self.services.items()}})


_SOURCE = "source"
_ASKED = "verify"
_NOT_THEN = "it was not part of the run"
_PLUGINS = "plugins"


class Scenario(Declared):
    """One declared experiment."""

    name: Name
    """a stable name, because Allure keeps its history by name."""
    title: Annotated[str, StringConstraints(min_length=1)]
    """a sentence about what happens, and what must hold."""
    tags: tuple[Tag, ...] = ()
    """marks of pytest: ``pytest -m "chaos and broker"``."""
    matrix: dict[str, Any] = Field(default_factory=dict)
    """axes, which make many scenarios of this one, as below; ``overrides`` changes single cases. In a single case, its
    coordinates.
    """
    pipeline: Pipeline
    """the pipeline under test: the name of one of ``pipelines``, ``{use: NAME, with: {parameter: value}}``, a declaration, or
    ``none``. With ``none`` only the loader is under test, and its ledger judges its topic.
    """
    system: SystemSpec | None = None
    """replaces the ``system`` of the file."""
    topics: TopicSpecs = Field(default_factory=dict)
    """replaces the ``topics`` of the file."""
    workload: Workload = Workload()
    """the records that the loader sends."""
    faults: tuple[Fault, ...] = ()
    """the faults to inject; without any, nothing is broken."""
    random: RandomFaults | None = None
    """random faults, in addition to ``faults``."""
    leave_out: dict[VerifierName, Reason] = Field(default_factory=dict)
    """verifiers that do not run, each with the reason."""
    isolation: Isolation = "read_committed"
    """the isolation level for reading the sink when it is judged."""
    recovery_slo_s: SomeSeconds = Field(alias="recovery_slo", default=60.0)
    """how long the output may stand still after a fault, for the verifier ``progress``."""
    gives_up_after_s: SomeSeconds | None = Field(alias="gives_up_after", default=None)
    """how long a run waits without any progress: for the workload to pass, for the moment of a fault, for output after a fault,
    and for the end. The default is three minutes. It must not be shorter than ``recovery_slo``.
    """
    expect: Expected = "valid"
    """``valid``; ``not_sent``, if the client never sends the request of the trigger; or, for single verifiers, ``valid``,
    ``invalid`` (a control: an anomaly must be found), or the exact count of each anomaly, without any other, e.g.
    ``{duplicates: {duplicate: 1}}``. If the fault cannot be aimed that exactly, write a range, ``100..400``, or ``100..`` for
    at least 100; ``some`` means once or more, whatever else that verifier finds.
    """
    ends: Reason | None = None
    """the pipeline must end by itself, and its error or the last line of its log must contain this text."""
    unsafe: Annotated[bool, Field(strict=True)] = False
    """allows faults that together may take down more brokers than min ISR tolerates."""

    def lasting(self, minutes: float) -> Self:
        """Return this scenario with a workload of so many minutes; the fillings of further topics keep their length."""
        records = round(60 * minutes * self.workload.rate_per_s)
        return self.model_copy(update={"workload": self.workload.model_copy(update={"records": records})})

    def among(self, topics: TopicSpecs) -> Self:
        """Return this scenario with these topics, unless it has its own."""
        return self if self.topics else self.model_copy(update={"topics": topics})

    @property
    def source(self) -> str:
        """The topic that the loader fills; "" if none is declared."""
        return self.workload.into or next(iter(self.pipeline.reads or self.topics), "")

    @property
    def filled(self) -> Mapping[str, Filling]:
        """Topic -> its filling."""
        return {self.source: self.workload} | {one.into: one for one in self.workload.also}

    @property
    def marks(self) -> Mapping[str, str]:
        """Filled topic -> the suffix of its evidence, loader and files: "" for the first topic, ``-TOPIC`` for others."""
        return {topic: f"-{topic}" if number else "" for number, topic in enumerate(self.filled)}

    @property
    def subjects(self) -> Mapping[str, str]:
        """Filled topic -> the name of its evidence and findings: ``source``, or ``source-TOPIC``."""
        return {topic: f"{_SOURCE}{mark}" for topic, mark in self.marks.items()}

    @property
    def sink(self) -> str:
        """The topic that the pipeline writes; "" without a pipeline, or if it writes a table."""
        return self.pipeline.sink.topic if self.pipeline.sink else ""

    @property
    def table(self) -> TableSink | None:
        """The table that the pipeline writes; None without a pipeline, or if it writes a topic."""
        return self.pipeline.sink.table if self.pipeline.sink else None

    @property
    def used(self) -> tuple[str, ...]:
        """The topics of a run: those that are filled, read or written, and those that other texts name."""
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
        """Resolve paths below this folder."""
        workload = self.workload.below(folder)
        pipeline = self.pipeline.below(folder)
        system = self.system.below(folder) if self.system else None
        return self.model_copy(update={"pipeline": pipeline, "workload": workload, "system": system})

    def without(self, names: Iterable[str], reason: str) -> Self:
        """Return this scenario without these verifiers."""
        unasked = {name: reason for name in names if name in self.verify}
        return self.model_copy(update={"leave_out": {**self.leave_out, **unasked}}) if unasked else self

    def to_run(self) -> str:
        """Write the scenario as JSON for the run directory, with its verifiers, and the packages that added its words.

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
        """Read a scenario that `to_run` has written; verifiers that did not run then have no evidence, and do not run now.

        Raises:
            PluginError: a word comes from a package that is not installed here.
        """
        declared = json.loads(text)
        asked = declared.pop(_ASKED)
        known: Mapping[str, Collection[str]] = {_FAULTS.group: FAULTS, _VERIFIERS.group: NAMES}
        brought = declared.pop(_PLUGINS, {})
        for group, there in known.items():  # the output of generators and readers is in the folder of the run
            for word, origin in brought.get(group, {}).items():
                if word not in there:
                    raise PluginError(f"{word!r} came from {origin}, which is not installed here: install it to judge this run")
        scenario = cls.model_validate(declared)
        return scenario.without((name for name in scenario.verify if name not in asked), _NOT_THEN)

    @property
    def speaks(self) -> frozenset[str]:
        """The kinds of statements that the program under test makes: ``transactions``, ``deliveries`` (docs/adapters.md)."""
        if self.pipeline.sink is None and self.workload.producer.transaction_records:
            return frozenset({"transactions"})  # of our own loader
        return self.pipeline.statements

    @property
    def applicable(self) -> tuple[VerifierName, ...]:
        """The verifiers that have something to judge: a loader has no positions, and few programs make statements."""
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
        """Verifier -> why it does not run; some reasons follow from the declaration of the pipeline."""
        if self.pipeline.way.left_out:
            return {**self.leave_out, **self.pipeline.way.left_out}
        if self._not_of_sink:
            return {**self._not_of_sink, **self.leave_out}
        if self.pipeline.sink is None or self.pipeline.has_positions:
            return self.leave_out
        return {**self.leave_out, **dict.fromkeys(("offsets", "commits", PRECEDENCE), "positions: none")}

    @property
    def _promises_rows_first(self) -> bool:
        """Whether the pipeline has its positions in a group, has expected rows, and promises more than at most once."""
        with_group = Capability.CONSUMER_GROUP in self.pipeline.capabilities and self.pipeline.way.compares_rows
        return with_group and self.pipeline.delivery != "at_most_once"

    @property
    def _not_of_sink(self) -> Mapping[str, str]:
        """Verifiers that have nothing to judge in this sink, with the reason."""
        return self.pipeline.sink.not_asked(self.topics) if self.pipeline.sink else {}

    @property
    def verify(self) -> tuple[str, ...]:
        """The verifiers that run, in the order of reports."""
        return tuple(name for name in self.applicable if name not in self.leave_out)

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """Verifier -> its expected verdict."""
        return {name: "valid" if self._named.get(name, "valid") == "valid" else "invalid" for name in self.verify}

    @property
    def exactly(self) -> Mapping[str, Mapping[str, int | str]]:
        """Verifier -> anomaly -> its count, a range, or ``some``; for verifiers whose anomalies are predicted."""
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
        """Refuse a run that would give up before a recovery can be too slow."""
        if self.gives_up_after_s is not None and self.gives_up_after_s < self.recovery_slo_s:
            given_up, slo = text_of_seconds(self.gives_up_after_s), text_of_seconds(self.recovery_slo_s)
            raise WrongValueError(
                "gives-up-too-early",
                f"gives_up_after: {given_up} is shorter than recovery_slo: {slo}, so the run ends before a recovery can be too "
                f"slow; write recovery_slo: {given_up} as well, or gives_up_after: {slo}",
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
    """A scenarios file: pipelines under test, and the experiments with them."""

    version: Annotated[Literal[2], BeforeValidator(_version)]
    """the version of the grammar."""
    system: SystemSpec = SystemSpec()
    """the system of every scenario that has none of its own."""
    topics: TopicSpecs = Field(default_factory=dict)
    """topics by name, for every scenario that has none of its own."""
    pipelines: dict[PipelineName, Pipeline] = Field(default_factory=dict)
    """pipelines by name. A declaration may have ``parameters`` with defaults, which are placeholders in it."""
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]
    """at least one scenario."""
