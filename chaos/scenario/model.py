"""The grammar of `scenarios.yaml`, version 1. Field names carry units; what is written in YAML is the alias.

To add a fault: a class here, an entry in `Fault`, its injection in `chaos/faults/`, its line in `chaos/faults/catalogue.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from chaos.scenario.targets import Broker, BrokerTarget, Executors, ExecutorTarget, Links
from chaos.scenario.units import Percent, PerSecond, Seconds, SomeSeconds, spoken_seconds
from chaos.scenario.words import did_you_mean, shown

PARTITIONS = 3
MOST_BROKERS = 5
_MAX_LOADING_S = 600.0
_STREAMS = {"up": "upstream", "down": "downstream", "both": "both ways"}

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
FaultName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(-[a-z0-9_]+)*$")]
Tag = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
VerifierName = Literal["duplicates", "gaps", "ordering", "values"]
Expectation = Literal["valid", "invalid"]
Stream = Literal["up", "down", "both"]


class Declared(BaseModel):
    """Frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class After(Declared):
    """`after: 5s`, counted from the moment when output flows."""

    after_s: Seconds = Field(alias="after")

    def __str__(self) -> str:
        return f"{spoken_seconds(self.after_s)} after output flows"


class Progress(Declared):
    """`progress: 40%` of the workload committed at the pipeline's output."""

    percent: Percent = Field(alias="progress")

    def __str__(self) -> str:
        return f"at {self.percent:g} % of the workload"


def _one_trigger(value: Any) -> Any:
    """Tell the two apart by their key, so that errors speak of one of them."""
    if isinstance(value, After | Progress):
        return value
    keys = list(value) if isinstance(value, Mapping) else []
    unknown = [key for key in keys if key not in _TRIGGERS]
    if unknown:
        raise ValueError(f"there is no trigger {shown(unknown[0])}{did_you_mean(unknown[0], _TRIGGERS)}; {_TRIGGERS_HELP}")
    if len(keys) != 1:
        raise ValueError(f"a trigger has exactly one key; {_TRIGGERS_HELP}")
    return (After if keys == ["after"] else Progress).model_validate(value)


_TRIGGERS = ("after", "progress")
_TRIGGERS_HELP = "write {after: 5s} or {progress: 40%}"
When = Annotated[After | Progress, BeforeValidator(_one_trigger)]


class FaultBase(Declared):
    """What all faults have."""

    name: FaultName = ""
    when: When

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        raise NotImplementedError


