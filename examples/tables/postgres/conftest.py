"""A server of PostgreSQL for the scenarios of this folder, on loopback, as long as they run."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HOST, PORT = "127.0.0.1", 54392
_FOLDERS = "/usr/lib/postgresql/*/bin"
_SERVER = pytest.StashKey[object]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start it before the first scenario."""
    if _SERVER not in item.config.stash:
        server = running()
        server.__enter__()
        item.config.stash[_SERVER] = server
        item.config.add_cleanup(lambda: server.__exit__(None, None, None))


@contextmanager
def running() -> Iterator[None]:
    """A server with an empty database; it refuses root, who starts it as the user that the package makes."""
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    if as_user:
        shutil.chown(folder, "postgres", "postgres")
    data, log = folder / "data", folder / "log"
    _run([*as_user, _program("initdb"), "-D", str(data), "-U", "shop", "--auth=trust", "--no-sync"], folder)
    options = f"-h {HOST} -p {PORT} -k '' -c fsync=off"
    control = [*as_user, _program("pg_ctl"), "-D", str(data), "-w", "-t", "120"]
    _run([*control, "-l", str(log), "-o", options, "start"], folder)
    try:
        yield
    finally:
        _run([*control, "-m", "immediate", "stop"], folder)
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(places[-1]) if places else shutil.which(name)
    if found is None:
        pytest.fail(
            f"{name} is neither in {_FOLDERS} nor on the path: install PostgreSQL (apt-get install postgresql)", pytrace=False
        )
    return found


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=180, check=False)
    if done.returncode:
        pytest.fail(f"{command[-1]}: {done.stderr.decode(errors='replace').strip()[-300:]}", pytrace=False)
