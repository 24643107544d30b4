"""A folder is copied to another disk before a process starts, and back when it has ended: the script as `sh` runs it."""

import os
import signal
import subprocess

import pytest

from chaos.common import clock
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker.process import REAL, Disk, on_disk, used_bytes


@pytest.fixture
def disks(tmp_path):
    """The real one with a file, and the small one, empty."""
    real, small = tmp_path / "real", tmp_path / "small"
    for disk in (real, small):
        disk.mkdir()
    (real / "old").write_text("old")
    return real, small


def moved(disks, command):
    """The command that a container would start, with the real disk at its path on this machine."""
    real, small = disks
    spec = on_disk(ProcessSpec("broker-1", ("sh", "-c", command), small, small / "log"), Disk(small, 1))
    assert spec.name == "broker-1-on-small-disk"
    return [str(real) if word == REAL else word for word in spec.argv]


def test_a_process_finds_its_files_and_what_it_wrote_is_kept(disks):
    """Its exit code is kept too; files that it removed are gone from the real disk as well."""
    real, small = disks

    done = subprocess.run(
        moved(disks, f"cd {small} && cat old && rm old && echo new >new; exit 3"), capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (3, b"old")
    assert [path.name for path in real.iterdir()] == ["new"]


def test_a_process_that_is_asked_to_end_ends_first(disks):
    """Files that it wrote at its end are copied, too."""
    real, small = disks
    command = f"trap 'echo bye >{small}/last; exit 143' TERM; touch {small}/ready; while :; do read -r _ <{small}/never; done"
    os.mkfifo(small / "never")
    process = subprocess.Popen(moved(disks, command))
    clock.wait_until((small / "ready").exists, within_s=120, reason="the process to be ready")
    (small / "never").unlink()

    process.send_signal(signal.SIGTERM)
    code = process.wait(120)

    assert (real / "last").read_text() == "bye\n", code
    assert code == 143


def test_what_a_folder_takes_is_counted_in_pages(disks):
    """A byte takes a page; a hole takes nothing."""
    real, _ = disks
    before = used_bytes(real)

    (real / "byte").write_bytes(b"x")
    with (real / "sparse").open("wb") as file:
        file.truncate(10_000_000)

    assert used_bytes(real) == before + 4096
