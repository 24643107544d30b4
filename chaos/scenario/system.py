"""The grammar of `system`: brokers, Spark and services that a pipeline runs on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field

from chaos.grammar.base import Declared, WrongValueError, shown
from chaos.grammar.units import text_of_setting
from chaos.install import jars, spark_versions
from chaos.scenario.services import Services

MOST_BROKERS = 5
MOST_WORKERS = 4
_OLDEST_KAFKA = (3, 3, 1)  # KRaft is ready for production from it on (KIP-833)
_OLDEST_SPARK = (3, 5, 0)
_SETTINGS_OF_OURS = ("node.id", "broker.id", "process.roles", "log.dir", "log.dirs", "metadata.log.dir", "cluster.id")
_FAMILIES_OF_OURS = ("controller.", "listener", "advertised.", "inter.broker.", "early.start.listeners")


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
