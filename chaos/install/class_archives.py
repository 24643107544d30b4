"""Class archives (AppCDS, JEP 350): the classes that a JVM loaded in a first, short life, mapped into all later ones.

An archive fits one JDK and one class path, jar by jar in the same order. A JVM that finds a difference goes on silently without
the archive (``-Xlog:cds=off``), so every JVM of a kind must be started with the class path given here.

Their savings, medians of three on a busy machine with two cores: CPU time of a broker's start 3.0 -> 1.7 s, of formatting
1.2 -> 0.8 s, of Spark's master 2.2 -> 1.5 s; a local session 8.0 -> 5.1 s, its first job 3.3 -> 1.8 s; a session with two
executors 27 -> 15 s.

One broker and one Spark make them: they live a short life together, and at their ends write down the classes that they loaded::

    training (Spark, `chaos.install.class_archive_training`) ──reads, writes──▶ broker on 127.77.9.9
        └ spark.jsa                                                 └ kafka.jsa
"""

import contextlib
import functools
import math
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.common import clock, processes
from chaos.common.errors import DeadlineError, RuntimeUnavailableError
from chaos.install import cache, preflight

NO_TRACE = "-XX:-UsePerfData"  # else a JVM that is killed leaves a file in the machine's temporary folder
QUICK = (
    NO_TRACE,
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # With that compiler alone the default is 48 MB. A judge fills it in two minutes, and then nothing is compiled any more.
    "-XX:ReservedCodeCacheSize=192m",
)
KAFKA = "kafka.jsa"
SPARK = "spark.jsa"
_RECIPE = "4"  # raise it when the archived classes change
_LOOKED_IN_OFTEN = ("scala-library", "spark-catalyst", "spark-common-utils", "spark-core", "spark-sql", "spark-sql-api")
_HOST = "127.77.9.9"  # outside the plan of `chaos.cluster.addresses`
_WITHIN_S = 600.0
_MADE_FOR = "made-for"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{host}:{controller_port},PLAINTEXT://{host}:{port}
log.dirs={folder}/data
offsets.topic.replication.factor=1
"""
_FAILURES = (OSError, subprocess.SubprocessError, DeadlineError, RuntimeUnavailableError)

Echo = Callable[[str], None]


def options(archive: Path | None) -> tuple[str, ...]:
    """Options of a JVM that lives a few minutes: they favour a quick start over speed in the long run."""
    if archive is None:
        return QUICK
    return (*QUICK, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def kafka_class_path(jars: Path) -> str:
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def spark_class_path(spark_home: Path, connector: Iterable[Path]) -> str:
    """Class path from Spark's launcher for drivers and executors that have the connector as their ``extraClassPath``.

    Source: ``AbstractCommandBuilder.buildClassPath``.
    """
    logging = next((spark_home / "jars").glob("slf4j-api-*.jar"))
    return f"{extra_class_path(spark_home, connector)}:{spark_home}/conf:{logging}:{spark_home}/jars/*"


def extra_class_path(spark_home: Path, connector: Iterable[Path]) -> str:
    """Value of ``extraClassPath`` for drivers and executors, since jars from ``spark.jars`` are not archived.

    The first jars are Spark's own, in which it looks for the code of each closure that it cleans. Behind all the others, some
    270, they would make queries of few rows take a sixth more of processor time.
    """
    return ":".join(map(str, (*_looked_in_often(spark_home / "jars"), *connector)))


@functools.cache
def _looked_in_often(jars: Path) -> tuple[Path, ...]:
    return tuple(jar for name in _LOOKED_IN_OFTEN for jar in sorted(jars.glob(f"{name}[-_]2.*.jar")))


def found(folder: Path, name: str) -> Path | None:
    """Return the path of an archive, or None if it could not be made."""
    archive = folder / name
    return archive if archive.is_file() else None


@dataclass(frozen=True, slots=True)
class Ingredients:
    """The JDK and jars that the archives are made from, and fit."""

    java: Path
    spark_home: Path
    kafka_jars: Path
    connector_jars: tuple[Path, ...]
    scala: str = "2.13"

    def described(self) -> tuple[str, ...]:
        """The facts that a JVM compares before it uses an archive: its own build, and path, size and time of every jar."""
        folders = (sorted(folder.glob("*.jar")) for folder in (self.spark_home / "jars", self.kafka_jars))
        jars = [*(jar for folder in folders for jar in folder), *self.connector_jars]
        stated = (f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar in jars for stat in (jar.stat(),))
        return (_RECIPE, str(self.java), preflight.java_version(self.java), *stated)

    def class_paths(self) -> Mapping[str, str]:
        """Name of an archive -> the class path that it fits."""
        return {KAFKA: kafka_class_path(self.kafka_jars), SPARK: spark_class_path(self.spark_home, self.connector_jars)}


def ensure(place: Path, ingredients: Ingredients, echo: Echo) -> Path:
    """Return the folder of the archives, and make them if it does not exist."""
    made = folder(place, ingredients)
    if not made.is_dir():
        echo("making class archives, so that every later start is quicker (a minute or two, once) …")
        remove_useless(place)
        cache.make(made, lambda half: make(ingredients, half, echo), echo)
    return made


def folder(place: Path, ingredients: Ingredients) -> Path:
    """Return the folder of the archives, whether or not it exists yet."""
    return place / f"archives-{cache.digest(*ingredients.described())}"


def make(ingredients: Ingredients, folder: Path, echo: Echo) -> None:
    """Make both archives in an empty folder. One that cannot be made is reported, and everything works without it."""
    try:
        (folder / _MADE_FOR).write_text(str(ingredients.spark_home), encoding="utf-8")
        with _broker(ingredients, folder) as bootstrap:
            try:
                _train_spark(ingredients, folder, bootstrap)
            except _FAILURES as error:  # the broker still writes its own archive
                _report(echo, error)
    except _FAILURES as error:
        _report(echo, error)
    for name, class_path in ingredients.class_paths().items():
        _remove_if_damaged(ingredients.java, folder / name, class_path, echo)
    for scratch in ("broker", "spark"):
        shutil.rmtree(folder / scratch, ignore_errors=True)


def remove_useless(place: Path) -> None:
    """Remove archives, of 250 MB each, for a Spark that is gone, or that was installed anew at the same place.

    Each job of a CI system does the latter: without this, a cache that it keeps would grow with each job.
    """
    for made_for in place.glob(f"*/{_MADE_FOR}"):
        with contextlib.suppress(FileNotFoundError):  # another process removes it, too
            jars = (Path(made_for.read_text(encoding="utf-8")) / "jars").glob("*.jar")
            if max((jar.stat().st_mtime for jar in jars), default=math.inf) > made_for.stat().st_mtime:
                shutil.rmtree(made_for.parent, ignore_errors=True)


def _report(echo: Echo, error: BaseException) -> None:
    echo(
        f"class archives are incomplete, so every start takes longer: {error} (to try again, remove archives-* from the cache)"
    )


def _remove_if_damaged(java: Path, archive: Path, class_path: str, echo: Echo) -> None:
    """Start a JVM with an archive, and remove the archive if that fails: a JVM that maps a damaged one crashes."""
    if not archive.is_file():
        return
    answer = processes.run((str(java), *options(archive), "-cp", class_path, "-version"), within_s=_WITHIN_S)
    if answer.returncode:
        archive.unlink()
        echo(f"removed class archive {archive.name}: a JVM that used it ended with {answer.returncode}")


@contextlib.contextmanager
def _broker(ingredients: Ingredients, folder: Path) -> Iterator[str]:
    """Format and start one broker, and stop it by SIGTERM: it writes its archive only if it ends in good order.

    Yields:
        Its address; the ports are free ones, since somebody else on this machine may make archives now, too.
    """
    port, controller_port = _free_ports()
    home = folder / "broker"
    home.mkdir()
    settings, log = home / "server.properties", home / "log"
    text = _PROPERTIES.format(host=_HOST, port=port, controller_port=controller_port, folder=home)
    settings.write_text(text, encoding="utf-8")
    java, jvm = str(ingredients.java), (*QUICK, "-Xmx384m", "-cp", ingredients.class_paths()[KAFKA])
    _format((java, *jvm), settings)
    command = (java, f"-XX:ArchiveClassesAtExit={folder / KAFKA}", *jvm, "kafka.Kafka", str(settings))
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) as broker:
        try:
            serves = partial(_serves, port)
            clock.wait_until(serves, within_s=_WITHIN_S, reason="a broker to serve", ignore=(OSError,), every_s=0.2)
            yield f"{_HOST}:{port}"
            broker.terminate()
            broker.wait(_WITHIN_S)
        finally:
            broker.kill()


def _format(jvm: tuple[str, ...], settings: Path) -> None:
    arguments = ("kafka.tools.StorageTool", "format", "-t", "Y2hhb3MtY2x1c3Rlci0wMQ", "-c", str(settings))
    answer = processes.run((*jvm, *arguments), within_s=_WITHIN_S)
    if answer.returncode:
        said = (answer.stdout + answer.stderr).strip()[-300:]
        raise RuntimeUnavailableError(f"cannot format the training broker's storage ({answer.returncode}) {said}")


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind((_HOST, 0))
        other.bind((_HOST, 0))
        return one.getsockname()[1], other.getsockname()[1]


def _serves(port: int) -> bool:
    with socket.create_connection((_HOST, port), timeout=2):
        return True


def _python_path(spark_home: Path) -> str:
    """Python path to the PySpark and Py4J that a folder of PySpark ships: this environment may have another version."""
    shipped = map(str, sorted((spark_home / "python" / "lib").glob("*.zip")))
    return os.pathsep.join((*shipped, *filter(None, [os.environ.get("PYTHONPATH")])))


def _train_spark(ingredients: Ingredients, folder: Path, bootstrap: str) -> None:
    home, archive = folder / "spark", folder / SPARK
    home.mkdir()
    extra = extra_class_path(ingredients.spark_home, ingredients.connector_jars)
    command = (sys.executable, "-m", "chaos.install.class_archive_training", str(archive), extra, bootstrap)
    environment = {
        **os.environ,
        "JAVA_HOME": str(ingredients.java.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(ingredients.spark_home),
        "SPARK_SCALA_VERSION": ingredients.scala,  # without it, a Spark from pip starts no workers
        "PYTHONPATH": _python_path(ingredients.spark_home),
        "PYSPARK_PYTHON": sys.executable,
    }
    answer = processes.run(command, within_s=_WITHIN_S, cwd=home, env=environment)
    if answer.returncode or not archive.is_file():
        archive.unlink(missing_ok=True)
        raise RuntimeUnavailableError(f"Spark's training ended with {answer.returncode}: {answer.stderr.strip()[-500:]}")
