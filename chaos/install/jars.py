"""Jars from Maven Central without Maven: PySpark ships Ivy, whose jar is a program that resolves and downloads jars.

`fetch` takes the jars in `parts.lock`, checks their SHA-256, and resolves nothing transitively. `resolve` takes modules with
all that they need. ``-types jar bundle`` is needed: without ``bundle``, scala-logging and snappy are left out.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError

BROKER = ("org.apache.kafka", "kafka_2.13")
LOCK = Path(__file__).with_name("parts.lock")
_LINE = re.compile(
    r"(?P<group>[^\s:]+):(?P<artifact>[^\s:]+):(?P<version>[^\s:]+)(?::(?P<classifier>[^\s:]+))?\s+(?P<sha256>\S{64})"
)
_PATTERN = "[organisation]__[artifact]-[revision](-[classifier]).[ext]"
_FETCH_WITHIN_S = 600
_NO_NETWORK = ("UnknownHostException", "ConnectException", "SocketTimeoutException", "NoRouteToHost", "SSLHandshakeException")
_ABSENT = re.compile(r":: (\S+)#(\S+);(\S+): not found")
_NAMED = 3  # missing jars that a message names

Echo = Callable[[str], None]


class UnreachableError(RuntimeUnavailableError):
    """The server of the jars does not answer, so another attempt at once is of no use."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str | None = None

    @property
    def file(self) -> str:
        """Its file name in the cache."""
        return f"{self.group}__{self.artifact}-{'-'.join(filter(None, (self.version, self.classifier)))}.jar"

    def __str__(self) -> str:
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))


@dataclass(frozen=True, slots=True)
class Module:
    """A module to be resolved with all that it needs at run time."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


@dataclass(frozen=True, slots=True)
class Ivy:
    """The program Ivy: this Java, and the jar in this PySpark."""

    java: Path
    spark_home: Path

    def retrieve(self, settings: Path, module: Path, target: Path) -> str:
        """Resolve a module, copy its jars into a folder, and return Ivy's output."""
        program = next((self.spark_home / "jars").glob("ivy-*.jar"))
        place = ("-settings", str(settings), "-ivy", str(module), "-confs", "default")
        copied = ("-types", "jar", "bundle", "-retrieve", str(target / _PATTERN))
        answer = processes.run((str(self.java), "-jar", str(program), *place, *copied), within_s=_FETCH_WITHIN_S)
        return answer.stdout + answer.stderr


