"""Spark in the version that a scenario declares: the folder of PySpark, and the Kafka connector of the same version.

The default is the PySpark of this environment, which is the judge's too. Pip puts any other one, from 3.5 on, into a folder of
the cache when it is first needed. Only the system uses it: master, workers and driver are started from it, and the driver and
Python workers import the PySpark and Py4J that it ships. The interpreter and all other packages are those of this environment,
so that a job finds its imports under every version of Spark.

If `pyspark_hashes/<version>.txt` exists, pip accepts nothing else. If `parts.lock` has ``[connector <version>]``, the jars of
the connector come from there, else from Maven Central. A note beside them has their hashes.

$CHAOS_CACHE/spark-3.5.7-<digest>/pyspark/, jars.sha256     connector-<digest>/, or connector-3.5.8-<digest>/*.jar, jars.sha256
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, class_archives, jar_folders, jars, preflight
from chaos.install.class_archives import Ingredients

KEY = "system.spark.version"
_RECIPE = "1"
_WITH_SCALA_213 = (4, 0)
_TOO_NEW_A_PYTHON = (3, 12)  # for 3.5, which imports `distutils`
_TOO_NEW_A_JAVA = 24  # for 3.5, whose Hadoop needs the security manager (JEP 486)
_LOCKED = Path(__file__).with_name("pyspark_hashes")
_BUILD = _LOCKED / "build.txt"
_OF_CONNECTOR = (
    "org.apache.spark__spark-sql-kafka-",
    "org.apache.spark__spark-token-provider-kafka-",
    "org.apache.kafka__kafka-clients-",
    "org.apache.commons__commons-pool2-",
)
_WITHIN_S = 1800.0
_NO_NETWORK = ("connection broken by", "Failed to establish a new connection", "Name or service not known", "timed out")

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """The program of master, workers, drivers and executors.

    Attributes:
        home: the folder of PySpark, with jars and programs.
        connector: the jars of Spark's Kafka connector, and its dependencies that Spark lacks.
        archive: a class archive; None without one.
    """

    version: str
    home: Path
    connector: tuple[Path, ...]
    archive: Path | None = None

    @property
    def scala(self) -> str:
        """Scala version of PyPI's build."""
        return scala(self.version)


def here() -> str:
    """Version of this environment's PySpark."""
    return pyspark.__version__


def home_here() -> Path:
    return Path(pyspark.__file__).parent


def scala(version: str) -> str:
    return "2.13" if first_two(version) >= _WITH_SCALA_213 else "2.12"


def first_two(version: str) -> tuple[int, ...]:
    """First two numbers of a version: (3, 5) of 3.5.7, and of a version that is not released."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def ensure(version: str, java: Path, kafka_jars: Path, echo: Echo) -> SparkProgram:
    """Return Spark in another version than this environment's, and fetch it if it is not in the cache.

    Args:
        kafka_jars: the jars of the brokers with which its class archive is made.

    Raises:
        RuntimeUnavailableError: there is no such version, it does not run with this Python or Java, or there is no network.
    """
    check_interpreters(version, java)
    place, needed = cache.folder(), Needed(java, kafka_jars, jars.Ivy(java, home_here()))
    locked = _lock(version)
    digest = cache.digest(_RECIPE, version, locked.read_text(encoding="utf-8") if locked else "")
    folder = place / f"spark-{version}-{digest}"
    try:
        _connector(place, version, needed.ivy, echo, verify=False)  # first, since it is small and may not exist
    except RuntimeUnavailableError as error:
        raise RuntimeUnavailableError(f"{KEY} {version}: {error}") from error
    if not folder.is_dir():
        echo(f"fetching Spark {version}, about 300 MB, once …")
        cache.make(folder, lambda half: _install(version, half), echo)
    jar_folders.check(folder)
    return complete(place, version, folder / "pyspark", needed, echo)


@dataclass(frozen=True, slots=True)
class Needed:
    """The tools to fetch a connector and to make a class archive."""

    java: Path
    kafka_jars: Path
    ivy: jars.Ivy


def complete(place: Path, version: str, home: Path, needed: Needed, echo: Echo, *, verify: bool = False) -> SparkProgram:
    """Add the connector and the class archive to an installed PySpark."""
    connector = tuple(sorted(_connector(place, version, needed.ivy, echo, verify=verify).glob("*.jar")))
    ingredients = Ingredients(needed.java, home, needed.kafka_jars, connector, scala(version))
    archives = class_archives.ensure(place, ingredients, echo)
    return SparkProgram(version, home, connector, class_archives.found(archives, class_archives.SPARK))


def at_hand(place: Path, java: Path, kafka_jars: Path) -> SparkProgram | None:
    """Return this environment's PySpark if the cache has all that it needs; fetch and make nothing."""
    folder = connector_folder(place, here())
    if not folder.is_dir():
        return None
    connector = tuple(sorted(folder.glob("*.jar")))
    archives = class_archives.folder(place, Ingredients(java, home_here(), kafka_jars, connector, scala(here())))
    return SparkProgram(here(), home_here(), connector, class_archives.found(archives, class_archives.SPARK))


