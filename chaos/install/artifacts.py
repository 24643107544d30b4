"""The parts that are not Python packages: jars, Toxiproxy's server, class archives. They are fetched or built once.

$CHAOS_CACHE (default: the user's cache folder)/
    kafka-<digest>/ connector-<digest>/     jars, checked by SHA-256 against parts.lock
    kafka-3.9.1-<digest>/ spark-3.5.7-<digest>/   other versions, where a scenario asks for them
    tools-<digest>/                         Kafka's own programs and Kafka Streams, also checked
    toxiproxy-<digest>/server               built from toxiproxy/, unless the installed wheel has it
    go-<digest>/                            a Go toolchain, if one is needed and the path has none
    archives-<digest>/                      class archives (AppCDS) of this JDK and these jars
    sessions/                               the processes of the sessions under way (`chaos.common.warden`)
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.common.version import version
from chaos.install import cache, class_archives, go_build, jar_folders, jars, preflight, proxy, spark_versions
from chaos.install.class_archives import Ingredients
from chaos.install.spark_versions import Needed, SparkProgram

Echo = Callable[[str], None]
cache_folder = cache.folder


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that the system is made of.

    Attributes:
        spark: Spark's program: the PySpark of this environment, unless a system declares another version.
        kafka_jars: a folder of jars, the brokers' class path.
        tools_jars: a folder of jars, Kafka's own programs and Kafka Streams; they need the brokers' jars as well.
        kafka_cds: the brokers' class archive; None if it could not be made.
    """

    java: Path
    spark: SparkProgram
    kafka_jars: Path
    tools_jars: Path
    toxiproxy: Path
    kafka_cds: Path | None = None

    @property
    def tools_class_path(self) -> str:
        """Class path of Streams applications and Kafka's programs (``org.apache.kafka.tools.TransactionalMessageCopier``)."""
        return f"{self.kafka_jars}/*:{self.tools_jars}/*"


def ensure(echo: Echo, *, verify: bool = False) -> Parts:
    """Return all parts, and make the missing ones.

    Args:
        echo: called with a line about everything that takes time.
        verify: also check the hashes of jars that are in the cache already.

    Raises:
        RuntimeUnavailableError: no JDK, no network with an empty cache, or a jar that differs from the lock.
    """
    place, java = cache.folder(), preflight.find_java()
    ivy = jars.Ivy(java, spark_versions.home_here())
    kafka = jar_folders.locked(place, "kafka", ivy, echo, verify=verify)
    tools = jar_folders.locked(place, "tools", ivy, echo, verify=verify)
    toxiproxy = _toxiproxy(place, echo)
    home, needed = spark_versions.home_here(), Needed(java, kafka, ivy)
    spark = spark_versions.complete(place, spark_versions.here(), home, needed, echo, verify=verify)
    return Parts(java, spark, kafka, tools, toxiproxy, _kafka_cds(place, java, kafka, spark))


def at_hand() -> Parts | None:
    """Return all parts if they are in the cache; fetch and make nothing."""
    place, java = cache.folder(), preflight.find_java()
    kafka, tools = (jar_folders.place_of(place, name) for name in ("kafka", "tools"))
    toxiproxy = proxy.SERVER if proxy.SERVER.is_file() else _toxiproxy_folder(place) / "server"
    spark = spark_versions.at_hand(place, java, kafka)
    if not (kafka.is_dir() and spark and tools.is_dir() and toxiproxy.is_file()):
        return None
    return Parts(java, spark, kafka, tools, toxiproxy, _kafka_cds(place, java, kafka, spark))


def of_spark(version: str, parts: Parts, echo: Echo) -> Parts:
    """Return these parts with another version of Spark, and fetch it if it is not in the cache.

    Raises:
        RuntimeUnavailableError: it cannot be fetched.
    """
    if version == parts.spark.version:
        return parts
    return replace(parts, spark=spark_versions.ensure(version, parts.java, parts.kafka_jars, echo))


def _kafka_cds(place: Path, java: Path, kafka: Path, spark: SparkProgram) -> Path | None:
    """Return the brokers' class archive; both archives are made at once."""
    ingredients = Ingredients(java, spark.home, kafka, spark.connector, spark.scala)
    return class_archives.found(class_archives.folder(place, ingredients), class_archives.KAFKA)


def versions(parts: Parts) -> dict[str, str]:
    """Return name -> version of everything that runs here, for reports."""
    locked = {(section, jar.artifact): jar.version for section, wanted in jars.read_lock().items() for jar in wanted}
    return {
        "chaos": version(),
        "kafka": locked["kafka", "kafka_2.13"],
        "spark": parts.spark.version,
        "spark-sql-kafka": parts.spark.version,
        "toxiproxy": proxy.toxiproxy_version(),
        "java": preflight.java_version(parts.java),
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
        **({} if parts.spark.version == spark_versions.here() else {"spark of the judge": spark_versions.here()}),
    }


def _toxiproxy(place: Path, echo: Echo) -> Path:
    if proxy.SERVER.is_file():
        return proxy.SERVER
    folder = _toxiproxy_folder(place)
    if not folder.is_dir():
        go = go_build.find_go(place, echo)
        echo("building Toxiproxy's server …")
        cache.make(folder, lambda half: go_build.build(go, half / "server", place), echo)
    return folder / "server"


def _toxiproxy_folder(place: Path) -> Path:
    return place / f"toxiproxy-{cache.digest(*(path.read_text(encoding='utf-8') for path in proxy.sources()))}"
