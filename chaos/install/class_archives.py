"""Class archives (AppCDS, JEP 350): the classes of a first, short life of each JVM, mapped into all later ones.

An archive fits one JDK and one class path, jar by jar in the same order; a JVM that finds a difference goes without it and says
nothing (``-Xlog:cds=off``). So every JVM of a kind must be started with the class path given here.

What they are worth, medians of three on a busy machine with two cores: CPU time of a broker's start 3.0 -> 1.7 s, of formatting
1.2 -> 0.8 s, of Spark's master 2.2 -> 1.5 s; a local session 8.0 -> 5.1 s, its first job 3.3 -> 1.8 s; a session with two
executors 27 -> 15 s. They are made by `chaos.install.class_archive_build`.
"""

from collections.abc import Iterable
from pathlib import Path

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KAFKA = "kafka.jsa"
SPARK = "spark.jsa"


def options(archive: Path | None) -> tuple[str, ...]:
    """For a JVM that lives a few minutes: quick to start rather than quick for ever."""
    if archive is None:
        return QUICK
    return (*QUICK, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def kafka_class_path(jars: Path) -> str:
    """The brokers' class path."""
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def spark_class_path(spark_home: Path, connector: Iterable[Path]) -> str:
    """Spark's own, as its launcher writes it for drivers and executors with the connector as their ``extraClassPath``.

    Source: ``AbstractCommandBuilder.buildClassPath``.
    """
    logging = next((spark_home / "jars").glob("slf4j-api-*.jar"))
    return f"{extra_class_path(connector)}:{spark_home}/conf:{logging}:{spark_home}/jars/*"


def extra_class_path(connector: Iterable[Path]) -> str:
    """``spark.driver.extraClassPath`` and the executors' too: jars that come by ``spark.jars`` are not archived."""
    return ":".join(str(jar) for jar in connector)


def found(folder: Path, name: str) -> Path | None:
    """An archive, if it could be made."""
    archive = folder / name
    return archive if archive.is_file() else None
