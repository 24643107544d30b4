"""Class archives (AppCDS, JEP 350): the classes of a first, short life of each JVM, mapped into all later ones.

An archive fits one JDK and one class path, jar by jar in the same order; a JVM that finds a difference goes without it and says
nothing (``-Xlog:cds=off``). So every JVM of a kind must be started with the class path given here.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from chaos import clock
from chaos.errors import DeadlineError, RuntimeUnavailableError

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KAFKA = "kafka.jsa"
SPARK = "spark.jsa"
RECIPE = "1"  # counted up when what is archived changes
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


def spark_class_path(spark_home: Path) -> str:
    """Spark's own, as its launcher writes it for drivers and executors (``AbstractCommandBuilder.buildClassPath``)."""
    logging = next((spark_home / "jars").glob("slf4j-api-*.jar"))
    return f"{spark_home}/conf:{logging}:{spark_home}/jars/*"


def make(java: Path, kafka_jars: Path, folder: Path, echo: Echo) -> None:
    """Make both archives; what cannot be made is said and done without."""
    trainings: dict[str, Callable[[], None]] = {
        KAFKA: lambda: _kafka(java, kafka_jars, folder),
        SPARK: lambda: _spark(java, folder),
    }
    for name, train in trainings.items():
        try:
            train()
        except (OSError, subprocess.SubprocessError, DeadlineError, RuntimeUnavailableError) as error:
            echo(f"no class archive {name}, every start will take longer: {error}")
            (folder / name).unlink(missing_ok=True)
    for scratch in ("broker", "spark"):
        shutil.rmtree(folder / scratch, ignore_errors=True)


def _kafka(java: Path, jars: Path, folder: Path) -> None:
    """One broker, formatted, started, and ended in good order."""
    home = folder / "broker"
    home.mkdir()
    settings = home / "server.properties"
    settings.write_text(_PROPERTIES.format(host=_TRAINING_HOST, folder=home), encoding="utf-8")
    jvm = (str(java), *QUICK, "-Xmx384m", "-cp", kafka_class_path(jars))
    with (home / "log").open("wb") as log:
        formatting = (*jvm, "kafka.tools.StorageTool", "format", "-t", "Y2hhb3MtY2x1c3Rlci0wMQ", "-c", str(settings))
        subprocess.run(formatting, stdout=log, stderr=log, timeout=_WITHIN_S, check=True)
        archive = f"-XX:ArchiveClassesAtExit={folder / KAFKA}"
        broker = subprocess.Popen(
            (jvm[0], archive, *jvm[1:], "kafka.Kafka", str(settings)), stdout=log, stderr=log, start_new_session=True
        )
        try:
            clock.wait_until(_serves, within_s=_WITHIN_S, reason="a broker to serve", ignore=(OSError,), every_s=0.2)
            broker.terminate()
            broker.wait(_WITHIN_S)
        finally:
            broker.kill()


def _serves() -> bool:
    with socket.create_connection((_TRAINING_HOST, 19092), timeout=2):
        return True


def _spark(java: Path, folder: Path) -> None:
    (folder / "spark").mkdir()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = (sys.executable, "-m", "chaos.runtime.training", str(folder / SPARK))
    answer = subprocess.run(
        command, cwd=folder / "spark", env=environment, capture_output=True, text=True, timeout=_WITHIN_S, check=False
    )
    if answer.returncode or not (folder / SPARK).is_file():
        raise RuntimeUnavailableError(f"Spark's training ended with {answer.returncode}: {answer.stderr.strip()[-500:]}")