class LinkFault(FaultBase):
    """A fault of links, for a declared time, or until another fault of the scenario was proved, if that comes first."""

    link: Links
    for_s: SomeSeconds = Field(alias="for")
    until: FaultName | None = None

    @property
    def lasts(self) -> str:
        """How long, in words."""
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class CutLink(LinkFault):
    """Listener and connections of a link are closed: its clients learn at once."""

    kind: Literal["cut_link"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"cut_link {self.link} {self.lasts}"


class BlackholeLink(LinkFault):
    """A link swallows bytes: its clients learn by their own timeouts."""

    kind: Literal["blackhole_link"]
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"blackhole_link {self.link}, {_STREAMS[self.stream]}, {self.lasts}"


class DelayLink(LinkFault):
    """Everything on a link arrives later."""

    kind: Literal["delay_link"]
    latency_s: SomeSeconds = Field(alias="latency")
    jitter_s: Seconds = Field(alias="jitter", default=0.0)
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        jitter = f" ± {spoken_seconds(self.jitter_s)}" if self.jitter_s else ""
        late = f"{spoken_seconds(self.latency_s)}{jitter}"
        return f"delay_link {self.link} by {late}, {_STREAMS[self.stream]}, {self.lasts}"


class KillBroker(FaultBase):
    """Brokers die by SIGKILL, and are started again."""

    kind: Literal["kill_broker"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"kill_broker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class PauseBroker(FaultBase):
    """Brokers are frozen by SIGSTOP, and wake up as zombies."""

    kind: Literal["pause_broker"]
    target: Broker
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_broker {self.target} for {spoken_seconds(self.for_s)}"


class CrashExecutor(FaultBase):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    kind: Literal["crash_executor"]
    target: Executors = ExecutorTarget("busiest")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_executor {self.target}"


Fault = Annotated[CutLink | BlackholeLink | DelayLink | KillBroker | PauseBroker | CrashExecutor, Field(discriminator="kind")]


class SparkSquarePipeline(Declared):
    """Spark Structured Streaming: datasource -> square -> datasink."""

    kind: Literal["spark_square"]
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    batch_records: Annotated[int, Field(strict=True, ge=1)] = 3000


class FillSourcePipeline(Declared):
    """The loader alone: the source is judged against its ledger."""

    kind: Literal["fill_source"]
    idempotence: Annotated[bool, Field(strict=True)] = True


Pipeline = Annotated[SparkSquarePipeline | FillSourcePipeline, Field(discriminator="kind")]


class Workload(Declared):
    """What fills the source."""

    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)

    @property
    def loading_s(self) -> float:
        """How long it takes when nothing is broken."""
        return self.records / self.rate_per_s

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.loading_s > _MAX_LOADING_S:
            raise ValueError(
                f"{self.records} records at {self.rate_per_s:g}/s take {self.loading_s:.0f} s; "
                "a workload must end within 10 minutes: fewer records, or a higher rate"
            )
        return self


def _expectation(value: Any) -> Any:
    """Turn away what is neither a word nor a mapping, so that errors inside the mapping speak of the mapping."""
    if value == "valid" or isinstance(value, Mapping):
        return value
    hint = "" if value == "invalid" else did_you_mean(value, ["valid"])
    raise ValueError(
        f"{shown(value)} is no expectation{hint}; write valid, or what a control must say: {{duplicates: invalid}}"
    )


Expected = Annotated[Literal["valid"] | dict[VerifierName, Expectation], BeforeValidator(_expectation)]


class Scenario(Declared):
    """One declared experiment."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1)]
    tags: tuple[Tag, ...] = ()
    pipeline: Pipeline
    workload: Workload = Workload()
    faults: tuple[Fault, ...] = ()
    verify: Annotated[tuple[VerifierName, ...], Field(min_length=1)] = ("duplicates", "gaps", "ordering", "values")
    expect: Expected = "valid"

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """Verifier -> what it must say of the pipeline's output."""
        named = {} if self.expect == "valid" else self.expect
        return {name: named.get(name, "valid") for name in self.verify}

    @property
    def is_control(self) -> bool:
        """Whether it must be caught."""
        return "invalid" in self.expected.values()

    @model_validator(mode="after")
    def _name_faults(self) -> Self:
        """``kill_broker-1`` for the first fault of its kind that has no name."""
        counts: dict[str, int] = {}
        named = []
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
            named.append(fault if fault.name else fault.model_copy(update={"name": f"{fault.kind}-{counts[fault.kind]}"}))
        object.__setattr__(self, "faults", tuple(named))
        return self


class KafkaSpec(Declared):
    """The cluster."""

    brokers: Annotated[int, Field(strict=True, ge=3, le=MOST_BROKERS)] = 3


class SparkSpec(Declared):
    """The Spark cluster."""

    workers: Annotated[int, Field(strict=True, ge=1, le=4)] = 2


class SystemSpec(Declared):
    """What is started."""

    kafka: KafkaSpec = KafkaSpec()
    spark: SparkSpec = SparkSpec()


def _version(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        raise ValueError(f"version {shown(value)} is not known; write version: 1")
    return value


class ScenarioFileModel(Declared):
    """A whole file."""

    version: Annotated[Literal[1], BeforeValidator(_version)]
    system: SystemSpec = SystemSpec()
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]


def broker_targets(fault: Fault) -> list[BrokerTarget]:
    """The broker targets that a fault names."""
    if isinstance(fault, LinkFault):
        return [end for end in (fault.link.left, fault.link.right) if isinstance(end, BrokerTarget)]
    return [fault.target] if isinstance(fault, KillBroker | PauseBroker) else []
