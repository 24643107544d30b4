"""Turning a declared pipeline into one that can be run, with the loader that fills its source."""

from collections.abc import Callable
from functools import partial

from chaos.cluster.addresses import CLIENTS
from chaos.cluster.spark import SparkApp, SparkCluster, submitted
from chaos.cluster.system import System
from chaos.common import clock
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.install.artifacts import Parts
from chaos.install.packages import NO_PACKAGES, Fetched
from chaos.loader.declaration import LEDGER, FillSource, UserLoader
from chaos.loader.plain import Producing
from chaos.runtime.capabilities import Capability
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.pipelines.base import Tools
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.workload import Filling

_SUBMITTED_WITHIN_S = 180.0


def topics_of(scenario: Scenario, prefix: str, suffix: str) -> Topics:
    """Name the topics of one run of a scenario: ``<prefix><name>-<suffix>`` each.

    Args:
        prefix: empty if the cluster is ours.
        suffix: unique for this run.
    """
    names = {name: f"{prefix}{name}-{suffix}" for name in scenario.used}
    sizes = {name: scenario.topics[name].partitions for name in names}
    return Topics(
        filled=tuple(Topic(names[name], sizes[name]) for name in scenario.filled),
        sink=names.get(scenario.sink, ""),
        prefix=prefix,
        suffix=suffix,
        sink_partitions=sizes.get(scenario.sink, 0),
        read=tuple(Topic(names[name], sizes[name]) for name in scenario.pipeline.reads),
        names=names,
    )


def pipeline_of(declared: Pipeline, parts: Parts, packages: Fetched = NO_PACKAGES) -> Deployed | None:
    """Make the pipeline that a scenario declares; None when the loader itself is under test.

    Args:
        parts: for its needs: the Java that runs the system, Kafka's own programs, and Spark.
        packages: those that it declares.
    """
    return Deployed(declared, Tools.of(parts, packages)) if Capability.PIPELINE in declared.capabilities else None


def loader_of(filling: Filling, parts: Parts, seed: int, ledger: str = LEDGER) -> FillSource | UserLoader:
    """Make the loader that a scenario declares for a topic.

    Args:
        parts, seed: for a user's loader.
    """
    if filling.rows is not None and filling.rows.SENDS_ITSELF:
        programs = {"java": str(parts.java), "kafka_tools": parts.tools_class_path}
        return filling.rows.loader(filling.records, filling.rate_per_s, seed, programs, ledger)
    producing = Producing(**filling.producer.model_dump())
    return FillSource(filling.records, filling.rate_per_s, producing, ledger=ledger)


def application_of(spark: SparkCluster) -> Callable[[], SparkApp]:
    """Return a function that finds the pipeline's application, and waits for it: its driver may have just started."""
    asks = partial(submitted, spark)
    reason = "a Spark driver to answer"
    return partial(clock.wait_until, asks, within_s=_SUBMITTED_WITHIN_S, reason=reason, ignore=(LookupError, OSError))


def endpoints(system: System, client: str) -> Endpoints:
    """Return the system's addresses for the clients of a group."""
    assert client in CLIENTS  # noqa: S101 - a slip of ours, not of the user
    kafka, spark = system.kafka, system.spark
    return Endpoints(
        kafka=system.bootstrap(client),
        audit=kafka.bootstrap,
        spark_master=spark.master,
        host=spark.driver_host,
        java_options=spark.java_options,
        class_path=spark.class_path,
        options=kafka.cluster.options,
        java=kafka.cluster.java,
        spark_options=spark.options,
        services=system.service_addresses(client),
    )