def check_interpreters(version: str, java: Path) -> None:
    """Check that this version of Spark runs with this Python and this Java.

    Raises:
        RuntimeUnavailableError: it does not.
    """
    if first_two(version) >= _WITH_SCALA_213:
        return
    if sys.version_info >= _TOO_NEW_A_PYTHON:
        ours = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeUnavailableError(
            f"{KEY}: Spark {version} needs Python 3.11, and this is {ours}; use an environment of Python 3.11, or Spark 4"
        )
    found = preflight.java_version(java)
    if preflight.major(found) >= _TOO_NEW_A_JAVA:
        raise RuntimeUnavailableError(
            f"{KEY}: Spark {version} does not start with Java {found}; set JAVA_HOME to a JDK 17, or use Spark 4"
        )


# the package ---------------------------------------------------------------------------------------------------------------


def _lock(version: str) -> Path | None:
    path = _LOCKED / f"{version}.txt"
    return path if path.is_file() else None


def _install(version: str, folder: Path) -> None:
    """Install PySpark by pip: PyPI has the sources only, and their build needs an old setuptools."""
    tools = folder / "build"
    _pip(("--require-hashes", "--requirement", str(_BUILD), "--target", str(tools)), version, os.environ.get("PYTHONPATH", ""))
    locked = _lock(version)
    package = ("--require-hashes", "--requirement", str(locked)) if locked else (f"pyspark=={version}",)
    words = ("--no-build-isolation", "--no-compile", *package, "--target", str(folder))
    _pip(words, version, str(tools))
    shutil.rmtree(tools)
    jar_folders.note(folder)


def _pip(words: tuple[str, ...], version: str, path: str) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *words)
    answer = processes.run(pip, within_s=_WITHIN_S, env={**os.environ, "PYTHONPATH": path})
    if answer.returncode:
        raise RuntimeUnavailableError(_why(version, answer.stderr))


def _why(version: str, said: str) -> str:
    """Summarize pip's long output in one line."""
    if "No module named pip" in said:
        return f"{KEY}: fetching Spark {version} needs pip, which this environment lacks; run {sys.executable} -m ensurepip"
    if any(sign in said for sign in _NO_NETWORK):
        return (
            f"{KEY}: the cache lacks Spark {version}, and PyPI cannot be reached; connect to a network once, set PIP_INDEX_URL "
            "to a mirror, or copy a filled cache and set CHAOS_CACHE"
        )
    if "No matching distribution found" in said:
        return f"{KEY}: PyPI has no PySpark {version}; choose a version that it has: pip index versions pyspark"
    return f"{KEY}: pip could not install PySpark {version}: {said.strip()[-400:]}"


# the connector -------------------------------------------------------------------------------------------------------------


def section(version: str) -> str:
    """Section of `parts.lock` for this version's connector."""
    return f"connector {version}"


def connector_folder(place: Path, version: str) -> Path:
    """Return the folder for the connector of this version, whether or not it exists yet."""
    if section(version) in jars.read_lock():
        return jar_folders.place_of(place, section(version))
    return place / f"connector-{version}-{cache.digest(_RECIPE, str(_module(version)))}"


def _module(version: str) -> jars.Module:
    return jars.Module("org.apache.spark", f"spark-sql-kafka-0-10_{scala(version)}", version)


def _connector(place: Path, version: str, ivy: jars.Ivy, echo: Echo, *, verify: bool) -> Path:
    if section(version) in jars.read_lock():
        return jar_folders.locked(place, section(version), ivy, echo, verify=verify)
    folder = connector_folder(place, version)
    if not folder.is_dir():
        echo(f"fetching the Kafka connector of Spark {version} …")
        cache.make(folder, lambda half: _resolve(version, half, ivy), echo)
    jar_folders.check(folder)
    return folder


def _resolve(version: str, folder: Path, ivy: jars.Ivy) -> None:
    """Resolve the connector's jars without those that Spark has itself: the first of two versions on a class path would win."""
    jars.resolve((_module(version),), folder, ivy)
    for jar in folder.glob("*.jar"):
        if not jar.name.startswith(_OF_CONNECTOR):
            jar.unlink()
    jar_folders.note(folder)
