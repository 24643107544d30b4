"""Checks of the machine before anything is started; each error says what is wrong and how to mend it."""

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError

JAVA = 17
MEMORY_GIB = 3.5
DISK_GIB = 2.0
_GIB = 1 << 30
_ASK_WITHIN_S = 60
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, never bound


def check_machine(
    cache: Path, runs: Path, *, memory_gib: float = MEMORY_GIB, disk_gib: float = DISK_GIB, platform: str = sys.platform
) -> str:
    """Check platform, memory and disk, and name them.

    Raises:
        RuntimeUnavailableError: the system cannot run here.
    """
    check_platform(platform)
    check_memory(memory_gib)
    for folder in (cache, runs):
        check_disk(folder, disk_gib)
    return "Linux, with enough memory and disk"


def check_platform(platform: str = sys.platform) -> None:
    """Check for Linux, where every address of 127.0.0.0/8 can be bound without configuration, and /proc exists."""
    if platform != "linux":
        raise RuntimeUnavailableError(
            f"the system runs on Linux only: {platform} offers 127.0.0.1 alone, and no /proc; use a Linux machine or container"
        )


def check_memory(needed_gib: float = MEMORY_GIB) -> None:
    """Check that three brokers, Spark and its driver fit into memory."""
    free_gib = psutil.virtual_memory().available / _GIB
    if free_gib < needed_gib:
        raise RuntimeUnavailableError(
            f"{free_gib:.1f} GiB of memory are free, the system needs {needed_gib:g} GiB; free some, or enlarge the container"
        )


def check_disk(folder: Path, needed_gib: float = DISK_GIB) -> None:
    """Check the room in a folder; for one that does not exist yet, in the folder that will hold it."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free_gib = shutil.disk_usage(existing).free / _GIB
    if free_gib < needed_gib:
        raise RuntimeUnavailableError(
            f"{free_gib:.1f} GiB of disk are free in {existing}, the system needs {needed_gib:g} GiB; "
            "make room, or move CHAOS_CACHE or --chaos-runs elsewhere"
        )


def find_java(minimum: int = JAVA) -> Path:
    """Find the Java to use: that of JAVA_HOME, or else the one on the path.

    Raises:
        RuntimeUnavailableError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME={home} holds no bin/java" if home else "the path has no java, and JAVA_HOME is not set"
        raise RuntimeUnavailableError(
            f"{where}; install a JDK, {minimum} or newer, e.g. apt-get install openjdk-{minimum}-jdk-headless"
        )
    java = Path(found).resolve()
    version = java_version(java)
    if major(version) < minimum:
        raise RuntimeUnavailableError(
            f"{java} is Java {version}; the system needs {minimum} or newer: install one and set JAVA_HOME to it"
        )
    return java


def java_version(java: Path) -> str:
    """Full version of a Java, from the JDK's ``release`` file if it has one (no JVM has to start), or from ``java -version``.

    Returns:
        E.g. ``17.0.15+6-Debian-1deb12u1``; ``unknown`` if neither has it.
    """
    release = java.parent.parent / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8")
    else:
        answer = processes.run((str(java), "-version"), within_s=_ASK_WITHIN_S)
        text = answer.stderr + answer.stdout
    return parse_java_version(text)


def parse_java_version(text: str) -> str:
    """Parse the version in a ``release`` file or in the output of ``java -version``."""
    for pattern in (
        r'JAVA_RUNTIME_VERSION="([^"]+)"',
        r'JAVA_VERSION="([^"]+)"',
        r"\(build (\d[^,)\s]*)",
        r'version "([^"]+)"',
    ):
        if match := re.search(pattern, text):
            return match[1]
    return "unknown"


def major(version: str) -> int:
    """Major version: 17 of ``17.0.15+6``, 8 of ``1.8.0_402``, 0 of a text that is not a version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def check_addresses(addresses: Iterable[tuple[str, int]]) -> str:
    """Check that nothing listens on these addresses, and say so.

    Raises:
        RuntimeUnavailableError: a process listens there, or this machine does not have the address.
    """
    for host, port in addresses:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise RuntimeUnavailableError(
                    f"the system cannot listen on {host}:{port}: {error.strerror}{_holder(host, port)}; "
                    "end that process, or set CHAOS_NET=127.78 to move the whole system to other loopback addresses"
                ) from error
    return "free for Kafka, Spark and the proxy"


def _holder(host: str, port: int) -> str:
    """Name the process that listens there, if this user may know it."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.pid and connection.laddr:
            ip, its_port = connection.laddr
            if its_port == port and ip in {host, *_EVERYWHERE}:
                return f", taken by {_name_of_process(connection.pid)} (pid {connection.pid})"
    return ""


def _name_of_process(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a process"
