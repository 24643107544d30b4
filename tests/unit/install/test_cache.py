import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO

import psutil
import pytest

from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache


def test_the_cache_goes_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CHAOS_CACHE moves all parts; without it they are in the user's own cache."""
    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path))
    assert cache.folder() == tmp_path

    monkeypatch.delenv("CHAOS_CACHE")
    assert cache.folder().name == "kafka-spark-chaos"


def test_other_ingredients_have_another_digest() -> None:
    """A part that is made of something else has another place; the same ingredients find the same place."""
    assert cache.digest("a", "b") == cache.digest("a", "b")
    assert len({cache.digest("a", "b"), cache.digest("b", "a"), cache.digest("ab"), cache.digest("a")}) == 4


def test_a_part_is_made_once(tmp_path: Path) -> None:
    """A part that exists is never made again."""
    made: list[Path] = []
    for _ in range(2):
        cache.make(tmp_path / "part", made.append, print)

    assert len(made) == 1


def test_a_part_that_could_not_be_made_is_not_there(tmp_path: Path) -> None:
    """An error on the way leaves nothing that the next run would take for a part."""

    def broken(half: Path) -> None:
        (half / "jar").touch()
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - its own
        cache.make(tmp_path / "part", broken, print)

    assert not (tmp_path / "part").exists()


def test_what_an_earlier_process_left_half_made_is_ignored_and_removed(tmp_path: Path) -> None:
    """A process that was killed while it made a part leaves a folder that is never used, whatever part it was for."""
    for left in ("part.half", "other.half"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "old").touch()

    cache.make(tmp_path / "part", lambda half: (half / "new").touch(), print)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["locks", "part", "sessions"]
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["new"]


STARTS = """
import os, signal, subprocess, sys
from pathlib import Path
from chaos.install import cache

def make(half):
    started = subprocess.Popen(["sleep", "100"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(started.pid, flush=True)
    {end}

cache.make(Path(sys.argv[1]) / "part", make, lambda line: None)
"""


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "raise OSError", "pass"]
)
def test_what_is_started_for_a_part_ends_with_its_making(tmp_path: Path, end: str) -> None:
    """A broker that is left over would keep its port, and the next attempt to make the part would fail."""
    script = STARTS.replace("{end}", end)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    pid = int(done.stdout)

    clock.wait_until(lambda: gone(pid), within_s=120, reason="what was started to end")

    assert (tmp_path / "part").exists() == (end == "pass")


def test_what_an_earlier_process_left_running_is_ended(tmp_path: Path) -> None:
    """The warden of that process was killed as well."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTS.replace("{end}", "signal.pause()"), str(tmp_path)], stdout=PIPE
    ) as first:
        assert first.stdout is not None
        left = psutil.Process(int(first.stdout.readline()))
        for one in psutil.Process(first.pid).children():
            if one != left:
                one.kill()
        first.kill()

    cache.make(tmp_path / "part", lambda _half: None, print)

    clock.wait_until(lambda: gone(left.pid), within_s=120, reason="what was left to end")
    assert list((tmp_path / "sessions").iterdir()) == []


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie, whose exit code was not collected, has ended too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


MAKES = """
import sys
from pathlib import Path
from chaos.install import cache

def make(half):
    print("in", flush=True)
    {then}
    (half / "first").touch()

cache.make(Path(sys.argv[1]) / "part", make, print)
"""


@contextmanager
def making(folder: Path) -> Iterator[IO[bytes]]:
    """Another process makes the part, until its standard input is closed, which is yielded."""
    command = [sys.executable, "-c", MAKES.replace("{then}", "sys.stdin.read(1)"), str(folder)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == b"in\n"
        yield first.stdin


def test_a_part_that_another_process_makes_is_waited_for(tmp_path: Path) -> None:
    """It is made once, and the one that waits says so."""
    made: list[Path] = []
    said: list[str] = []
    with making(tmp_path) as stdin:

        def echo(line: str) -> None:
            said.append(line)
            stdin.close()

        cache.make(tmp_path / "part", made.append, echo)

        assert (tmp_path / "part" / "first").exists()

    assert made == []
    assert said == [f"another process is making part in {tmp_path}; waiting for it …"]


def test_a_part_is_made_beside_another_process_that_makes_another(tmp_path: Path) -> None:
    """A long download keeps nobody from starting, and is not taken for one that a killed process left."""
    said: list[str] = []
    with making(tmp_path) as stdin:
        cache.make(tmp_path / "other", lambda half: (half / "new").touch(), said.append)

        assert (tmp_path / "other" / "new").exists()
        assert (tmp_path / "part.half").is_dir()
        stdin.close()

    assert (tmp_path / "part" / "first").exists()
    assert said == []


def test_a_process_that_was_killed_while_it_made_a_part_blocks_nobody(tmp_path: Path) -> None:
    """Its lock ends with it."""
    code = MAKES.replace("{then}", "import os; os._exit(9)")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True)
    said: list[str] = []

    cache.make(tmp_path / "part", lambda _half: None, said.append)

    assert (tmp_path / "part").is_dir()
    assert said == []


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """The message names the variable to set."""
    (tmp_path / "file").touch()

    with pytest.raises(RuntimeUnavailableError, match=r"file/cache cannot be written .*set CHAOS_CACHE"):
        cache.make(tmp_path / "file" / "cache" / "part", lambda _half: None, print)
