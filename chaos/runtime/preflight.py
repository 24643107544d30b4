"""What the machine must have, asked before anything is started; each answer says what is wrong and how to mend it."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

from chaos.errors import RuntimeUnavailableError

_JAVA = 17
_MEMORY_GIB = 3.5
_DISK_GIB = 2.0
_GIB = 1 << 30


def check_machine(
    cache: Path, runs: Path, *, memory_gib: float = _MEMORY_GIB, disk_gib: float = _DISK_GIB, platform: str = sys.platform
) -> None:
    """Platform, memory and disk.

    Raises:
        RuntimeUnavailableError: one of them does not do.
    """
    if platform != "linux":
        raise RuntimeUnavailableError(
            f"the system runs on Linux only ({platform} gives no addresses beside 127.0.0.1 and no /proc); "
            "use a Linux machine or container"
        )
    free_gib = psutil.virtual_memory().available / _GIB
    if free_gib < memory_gib:
        raise RuntimeUnavailableError(
            f"{free_gib:.1f} GiB of memory are free, {memory_gib:g} GiB are needed; close something, or give the container more"
        )
    for folder in (cache, runs):
        _check_disk(folder, disk_gib)


def _check_disk(folder: Path, disk_gib: float) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free_gib = shutil.disk_usage(existing).free / _GIB
    if free_gib < disk_gib:
        raise RuntimeUnavailableError(
            f"{free_gib:.1f} GiB of disk are free in {existing}, {disk_gib:g} GiB are needed; "
            "make room, or move CHAOS_CACHE or --chaos-runs elsewhere"
        )


def find_java() -> Path:
    """The Java to use: JAVA_HOME first, then the path.

    Raises:
        RuntimeUnavailableError: none, or one that is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME={home} holds no bin/java" if home else "no java is on the path and JAVA_HOME is not set"
        raise RuntimeUnavailableError(
            f"{where}; install a JDK, {_JAVA} or newer, e.g. apt-get install openjdk-{_JAVA}-jdk-headless"
        )
    java = Path(found).resolve()
    version = java_version(java)
    if version < _JAVA:
        raise RuntimeUnavailableError(
            f"{java} is Java {version}; {_JAVA} or newer is needed: install one and set JAVA_HOME to it"
        )
    return java


def java_version(java: Path) -> int:
    """Its major version; 0 when it does not say."""
    answer = subprocess.run((str(java), "-version"), capture_output=True, text=True, timeout=60, check=False)
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(text: str) -> int:
    """17 from ``openjdk version "17.0.15"``, 8 from ``"1.8.0_402"``, 0 from anything else."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else 0


def check_addresses(addresses: Iterable[tuple[str, int]]) -> None:
    """Nothing may listen where the system will.

    Raises:
        RuntimeUnavailableError: something does, or the address is not this machine's.
    """
    for host, port in addresses:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise RuntimeUnavailableError(
                    f"{host}:{port} is taken{_holder(host, port)} ({error.strerror}); "
                    "end that process, or set CHAOS_NET=127.78 to move the whole system"
                ) from error


def _holder(host: str, port: int) -> str:
    """Who listens there, as far as it may be known; on all addresses counts as well."""
    taken = {(host, port), ("0.0.0.0", port), ("::", port)}  # noqa: S104 - compared, not bound
    for found in psutil.net_connections("tcp"):
        if found.status == psutil.CONN_LISTEN and tuple(found.laddr) in taken and found.pid:
            return f" by {psutil.Process(found.pid).name()} (pid {found.pid})"
    return ""
