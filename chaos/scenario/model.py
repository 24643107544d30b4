"""The grammar of `scenarios.yaml`, version 1. Field names have units; aliases are the keys in YAML.

Faults are in `chaos.faults`, their triggers in `chaos.grammar.triggers`, pipelines in `chaos.scenario.pipelines`.

A scenario can expect ``valid``; of single verifiers ``invalid``, or the exact anomaly: ``{duplicates: {duplicate: 1}}``; and
``not_sent``, if its client never sends the request that its fault waits for.
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
    """The records that the loader writes to the source topic."""

    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)

    @property
    def loading_s(self) -> float:
        """How long loading takes if nothing is broken."""
        return self.records / self.rate_per_s


def _expectation(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    outcomes = get_args(Outcome)
    if value in outcomes or isinstance(value, Mapping):
        return value
    hint = "" if value == "invalid" else did_you_mean(value, outcomes)
    allowed = "write valid, or, for a control, what its verifiers must find: {duplicates: invalid}"
    raise ValueError(f"{shown(value)} is not an expectation{hint}; {allowed}")


def _prediction(value: Any) -> Any:
    """``valid``, ``invalid``, or exact counts of anomalies."""
    if value in get_args(Expectation) or isinstance(value, Mapping):
        return value
    hint = did_you_mean(value, get_args(Expectation))
    raise ValueError(f"{shown(value)} is not known here{hint}; write valid or invalid, or the exact anomaly: {{duplicate: 1}}")


Count = Annotated[int, Field(strict=True, ge=1)]
Counts = Annotated[dict[str, Count], Field(min_length=1)]
Prediction = Annotated[Expectation | Counts, BeforeValidator(_prediction)]
Expected = Annotated[Outcome | dict[VerifierName, Prediction], BeforeValidator(_expectation)]


class Scenario(Declared):
    """One declared experiment. `matrix` holds the coordinates, axis -> word, of a case of `chaos.scenario.matrix`."""

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
        """The same scenario with a workload that lasts for so many minutes."""
        records = round(60 * minutes * self.workload.rate_per_s)
        return self.model_copy(update={"workload": self.workload.model_copy(update={"records": records})})

    @property
    def expected(self) -> Mapping[str, Expectation]:
        """Verifier -> the verdict that it must come to."""
        return {name: "valid" if self._named.get(name, "valid") == "valid" else "invalid" for name in self.verify}

    @property
    def exactly(self) -> Mapping[str, Mapping[str, int]]:
        """Verifier -> anomaly -> its count, for verifiers whose counts are predicted too."""
        return {name: counts for name, counts in self._named.items() if isinstance(counts, Mapping)}

    @property
    def _named(self) -> dict[str, Any]:
        return {str(name): expected for name, expected in self.expect.items()} if isinstance(self.expect, Mapping) else {}

    @property
    def is_control(self) -> bool:
        """Whether a verifier must find something wrong."""
        return "invalid" in self.expected.values()

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


class KafkaSpec(Declared):
    brokers: Annotated[int, Field(strict=True, ge=3, le=MOST_BROKERS)] = 3


class SparkSpec(Declared):
    workers: Annotated[int, Field(strict=True, ge=1, le=MOST_WORKERS)] = 2


class SystemSpec(Declared):
    kafka: KafkaSpec = KafkaSpec()
    spark: SparkSpec = SparkSpec()


def _version(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        raise ValueError(f"version {shown(value)} is not known; write version: 1")
    return value


class ScenarioFileModel(Declared):
    version: Annotated[Literal[1], BeforeValidator(_version)]
    system: SystemSpec = SystemSpec()
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]