def read_lock(path: Path = LOCK) -> dict[str, tuple[Jar, ...]]:
    """Return section -> its jars, in the order of the file.

    Raises:
        RuntimeUnavailableError: a line is not ``group:artifact:version[:classifier]  sha256`` below a ``[section]``.
    """
    sections: dict[str, list[Jar]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        match = _LINE.fullmatch(text)
        if text.startswith("["):
            sections[text.strip("[]")] = []
        elif match and sections:
            sections[list(sections)[-1]].append(Jar(**match.groupdict()))
        elif text:
            raise RuntimeUnavailableError(
                f"{path}:{number}: {text!r} is not `group:artifact:version[:classifier]  sha256` below a [section]"
            )
    return {name: tuple(jars) for name, jars in sections.items()}


def kafka_version() -> str:
    """Version of the locked brokers; scenarios run with it unless they declare another."""
    return next(jar.version for jar in read_lock()["kafka"] if (jar.group, jar.artifact) == BROKER)


def fetch(wanted: tuple[Jar, ...], folder: Path, ivy: Ivy, echo: Echo) -> None:
    """Fill an empty folder with these jars. If one differs from the lock, report it and fetch all once more.

    Raises:
        RuntimeUnavailableError: a jar was wrong twice, or the server does not answer.
    """
    try:
        _fetch_once(wanted, folder, ivy)
    except UnreachableError:
        raise
    except RuntimeUnavailableError as error:
        echo(f"removed, fetching once more: {error}")
        shutil.rmtree(folder)
        folder.mkdir()
        _fetch_once(wanted, folder, ivy)


def _fetch_once(wanted: tuple[Jar, ...], folder: Path, ivy: Ivy) -> None:
    said = _retrieve(ivy_xml(map(_dependency, wanted)), folder, ivy)
    missing = [str(jar) for jar in wanted if not (folder / jar.file).is_file()]
    if missing:
        raise _why(said, missing)
    check(wanted, folder)


def resolve(wanted: tuple[Module, ...], folder: Path, ivy: Ivy) -> None:
    """Fill an empty folder with the jars of these modules, and of all that they need at run time.

    Raises:
        RuntimeUnavailableError: a module does not exist, or the server does not answer.
    """
    said = _retrieve(ivy_xml(map(_with_all_it_needs, wanted)), folder, ivy)
    if absent := _ABSENT.search(said):
        one, asked = ":".join(absent.groups()), [str(each) for each in wanted]
        needed = "" if one in asked else f", which {' or '.join(asked[:_NAMED])} needs"
        server = os.environ.get("CHAOS_MAVEN_MIRROR") or "Maven Central"
        raise RuntimeUnavailableError(f"{server} has no {one}{needed}; choose a version that it has")
    names = {jar.name for jar in folder.glob("*.jar")}
    missing = [str(one) for one in wanted if f"{one.group}__{one.artifact}-{one.version}.jar" not in names]
    if missing or "UNRESOLVED DEPENDENCIES" in said:
        raise _why(said, missing or ["a dependency of these"])


def _retrieve(module_xml: str, folder: Path, ivy: Ivy) -> str:
    """Copy the jars of a module into a folder, and return Ivy's output."""
    scratch = folder / "ivy"
    scratch.mkdir()
    module, settings = scratch / "ivy.xml", scratch / "ivysettings.xml"
    module.write_text(module_xml, encoding="utf-8")
    settings.write_text(settings_xml(scratch / "cache", os.environ.get("CHAOS_MAVEN_MIRROR")), encoding="utf-8")
    said = ivy.retrieve(settings, module, folder)
    shutil.rmtree(scratch)
    return said


def check(jars: Iterable[Jar], folder: Path) -> None:
    """Compare every jar in a folder with the lock.

    Raises:
        RuntimeUnavailableError: one is missing, cut short, or another file.
    """
    for jar in jars:
        path = folder / jar.file
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "nothing"
        if found != jar.sha256:
            raise RuntimeUnavailableError(f"{jar} differs from {LOCK.name}: expected SHA-256 {jar.sha256}, found {found}")


def ivy_xml(dependencies: Iterable[str]) -> str:
    """Make the XML of the module that Ivy resolves."""
    listed = "\n".join(dependencies)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="chaos" module="parts"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>\n{listed}\n</dependencies></ivy-module>\n'
    )


def _with_all_it_needs(module: Module) -> str:
    return (
        f"<dependency org={quoteattr(module.group)} name={quoteattr(module.artifact)} rev={quoteattr(module.version)}"
        ' conf="default->master,runtime"/>'
    )


def _dependency(jar: Jar) -> str:
    """Make the element for this jar without its dependencies."""
    opening = (
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master"'
    )
    if jar.classifier is None:
        return f"{opening}/>"
    artifact = f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar" m:classifier={quoteattr(jar.classifier)}/>'
    return f"{opening}>{artifact}</dependency>"


def settings_xml(cache: Path, mirror: str | None) -> str:
    """Make Ivy's settings for Maven Central or a mirror of it; `cache` must be absolute."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        f'<ivysettings><settings defaultResolver="maven"/><caches defaultCacheDir={quoteattr(str(cache))}/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true" usepoms="true"{root}/></resolvers></ivysettings>\n'
    )


def _why(said: str, missing: list[str]) -> RuntimeUnavailableError:
    """Summarize Ivy's long output in one line."""
    named = f"{', '.join(missing[:_NAMED])}{' …' if len(missing) > _NAMED else ''}"
    if any(word in said for word in _NO_NETWORK):
        return UnreachableError(
            f"the cache lacks jars ({len(missing)}: {named}), and Maven Central cannot be reached; "
            "connect to a network once, set CHAOS_MAVEN_MIRROR to a mirror, or copy a filled cache and set CHAOS_CACHE"
        )
    told = [line.strip() for line in said.splitlines() if "ERROR" in line or "WARN" in line]
    return RuntimeUnavailableError(
        f"jars could not be fetched ({len(missing)}: {named}): {(' | '.join(told) or said.strip())[-400:]}"
    )
