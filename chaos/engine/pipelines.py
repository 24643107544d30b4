"""How a declared pipeline becomes one that can be run, with the loader that fills its source."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from chaos.cluster.addresses import CLIENTS
from chaos.cluster.spark import SparkApp, SparkCluster, submitted
from chaos.cluster.system import System
from chaos.common import clock
from chaos.install.artifacts import Parts
from chaos.loader.declaration import LEDGER, FillSource, OwnLoader
from chaos.scenario.model import Filling, Scenario
from chaos.scenario.pipelines import CommandPipeline as DeclaredCommand
from chaos.scenario.pipelines import ContainerPipeline as DeclaredContainer
from chaos.scenario.pipelines import NoPipeline, SparkSubmitPipeline
from chaos.scenario.pipelines import Pipeline as DeclaredPipeline
from chaos.subject.base import Endpoints, Pipeline, Topic, Topics
from chaos.subject.command import CommandPipeline
from chaos.subject.container import ContainerPipeline
from chaos.subject.spark_submit import SparkSubmit

_SUBMITTED_WITHIN_S = 180.0
_CLIENTS = {
    "spark_submit": "spark",
    "command": "app",
    "container": "app",
    "none": "loader",
}


def topics_of(scenario: Scenario, prefix: str, suffix: str) -> Topics:
    """The topics of one run of a scenario: ``<prefix><name>-<suffix>`` each.

    Args:
        prefix: empty where the cluster is ours.
        suffix: of this run alone.
    """
    names = {name: f"{prefix}{name}-{suffix}" for name in scenario.used}
    sizes = {name: scenario.topics[name].partitions for name in names}
    return Topics(
        source=names[scenario.source],
        sink=names.get(scenario.sink, ""),
        partitions=sizes[scenario.source],
        prefix=prefix,
        suffix=suffix,
        sink_partitions=sizes.get(scenario.sink, 0),
        read=tuple(Topic(names[name], sizes[name]) for name in scenario.pipeline.reads),
        names=names,
        filled=tuple(Topic(names[name], sizes[name]) for name in scenario.filled),
    )


def pipeline_of(declared: DeclaredPipeline, parts: Parts, packages: Sequence[Path] = ()) -> Pipeline | None:
    """The pipeline that a scenario declares; None when the loader itself is under test.

    Args:
        parts: what it may need: the Java that runs the system, Kafka's own programs, and Spark.
        packages: the jars of its packages.
    """
    match declared:
        case DeclaredCommand():
            return _command(declared, parts, packages)
        case DeclaredContainer():
            return _container(declared)
        case SparkSubmitPipeline():
            return _submitted(declared, parts, packages)
        case NoPipeline():
            return None


def timeouts_of(declared: DeclaredPipeline) -> dict[str, float]:
    """Name -> seconds after which a broker gives up on the pipeline when it is silent; only those that it declares."""
    declares = {name: getattr(declared, f"{name}_s", None) for name in ("session_timeout", "transaction_timeout")}
    return {name: seconds for name, seconds in declares.items() if seconds is not None}


def loader_of(filling: Filling, parts: Parts, seed: int, ledger: str = LEDGER) -> FillSource | OwnLoader:
    """The loader that a scenario declares for a topic.

    Args:
        parts, seed: for a loader of the user's own.
    """
    rows, producer = filling.rows, filling.producer
    if rows is not None and rows.command is not None:
        return OwnLoader(
            words=rows.command,
            records=filling.records,
            rate_per_s=filling.rate_per_s,
            seed=seed,
            programs={"java": str(parts.java), "kafka_tools": parts.tools_class_path},
            environment=rows.environment,
            working_directory=rows.working_directory or "",
            ledger=ledger,
        )
    return FillSource(
        filling.records,
        filling.rate_per_s,
        idempotence=producer.idempotence,
        acks=str(producer.acks),
        batch_records=producer.batch_records,
        in_flight=producer.in_flight,
        transaction_records=producer.transaction_records,
        ledger=ledger,
    )


def client_of(declared: DeclaredPipeline) -> str:
    """The client group of what is under test: its connections go over the links of this group."""
    return _CLIENTS[declared.kind]


def application_of(spark: SparkCluster) -> Callable[[], SparkApp]:
    """Asks for the application of the pipeline, and waits for it: its driver may have been started just now."""
    asks = partial(submitted, spark)
    reason = "a driver of Spark to answer"
    return partial(clock.wait_until, asks, within_s=_SUBMITTED_WITHIN_S, reason=reason, ignore=(LookupError, OSError))


def endpoints(system: System, client: str) -> Endpoints:
    """Where the clients of a group find the system."""
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
        services=system.found_by(client),
    )


def packages_of(declared: DeclaredPipeline) -> tuple[str, ...]:
    """What must be fetched before it can be run."""
    return declared.packages if isinstance(declared, SparkSubmitPipeline | DeclaredCommand) else ()


def _submitted(declared: SparkSubmitPipeline, parts: Parts, packages: Sequence[Path]) -> SparkSubmit:
    return SparkSubmit(
        application=declared.application,
        arguments=declared.arguments,
        main_class=declared.main_class,
        configuration=declared.configuration,
        environment=declared.environment,
        model=declared.model or "identity",
        group=declared.group,
        has_checkpoint=declared.has_positions,
        ids=declared.transactional_ids,
        restarts=declared.restarts,
        packages=tuple(map(str, packages)),
        working_directory=declared.working_directory or "",
        spark_home=str(parts.spark.home),
        scala=parts.spark.scala,
        java_home=str(parts.java.parent.parent),
        table=declared.sink.table,
    )


def _command(declared: DeclaredCommand, parts: Parts, packages: Sequence[Path]) -> CommandPipeline:
    return CommandPipeline(
        run=declared.run,
        group=declared.group,
        model=declared.model or "identity",
        ids=declared.transactional_ids,
        java=str(parts.java),
        kafka_tools=parts.tools_class_path,
        restarts=declared.restarts,
        repeat=declared.repeat,
        environment=declared.environment,
        says_started="started" in declared.speaks,
        working_directory=declared.working_directory or "",
        packages=":".join(map(str, packages)),
    )


def _container(declared: DeclaredContainer) -> ContainerPipeline:
    return ContainerPipeline(
        run=declared.command,
        group=declared.group,
        model=declared.model or "identity",
        ids=declared.transactional_ids,
        image=declared.image,
        restarts=declared.restarts,
        environment=declared.environment,
        says_started="started" in declared.speaks,
    )
