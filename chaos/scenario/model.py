"""The grammar of `scenarios.yaml`, version 2. Field names have units; aliases are the keys in YAML.

Each part of the grammar has a module: faults are in `chaos.faults`, their triggers in `chaos.grammar.triggers`, and the others
beside this one.

Every verifier that applies to the pipeline runs, except those that a scenario leaves out with a reason. A scenario can expect
``valid``; for single verifiers ``invalid``, or the exact anomaly: ``{duplicates: {duplicate: 1}}``; and ``not_sent``, if its
client never sends the request that its fault waits for.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from chaos.contract.placeholders import names_in
from chaos.faults.registry import Fault
from chaos.grammar.base import Declared, Name, Tag, WrongValueError, did_you_mean, shown
from chaos.grammar.counts import Counts
from chaos.grammar.units import SomeSeconds, text_of_seconds
from chaos.runtime.capabilities import Capability
from chaos.scenario import plugin_words
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.random_faults import RandomFaults
from chaos.scenario.sinks import TableSink
from chaos.scenario.system import SystemSpec
from chaos.scenario.topics import TopicSpecs
from chaos.scenario.verifiers import NAMES, PRECEDENCE, TRANSACTIONS, VerifierName
from chaos.scenario.verifiers import PLUGINS as _VERIFIERS
from chaos.scenario.workload import Filling, Workload

PipelineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([-_][a-z0-9]+)*$")]
VERSION = 2

Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Expectation = Literal["valid", "invalid"]
Outcome = Literal["valid", "not_sent"]
Isolation = Literal["read_committed", "read_uncommitted"]


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
    at least 100; ``some`` means once or more, whatever else that verifier finds. If ``progress`` is expected to find ``no
    recovery``, the run may stand still until its end; leave out the verifiers that cannot be sure then, e.g. ``gaps``.
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
        readers = self.pipeline.sink.readers if self.pipeline.sink else ()
        added = {_ASKED: self.verify, _PLUGINS: plugin_words.brought(kinds, self.verify, generators, readers)}
        return json.dumps(self.model_dump(mode="json", by_alias=True) | added, indent=1)

    @classmethod
    def of_run(cls, text: str) -> Self:
        """Read a scenario that `to_run` has written; verifiers that did not run then have no evidence, and do not run now.

        Raises:
            PluginError: a word comes from a package that is not installed here.
        """
        declared = json.loads(text)
        asked = declared.pop(_ASKED)
        plugin_words.require(declared.pop(_PLUGINS, {}))
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
