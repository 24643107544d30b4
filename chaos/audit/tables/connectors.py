"""Jars that Spark needs to read a table: those that `parts.lock` pins for this version of Spark, or ``--packages``.

They are fetched from Maven Central when they are first needed, and kept in the cache (`chaos.install.artifacts`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.audit.logs import AuditUsageError
from chaos.install import cache, jar_folders, jars, packages, preflight, spark_versions
from chaos.install.packages import Echo
from chaos.install.registries.maven import MavenCentral

_COORDINATE = re.compile(r"[^\s:,]+:[^\s:,]+:[^\s:,]+")


@dataclass(frozen=True, slots=True)
class Connector:
    """The reader of one kind of table.

    Attributes:
        name: for messages.
        section: its section in `parts.lock`, without the version of Spark.
        package: ``group:artifact``, in which {spark} and {scala} stand for the first two numbers of versions.
    """

    name: str
    section: str
    package: str

    @property
    def artifact(self) -> str:
        """The beginning of the names of its artifacts, whatever Spark they are for."""
        return self.package.partition(":")[2].partition("{")[0].rstrip("_-")

    @property
    def here(self) -> str:
        """``group:artifact`` for the Spark of this environment."""
        version = spark_versions.here()
        return self.package.format(spark=_two(version), scala=spark_versions.scala(version))


def check(given: Sequence[str]) -> None:
    """Raise AuditUsageError if ``--packages`` is not made of coordinates."""
    for one in given:
        if not _COORDINATE.fullmatch(one):
            raise AuditUsageError(f"--packages {one}: must be GROUP:ARTIFACT:VERSION, as in org.postgresql:postgresql:42.7.7")


def ensure(needed: Iterable[Connector], given: Sequence[str], echo: Echo) -> tuple[Path, ...]:
    """Return the jars, and fetch those that are not in the cache.

    Args:
        given: packages of the user; a connector among them replaces the pinned one.

    Raises:
        AuditUsageError: no jars are pinned for this version of Spark, and none were given.
        RuntimeUnavailableError: a package does not exist, or the network cannot be reached.
    """
    own = {one.split(":")[1] for one in given}
    pinned = [one for one in dict.fromkeys(needed) if not any(name.startswith(one.artifact) for name in own)]
    sections = [_section(one) for one in pinned]
    if not sections and not given:
        return ()
    place, ivy = cache.folder(), jars.Ivy(preflight.find_java(), spark_versions.home_here())
    found = [jar for section in sections for jar in sorted(jar_folders.locked(place, section, ivy, echo).glob("*.jar"))]
    return (*found, *packages.ensure(MavenCentral(tuple(given)), ivy, echo).paths)


def _section(connector: Connector) -> str:
    """Return the section of `parts.lock` that is for this version of Spark.

    Raises:
        AuditUsageError: there is none.
    """
    here = _two(spark_versions.here())
    known = list(_versions(connector))
    if not known:
        return connector.section
    if here not in known:
        raise AuditUsageError(
            f"{connector.name} is known for PySpark {' and '.join(known)}, and this is {spark_versions.here()}: use one of "
            f"these, or name a package for this one, if there is one: --packages {connector.here}:VERSION"
        )
    return f"{connector.section} {here}"


def _versions(connector: Connector) -> Iterator[str]:
    """Yield the versions of Spark for which the lock has the connector; none if it is for all."""
    for section in jars.read_lock():
        name, _, version = section.partition(" ")
        if name == connector.section and version:
            yield version


def _two(version: str) -> str:
    return ".".join(map(str, spark_versions.first_two(version)))
