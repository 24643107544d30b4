"""The grammar of `scenarios.yaml`, version 1. Field names carry units; what is written in YAML is the alias.

Faults are in `chaos.scenario.faults`, their moments in `chaos.scenario.moments`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from chaos.scenario.declared import Declared, Name, Tag
from chaos.scenario.faults import Fault
from chaos.scenario.units import PerSecond
from chaos.scenario.words import did_you_mean, shown

PARTITIONS = 3
MOST_BROKERS = 5
_MAX_LOADING_S = 600.0

VerifierName = Literal["duplicates", "gaps", "ordering", "values"]
Expectation = Literal["valid", "invalid"]


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
