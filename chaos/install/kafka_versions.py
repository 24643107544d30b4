"""The brokers' program, in the version that a scenario declares.

The version in `parts.lock` is pinned by hash, and starts with a class archive. Any other one, from 3.3 on, is resolved from
Maven Central when it is first needed. If `kafka_hashes/<version>.sha256` exists, the jars must have its hashes. A note beside
the jars has them in any case; a cache that differs from its note is not used.

$CHAOS_CACHE/kafka-3.9.1-<digest of the recipe>/*.jar, jars.sha256
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, jar_folders, jars
from chaos.install.artifacts import Parts

_WITH_LOG4J_2 = (4, 0)  # KIP-653
_WITH_ADVERTISED_CONTROLLERS = (3, 9)  # KIP-853
_RECIPE = "1"
_LOCKED = Path(__file__).with_name("kafka_hashes")
_RELOAD4J = (jars.Module("org.slf4j", "slf4j-reload4j", "1.7.36"),)
_LOG4J_2 = (
    jars.Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    jars.Module("org.apache.logging.log4j", "log4j-core", "2.25.4"),
)

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KafkaProgram:
    """The program of a broker.

    Attributes:
        jars: a folder, its class path.
        archive: its class archive; None without one.
    """

    version: str
    jars: Path
    archive: Path | None = None

    @property
    def logs_with_log4j_2(self) -> bool:
        """Whether it logs with Log4j 2; older versions use its predecessor."""
        return _is_from(self.version, _WITH_LOG4J_2)

    @property
    def advertises_controllers(self) -> bool:
        """Whether a broker may advertise a controller; an older one that does so does not start.

        In older versions `controller.quorum.voters` alone names the controllers.
        """
        return _is_from(self.version, _WITH_ADVERTISED_CONTROLLERS)


def ensure(version: str, parts: Parts, echo: Echo) -> KafkaProgram:
    """Return the program of this version, and fetch it if it is not in the cache.

    Raises:
        RuntimeUnavailableError: there is no such version, no network, or the cache has changed since it was fetched.
    """
    if version == jars.kafka_version():
        return KafkaProgram(version, parts.kafka_jars, parts.kafka_cds)
    logging = _LOG4J_2 if _is_from(version, _WITH_LOG4J_2) else _RELOAD4J
    wanted = (jars.Module(*jars.BROKER, version), *logging)
    place, ivy = cache.folder(), jars.Ivy(parts.java, parts.spark.home)
    folder = place / f"kafka-{version}-{cache.digest(_RECIPE, *map(str, wanted))}"
    if not folder.is_dir():
        echo(f"fetching Kafka {version} …")
        cache.make(folder, lambda half: _fetch(version, wanted, half, ivy), echo)
    jar_folders.check(folder)
    return KafkaProgram(version, folder)


def _is_from(version: str, first: tuple[int, ...]) -> bool:
    return tuple(map(int, version.split("."))) >= first


def _fetch(version: str, wanted: tuple[jars.Module, ...], folder: Path, ivy: jars.Ivy) -> None:
    try:
        jars.resolve(wanted, folder, ivy)
    except RuntimeUnavailableError as error:
        raise RuntimeUnavailableError(f"system.kafka.version {version}: {error}") from error
    found, locked = jar_folders.note(folder), _LOCKED / f"{version}.sha256"
    if locked.is_file() and found != (expected := locked.read_text(encoding="utf-8")):
        other = sorted({line.split()[-1] for line in {*found.splitlines()} ^ {*expected.splitlines()}})
        raise RuntimeUnavailableError(f"the fetched Kafka {version} differs from {locked.name}: {', '.join(other)}")
