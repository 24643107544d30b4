"""The parts that are no Python packages: jars, Toxiproxy's server, class archives. Fetched or built once, then only looked up.

    $CHAOS_CACHE (default: the user's cache folder)/
        kafka-<digest>/ connector-<digest>/     jars, checked by SHA-256 against parts.lock
        toxiproxy-<digest>/server               built from toxiproxy/
        archives-<digest>/                      class archives (AppCDS) of this JDK and these jars
        sessions/                               what runs underway have started (`chaos.runtime.warden`)

A digest names what a part is made of, so a part is never stale. Parts are made in a folder beside their place and moved there
when they are right: a half download is never taken for a whole one.
"""

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import platformdirs
import pyspark

from chaos.errors import RuntimeUnavailableError
from chaos.runtime import archives, gobuild, jars, preflight

Echo = Callable[[str], None]
Fetch = Callable[[tuple[jars.Jar, ...], Path], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that the system is made of.

    Attributes:
        kafka_jars: a folder of jars, the brokers' class path.
        connector_jars: Spark's Kafka connector and what it needs.
        kafka_cds, spark_cds: class archives, None where there are none.
    """

    java: Path
    spark_home: Path
    kafka_jars: Path
    connector_jars: tuple[Path, ...]
    toxiproxy: Path
    kafka_cds: Path | None = None
    spark_cds: Path | None = None


def cache_folder() -> Path:
    """Where parts are kept."""
    named = os.environ.get("CHAOS_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("kafka-spark-chaos")


def ensure(echo: Echo, *, verify: bool = False) -> Parts:
    """All parts, made if they are not there.

    Args:
        echo: told what takes time.
        verify: compare the hashes of jars that are there already as well.

    Raises:
        RuntimeUnavailableError: no JDK, no network with an empty cache, or a jar that is not what the lock says.
    """
    cache, java, spark_home = cache_folder(), preflight.find_java(), Path(pyspark.__file__).parent
    cache.mkdir(parents=True, exist_ok=True)
    lock = jars.read_lock()
    fetch = partial(jars.fetch, java=java, spark_home=spark_home)
    with _locked(cache, echo):
        folders = {name: _jars(cache, name, wanted, fetch, echo, verify=verify) for name, wanted in lock.items()}
        parts = Parts(
            java,
            spark_home,
            folders["kafka"],
            tuple(folders["connector"] / jar.file for jar in lock["connector"]),
            _toxiproxy(cache, echo),
        )
        return _with_archives(parts, cache, echo)


def versions(parts: Parts) -> dict[str, str]:
    """What runs here, for reports."""
    lock = {
        jar.artifact: jar.version for wanted in jars.read_lock().values() for jar in wanted if jar.artifact != "kafka-clients"
    }
    return {
        "kafka": lock["kafka_2.13"],
        "spark": pyspark.__version__,
        "spark-sql-kafka": lock["spark-sql-kafka-0-10_2.13"],
        "toxiproxy": _toxiproxy_version(),
        "java": str(preflight.java_version(parts.java)),
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
    }


def _jars(cache: Path, name: str, wanted: tuple[jars.Jar, ...], fetch: Fetch, echo: Echo, *, verify: bool) -> Path:
    folder = cache / f"{name}-{_digest(*(f'{jar} {jar.sha256}' for jar in wanted))}"
    if folder.is_dir() and verify:
        try:
            jars.check(wanted, folder)
        except RuntimeUnavailableError as error:
            echo(f"thrown away: {error}")
            shutil.rmtree(folder)
    if not folder.is_dir():
        echo(f"fetching {len(wanted)} jars for {name} …")
        _make(folder, lambda half: _fetched(wanted, fetch, echo, half))
    return folder


def _fetched(wanted: tuple[jars.Jar, ...], fetch: Fetch, echo: Echo, folder: Path) -> None:
    """Download and check; a download that is wrong is thrown away and tried once more."""
    for last in (False, True):
        fetch(wanted, folder)
        try:
            jars.check(wanted, folder)
        except RuntimeUnavailableError as error:
            echo(f"thrown away: {error}")
            if last:
                raise
            shutil.rmtree(folder)
            folder.mkdir()
        else:
            break
    shutil.rmtree(folder / "ivy-cache", ignore_errors=True)


def _toxiproxy(cache: Path, echo: Echo) -> Path:
    digest = _digest(*(path.read_text(encoding="utf-8") for path in gobuild.sources()))
    folder = cache / f"toxiproxy-{digest}"
    if not folder.is_dir():
        echo("building Toxiproxy's server …")
        _make(folder, lambda half: gobuild.build(half / "server", cache, echo))
    return folder / "server"


def _with_archives(parts: Parts, cache: Path, echo: Echo) -> Parts:
    """Class archives are a matter of speed only: what cannot be made is said and done without."""
    made_of = (
        parts.kafka_jars.name,
        parts.connector_jars[0].parent.name,
        str(parts.spark_home),
        pyspark.__version__,
        str(parts.java),
        str(preflight.java_version(parts.java)),
        archives.RECIPE,
    )
    folder = cache / f"archives-{_digest(*made_of)}"
    if not folder.is_dir():
        echo("making class archives, so that every later start is quicker …")
        _make(folder, lambda half: archives.make(parts.java, parts.kafka_jars, parts.connector_jars, half, echo))
    kafka, spark = folder / archives.KAFKA, folder / archives.SPARK
    return Parts(
        parts.java,
        parts.spark_home,
        parts.kafka_jars,
        parts.connector_jars,
        parts.toxiproxy,
        kafka if kafka.is_file() else None,
        spark if spark.is_file() else None,
    )


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder whole or not at all."""
    half = folder.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    make(half)
    half.rename(folder)


@contextmanager
def _locked(cache: Path, echo: Echo) -> Iterator[None]:
    """One process at a time; the lock goes with the process that holds it."""
    with (cache / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            echo("another process is filling the cache; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _toxiproxy_version() -> str:
    words = (gobuild.SOURCES / "go.mod").read_text(encoding="utf-8").split()
    return words[words.index("github.com/Shopify/toxiproxy/v2") + 1].removeprefix("v")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
