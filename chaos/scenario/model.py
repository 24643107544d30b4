"""The grammar of `scenarios.yaml`, version 1. Field names carry units; what is written in YAML is the alias.

Faults are in `chaos.faults`, their moments in `chaos.grammar.triggers`, pipelines in `chaos.scenario.pipelines`.

What a scenario may expect: ``valid``; of single verifiers ``invalid``, or the exact anomaly, ``{duplicates: {duplicate: 1}}``;
``not_sent`` of a case whose request this client never sends.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from chaos.faults.registry import Fault
from chaos.grammar.base import Declared, Name, Tag, did_you_mean, shown
from chaos.grammar.units import PerSecond, SomeSeconds
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.random_faults import RandomFaults

MOST_BROKERS = 5
MOST_WORKERS = 4

VerifierName = Literal["duplicates", "gaps", "ordering", "values", "atomicity", "offsets", "ledger", "stability", "progress"]
Expectation = Literal["valid", "invalid"]
Outcome = Literal["valid", "not_sent"]
Isolation = Literal["read_committed", "read_uncommitted"]


class Workload(Declared):
    """What fills the source."""

    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)

    @property
    def loading_s(self) -> float:
        """How long it takes when nothing is broken."""
        return self.records / self.rate_per_s


def _expectation(value: Any) -> Any:
    """Turn away what is neither a word nor a mapping, so that errors inside the mapping speak of the mapping."""
    words = get_args(Outcome)
    if value in words or isinstance(value, Mapping):
        return value
    hint = "" if value == "invalid" else did_you_mean(value, words)
    raise ValueError(
        f"{shown(value)} is no expectation{hint}; write valid, or what a control must say: {{duplicates: invalid}}"
    )


def _prediction(value: Any) -> Any:
    """``valid``, ``invalid``, or the anomalies of a control with their counts."""
    if value in get_args(Expectation) or isinstance(value, Mapping):
        return value
    hint = did_you_mean(value, get_args(Expectation))
    raise ValueError(f"{shown(value)} is not known here{hint}; write valid or invalid, or the exact anomaly: {{duplicate: 1}}")


Count = Annotated[int, Field(strict=True, ge=1)]
Counts = Annotated[dict[str, Count], Field(min_length=1)]
Prediction = Annotated[Expectation | Counts, BeforeValidator(_prediction)]
Expected = Annotated[Outcome | dict[VerifierName, Prediction], BeforeValidator(_expectation)]


class Scenario(Declared):
    """One declared experiment; in a case of a `matrix` (`chaos.scenario.matrix`) that holds its coordinates: axis -> word."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1)]
    tags: tuple[Tag, ...] = ()
    matrix: dict[str, Any] = Field(default_factory=dict)
    pipeline: Pipeline
    workload: Workload = Workload()
    faults: tuple[Fault, ...] = ()
    random: RandomFaults | None = None
    verify: Annotated[tuple[VerifierName, ...], Field(min_length=1)] = ("duplicates", "gaps", "ordering", "values")
    isolation: Isolation = "read_committed"
    recovery_slo_s: SomeSeconds = Field(alias="recovery_slo", default=60.0)
    expect: Expected = "valid"

    def lasting(self, minutes: float) -> Self:
        """The same scenario with a workload of so many minutes."""
        records = round(60 * minutes * self.workload.rate_per_s)
        return self.model_copy(update={"workload": self.workload.model_copy(update={"records": records})})

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """Verifier -> what it must say of the pipeline's output."""
        return {name: _word(self._named.get(name, "valid")) for name in self.verify}

    @property
    def exactly(self) -> Mapping[str, Mapping[str, int]]:
        """Verifier -> anomaly -> how often, for those whose count is predicted too."""
        return {name: counts for name, counts in self._named.items() if isinstance(counts, Mapping)}

    @property
    def _named(self) -> dict[str, Any]:
        return {str(name): said for name, said in self.expect.items()} if isinstance(self.expect, Mapping) else {}

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


def _word(prediction: Any) -> Expectation:
    return "valid" if prediction == "valid" else "invalid"


class KafkaSpec(Declared):
    """The cluster."""

    brokers: Annotated[int, Field(strict=True, ge=3, le=MOST_BROKERS)] = 3


class SparkSpec(Declared):
    """The Spark cluster."""

    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 2


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
