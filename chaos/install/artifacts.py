"""The parts that are not Python packages: jars, Toxiproxy's server, class archives. Fetched or built once, then looked up.

$CHAOS_CACHE (default: the user's cache folder)/
    kafka-<digest>/ connector-<digest>/     jars, checked by SHA-256 against parts.lock
    tools-<digest>/                         Kafka's own programs and Kafka Streams, likewise
    toxiproxy-<digest>/server               built from toxiproxy/, unless the wheel that is installed has it
    go-<digest>/                            a Go toolchain, if one is needed and the path has none
    archives-<digest>/                      class archives (AppCDS) of this JDK and these jars
    sessions/                               what the sessions under way have started (`chaos.common.warden`)
"""

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, class_archives, go_build, jars, preflight, proxy
from chaos.install.class_archives import Ingredients

Echo = Callable[[str], None]
cache_folder = cache.folder


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that the system is made of.

    Attributes:
        kafka_jars: a folder of jars, the brokers' class path.
        connector_jars: Spark's Kafka connector and what it needs.
        tools_jars: a folder of jars, Kafka's own programs and Kafka Streams; they need the brokers' jars as well.
        kafka_cds, spark_cds: class archives; None if one could not be made.
    """

    java: Path
    spark_home: Path
    kafka_jars: Path
    connector_jars: tuple[Path, ...]
    tools_jars: Path
    toxiproxy: Path
    kafka_cds: Path | None = None
    spark_cds: Path | None = None

    @property
    def tools_class_path(self) -> str:
        """For applications of Streams and Kafka's own programs, e.g. ``org.apache.kafka.tools.TransactionalMessageCopier``."""
        return f"{self.kafka_jars}/*:{self.tools_jars}/*"


def ensure(echo: Echo, *, verify: bool = False) -> Parts:
    """All parts; those that are missing are made.

    Args:
        echo: called with a line about everything that takes time.
        verify: check the hashes of jars that are in the cache already as well.

    Raises:
        RuntimeUnavailableError: no JDK, no network with an empty cache, or a jar that differs from the lock.
    """
    place, java, spark_home = cache.folder(), preflight.find_java(), Path(pyspark.__file__).parent
    ivy = jars.Ivy(java, spark_home)
    with cache.locked(place, echo):
        kafka = _jars(place, "kafka", ivy, echo, verify=verify)
        connector = tuple(sorted(_jars(place, "connector", ivy, echo, verify=verify).glob("*.jar")))
        tools = _jars(place, "tools", ivy, echo, verify=verify)
        toxiproxy = _toxiproxy(place, echo)
        archived = _archives(place, Ingredients(java, spark_home, kafka, connector), echo)
    kafka_cds, spark_cds = (class_archives.found(archived, name) for name in (class_archives.KAFKA, class_archives.SPARK))
    return Parts(java, spark_home, kafka, connector, tools, toxiproxy, kafka_cds, spark_cds)


def at_hand() -> Parts | None:
    """All parts if they are in the cache; nothing is fetched or made."""
    place, java, spark_home = cache.folder(), preflight.find_java(), Path(pyspark.__file__).parent
    kafka, connector, tools = (_of_section(place, name, jars.read_lock()[name]) for name in ("kafka", "connector", "tools"))
    toxiproxy = proxy.SERVER if proxy.SERVER.is_file() else _toxiproxy_folder(place) / "server"
    if not (kafka.is_dir() and connector.is_dir() and tools.is_dir() and toxiproxy.is_file()):
        return None
    connector_jars = tuple(sorted(connector.glob("*.jar")))
    archived = _archives_folder(place, Ingredients(java, spark_home, kafka, connector_jars))
    kafka_cds, spark_cds = (class_archives.found(archived, name) for name in (class_archives.KAFKA, class_archives.SPARK))
    return Parts(java, spark_home, kafka, connector_jars, tools, toxiproxy, kafka_cds, spark_cds)


def versions(parts: Parts) -> dict[str, str]:
    """Name -> version of everything that runs here, for reports."""
    locked = {(section, jar.artifact): jar.version for section, wanted in jars.read_lock().items() for jar in wanted}
    return {
        "kafka": locked["kafka", "kafka_2.13"],
        "spark": pyspark.__version__,
        "spark-sql-kafka": locked["connector", "spark-sql-kafka-0-10_2.13"],
        "toxiproxy": proxy.toxiproxy_version(),
        "java": preflight.java_version(parts.java),
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
    }


def _jars(place: Path, section: str, ivy: jars.Ivy, echo: Echo, *, verify: bool) -> Path:
    wanted = jars.read_lock()[section]
    folder = _of_section(place, section, wanted)
    if verify and folder.is_dir():
        _remove_damaged(wanted, folder, echo)
    if not folder.is_dir():
        echo(f"fetching {len(wanted)} jars for {section} …")
        cache.make(folder, lambda half: jars.fetch(wanted, half, ivy, echo))
    return folder


def _of_section(place: Path, section: str, wanted: tuple[jars.Jar, ...]) -> Path:
    return place / f"{section}-{cache.digest(*(f'{jar} {jar.sha256}' for jar in wanted))}"


def _remove_damaged(wanted: tuple[jars.Jar, ...], folder: Path, echo: Echo) -> None:
    try:
        jars.check(wanted, folder)
    except RuntimeUnavailableError as error:
        echo(f"removed from the cache: {error}")
        shutil.rmtree(folder)


def _toxiproxy(place: Path, echo: Echo) -> Path:
    if proxy.SERVER.is_file():
        return proxy.SERVER
    folder = _toxiproxy_folder(place)
    if not folder.is_dir():
        go = go_build.find_go(place, echo)
        echo("building Toxiproxy's server …")
        cache.make(folder, lambda half: go_build.build(go, half / "server", place))
    return folder / "server"


def _toxiproxy_folder(place: Path) -> Path:
    return place / f"toxiproxy-{cache.digest(*(path.read_text(encoding='utf-8') for path in proxy.sources()))}"


def _archives(place: Path, ingredients: Ingredients, echo: Echo) -> Path:
    folder = _archives_folder(place, ingredients)
    if not folder.is_dir():
        echo("making class archives, so that every later start is quicker (a minute or two, once) …")
        class_archives.remove_useless(place)
        cache.make(folder, lambda half: class_archives.make(ingredients, half, echo))
    return folder


def _archives_folder(place: Path, ingredients: Ingredients) -> Path:
    return place / f"archives-{cache.digest(*ingredients.described())}"
