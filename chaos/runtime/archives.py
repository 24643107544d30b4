"""Class archives (AppCDS, JEP 350): the classes of a first, short life of each JVM, mapped into all later ones.

An archive fits one JDK and one class path, jar by jar in the same order; a JVM that finds a difference goes without it and says
nothing (``-Xlog:cds=off``). So every JVM of a kind must be started with the class path given here.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos import clock
from chaos.errors import DeadlineError, RuntimeUnavailableError

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KAFKA = "kafka.jsa"
SPARK = "spark.jsa"
RECIPE = "2"  # counted up when what is archived changes
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_TRAINING_HOST = "127.77.9.9"
_WITHIN_S = 180.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:19093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{host}:19093,PLAINTEXT://{host}:19092
log.dirs={folder}/data
offsets.topic.replication.factor=1
"""

Echo = Callable[[str], None]


def options(archive: Path | None) -> tuple[str, ...]:
    """For a JVM that lives a few minutes: quick to start rather than quick for ever."""
    return (
        (*QUICK, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        if archive
        else QUICK
    )


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


def make(java: Path, kafka_jars: Path, connector: Iterable[Path], folder: Path, echo: Echo) -> None:
    """Make both archives, in one go: Spark learns to read and write on the broker that learns to serve.

    What cannot be made is said and done without.
    """
    try:
        with _broker(java, kafka_jars, folder):
            _spark(java, extra_class_path(connector), folder)
    except (OSError, subprocess.SubprocessError, DeadlineError, RuntimeUnavailableError) as error:
        echo(f"class archives are incomplete, every start will take longer: {error}")
    for scratch in ("broker", "spark"):
        shutil.rmtree(folder / scratch, ignore_errors=True)


@contextmanager
def _broker(java: Path, jars: Path, folder: Path) -> Iterator[None]:
    """One broker, formatted, started, and ended in good order: only then it writes its archive."""
    home = folder / "broker"
    home.mkdir()
    settings = home / "server.properties"
    settings.write_text(_PROPERTIES.format(host=_TRAINING_HOST, folder=home), encoding="utf-8")
    jvm = (str(java), *QUICK, "-Xmx384m", "-cp", kafka_class_path(jars))
    with (home / "log").open("wb") as log:
        formatting = (*jvm, "kafka.tools.StorageTool", "format", "-t", "Y2hhb3MtY2x1c3Rlci0wMQ", "-c", str(settings))
        subprocess.run(formatting, stdout=log, stderr=log, timeout=_WITHIN_S, check=True)
        command = (jvm[0], f"-XX:ArchiveClassesAtExit={folder / KAFKA}", *jvm[1:], "kafka.Kafka", str(settings))
        broker = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            clock.wait_until(_serves, within_s=_WITHIN_S, reason="a broker to serve", ignore=(OSError,), every_s=0.2)
            yield
            broker.terminate()
            broker.wait(_WITHIN_S)
        finally:
            broker.kill()


def _serves() -> bool:
    with socket.create_connection((_TRAINING_HOST, 19092), timeout=2):
        return True


def _spark(java: Path, extra: str, folder: Path) -> None:
    (folder / "spark").mkdir()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = (sys.executable, "-m", "chaos.runtime.training", str(folder / SPARK), extra, f"{_TRAINING_HOST}:19092")
    answer = subprocess.run(
        command, cwd=folder / "spark", env=environment, capture_output=True, text=True, timeout=_WITHIN_S, check=False
    )
    if answer.returncode or not (folder / SPARK).is_file():
        (folder / SPARK).unlink(missing_ok=True)
        raise RuntimeUnavailableError(f"Spark's training ended with {answer.returncode}: {answer.stderr.strip()[-500:]}")
