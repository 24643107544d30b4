"""The system that scenarios run on: the one that they declare, or an existing one."""

from collections.abc import Callable
from dataclasses import replace

from chaos.cluster.system import Place, Service, System, managed_system
from chaos.external import discovery
from chaos.external.declaration import External
from chaos.install import kafka_versions
from chaos.scenario.system import SystemSpec


def described(spec: SystemSpec, external: External | None, place: Place, echo: Callable[[str], None]) -> System:
    """Describe a system, which is not started yet; Kafka's version is fetched if it is not there.

    Args:
        spec: what scenarios declare; an existing system has its own brokers and workers.
        external: the existing system, if one is to be used.

    Raises:
        RuntimeUnavailableError: Kafka cannot be fetched, or the existing system cannot be reached.
    """
    if external is not None:
        return discovery.found(place, external, echo)
    services = tuple(
        Service(name, declared.address or place.addresses.service(number), declared.run, declared.environment)
        for number, (name, declared) in enumerate(spec.services.items(), start=1)
    )
    kafka = kafka_versions.ensure(spec.kafka.version, place.parts, echo)
    brokers, workers, config = spec.kafka.brokers, spec.spark.workers, spec.kafka.config
    return managed_system(replace(place, services=services), kafka, brokers=brokers, workers=workers, config=config)
