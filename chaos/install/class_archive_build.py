"""How class archives are made: one broker and one Spark live a short life together, and write down what they loaded.

training (Spark, `chaos.install.class_archive_training`) ──reads, writes──▶ broker on 127.77.9.9
    └ spark.jsa at its end                                      └ kafka.jsa at its end
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.common import clock, commands
from chaos.common.errors import DeadlineError, RuntimeUnavailableError
from chaos.install import class_archives, preflight

_RECIPE = "3"  # counted up when what is archived changes
_HOST = "127.77.9.9"  # beside the plan of `chaos.cluster.addresses`
_PORT = 19092
_CONTROLLER_PORT = 19093
_WITHIN_S = 180.0
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


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What the archives are made of, and good for."""

    java: Path
    spark_home: Path
    kafka_jars: Path
    connector_jars: tuple[Path, ...]

    def described(self) -> tuple[str, ...]:
        """All that a JVM compares before it uses an archive: its own build, and path, size and time of every jar."""
        folders = (sorted(folder.glob("*.jar")) for folder in (self.spark_home / "jars", self.kafka_jars))
        jars = [*(jar for folder in folders for jar in folder), *self.connector_jars]
        stated = (f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar in jars for stat in (jar.stat(),))
        return (_RECIPE, str(self.java), preflight.java_version(self.java), *stated)

    def class_paths(self) -> Mapping[str, str]:
        """Name of an archive -> the class path that it fits."""
        return {
            class_archives.KAFKA: class_archives.kafka_class_path(self.kafka_jars),
            class_archives.SPARK: class_archives.spark_class_path(self.spark_home, self.connector_jars),
        }


def make(ingredients: Ingredients, folder: Path, echo: Echo) -> None:
    """Make both archives; what cannot be made is said and done without."""
    try:
        (folder / _MADE_FOR).write_text(str(ingredients.spark_home), encoding="utf-8")
        with _broker(ingredients, folder):
            _said(echo, lambda: _spark(ingredients, folder))
    except _FAILURES as error:
        _say(echo, error)
    for name, class_path in ingredients.class_paths().items():
        _keep_sound(ingredients.java, folder / name, class_path, echo)
    for scratch in ("broker", "spark"):
        shutil.rmtree(folder / scratch, ignore_errors=True)


def throw_away_useless(cache: Path) -> None:
    """Archives for a Spark that is not there any more, as after its virtual environment was removed: 250 MB each."""
    for made_for in cache.glob(f"*/{_MADE_FOR}"):
        if not Path(made_for.read_text(encoding="utf-8")).is_dir():
            shutil.rmtree(made_for.parent, ignore_errors=True)


def _said(echo: Echo, train: Callable[[], None]) -> None:
    """Spark's failure is no reason to end the broker without its archive."""
    try:
        train()
    except _FAILURES as error:
        _say(echo, error)


def _say(echo: Echo, error: BaseException) -> None:
    echo(
        f"class archives are incomplete, every start will take longer: {error} (to try again, remove archives-* from the cache)"
    )


def _keep_sound(java: Path, archive: Path, class_path: str, echo: Echo) -> None:
    """A JVM that maps a damaged archive crashes, so one is started with it here."""
    if not archive.is_file():
        return
    answer = commands.run((str(java), *class_archives.options(archive), "-cp", class_path, "-version"), within_s=_WITHIN_S)
    if answer.returncode:
        archive.unlink()
        echo(f"class archive {archive.name} is thrown away: a JVM ended with {answer.returncode} on it")


@contextmanager
def _broker(ingredients: Ingredients, folder: Path) -> Iterator[None]:
    """One broker, formatted, started, and ended in good order: only then it writes its archive."""
    preflight.check_addresses(((_HOST, _PORT), (_HOST, _CONTROLLER_PORT)))
    home = folder / "broker"
    home.mkdir()
    settings, log = home / "server.properties", home / "log"
    text = _PROPERTIES.format(host=_HOST, port=_PORT, controller_port=_CONTROLLER_PORT, folder=home)
    settings.write_text(text, encoding="utf-8")
    jvm = (*class_archives.QUICK, "-Xmx384m", "-cp", ingredients.class_paths()[class_archives.KAFKA])
    _format((str(ingredients.java), *jvm), settings)
    command = (
        str(ingredients.java),
        f"-XX:ArchiveClassesAtExit={folder / class_archives.KAFKA}",
        *jvm,
        "kafka.Kafka",
        str(settings),
    )
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) as broker:
        try:
            clock.wait_until(_serves, within_s=_WITHIN_S, reason="a broker to serve", ignore=(OSError,), every_s=0.2)
            yield
            broker.terminate()
            broker.wait(_WITHIN_S)
        finally:
            broker.kill()


def _format(jvm: tuple[str, ...], settings: Path) -> None:
    arguments = ("kafka.tools.StorageTool", "format", "-t", "Y2hhb3MtY2x1c3Rlci0wMQ", "-c", str(settings))
    answer = commands.run((*jvm, *arguments), within_s=_WITHIN_S)
    if answer.returncode:
        said = (answer.stdout + answer.stderr).strip()[-300:]
        raise RuntimeUnavailableError(f"the training broker's storage could not be formatted ({answer.returncode}) {said}")


def _serves() -> bool:
    with socket.create_connection((_HOST, _PORT), timeout=2):
        return True


def _spark(ingredients: Ingredients, folder: Path) -> None:
    home, archive = folder / "spark", folder / class_archives.SPARK
    home.mkdir()
    extra = class_archives.extra_class_path(ingredients.connector_jars)
    command = (sys.executable, "-m", "chaos.install.class_archive_training", str(archive), extra, f"{_HOST}:{_PORT}")
    answer = commands.run(command, within_s=_WITHIN_S, cwd=home, env=_environment(ingredients.java))
    if answer.returncode or not archive.is_file():
        archive.unlink(missing_ok=True)
        raise RuntimeUnavailableError(f"Spark's training ended with {answer.returncode}: {answer.stderr.strip()[-500:]}")


def _environment(java: Path) -> Mapping[str, str]:
    """Without the Scala version, a Spark that came by pip starts no workers."""
    return {
        **os.environ,
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }
