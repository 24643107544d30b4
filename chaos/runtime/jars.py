"""Jars from Maven Central without Maven: PySpark ships Ivy, whose jar is a program that resolves and downloads.

Every jar is named in `parts.lock` with its SHA-256, and nothing is resolved transitively. ``-types jar bundle`` is needed:
without ``bundle``, scala-logging and snappy are silently left out.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from chaos.errors import RuntimeUnavailableError

LOCK = Path(__file__).with_name("parts.lock")
_PATTERN = "[organisation]__[artifact]-[revision](-[classifier]).[ext]"
_FETCH_WITHIN_S = 600
_NO_NETWORK = ("UnknownHostException", "ConnectException", "SocketTimeoutException", "NoRouteToHost", "SSLHandshakeException")


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the cache."""
        return f"{self.group}__{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(path: Path = LOCK) -> dict[str, tuple[Jar, ...]]:
    """Section -> its jars.

    Raises:
        RuntimeUnavailableError: a line is no ``group:artifact:version  sha256``.
    """
    sections: dict[str, list[Jar]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            current = sections.setdefault(text.strip("[]"), [])
        elif text:
            words = text.replace(":", " ").split()
            if len(words) != 4:  # noqa: PLR2004 - group, artifact, version, sha256
                raise RuntimeUnavailableError(f"{path}:{number}: {text!r} is no `group:artifact:version  sha256`")
            current.append(Jar(*words))
    return {name: tuple(jars) for name, jars in sections.items()}


def fetch(jars: Iterable[Jar], folder: Path, java: Path, spark_home: Path) -> None:
    """Download jars into a folder; they are not checked yet.

    Raises:
        RuntimeUnavailableError: no network, or a jar could not be found.
    """
    wanted = tuple(jars)
    (folder / "ivy.xml").write_text(ivy_xml(wanted), encoding="utf-8")
    (folder / "ivysettings.xml").write_text(_settings_xml(folder / "ivy-cache"), encoding="utf-8")
    ivy = next((spark_home / "jars").glob("ivy-*.jar"))
    place = ("-settings", str(folder / "ivysettings.xml"), "-ivy", str(folder / "ivy.xml"))
    command = (
        str(java),
        "-jar",
        str(ivy),
        *place,
        "-confs",
        "default",
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        str(folder / _PATTERN),
    )
    answer = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_WITHIN_S, check=False)
    missing = [str(jar) for jar in wanted if not (folder / jar.file).is_file()]
    if missing:
        raise RuntimeUnavailableError(_why(answer.stdout + answer.stderr, missing))


def check(jars: Iterable[Jar], folder: Path) -> None:
    """Compare every jar with the lock.

    Raises:
        RuntimeUnavailableError: one is missing, cut short, or another file altogether.
    """
    for jar in jars:
        path = folder / jar.file
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "nothing"
        if found != jar.sha256:
            raise RuntimeUnavailableError(
                f"{jar} is not what {LOCK.name} says: SHA-256 {jar.sha256} was expected, {found} was found"
            )


def ivy_xml(jars: Iterable[Jar]) -> str:
    """The module that Ivy resolves: exactly these jars."""
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="chaos" module="parts"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>\n{dependencies}\n</dependencies></ivy-module>\n'
    )


def _settings_xml(cache: Path) -> str:
    """Maven Central, unless CHAOS_MAVEN_MIRROR names another place."""
    mirror = os.environ.get("CHAOS_MAVEN_MIRROR")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        f'<ivysettings><settings defaultResolver="maven"/><caches defaultCacheDir={quoteattr(str(cache))}/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true" usepoms="true"{root}/></resolvers></ivysettings>\n'
    )


def _why(output: str, missing: list[str]) -> str:
    named = f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"  # noqa: PLR2004 - enough to know
    if any(word in output for word in _NO_NETWORK):
        return (
            f"{len(missing)} jars are not in the cache and Maven Central cannot be reached ({named}); "
            "connect to a network once, set CHAOS_MAVEN_MIRROR to a mirror, or copy a filled cache and set CHAOS_CACHE"
        )
    tail = " | ".join(line.strip() for line in output.splitlines() if "ERROR" in line or "WARN" in line)[-400:]
    return f"{len(missing)} jars could not be fetched ({named}): {tail or output[-400:]}"
