"""Files that replace nothing but files, and folders that nobody else has."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from chaos.common import files
from chaos.common.errors import RuntimeUnavailableError
from tests.unit.wording import raised


@pytest.fixture
def at_once(monkeypatch):
    """Everything happens in one second."""
    monkeypatch.setattr(files, "stamp", lambda: "20260101T000000Z")


@pytest.mark.usefixtures("at_once")
def test_folders_of_one_second_are_two(tmp_path):
    """Two sessions that start together would share their brokers' data."""
    folders = [files.new_folder(tmp_path / "runs", "system") for _ in range(2)]

    assert [folder.name for folder in folders] == ["20260101T000000Z-system", "20260101T000000Z-system-2"]
    assert all(folder.is_dir() for folder in folders)


@pytest.mark.usefixtures("at_once")
def test_whoever_makes_one_has_it_alone(tmp_path):
    """Many at the same time, as processes do that know nothing of each other."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(partial(files.new_folder, tmp_path), ["system"] * 40))

    assert len(set(made)) == 40


@pytest.mark.usefixtures("at_once")
def test_there_is_an_end_to_it(tmp_path):
    for _ in range(99):
        files.new_folder(tmp_path, "system")

    with raised(RuntimeUnavailableError, tmp_path):
        files.new_folder(tmp_path, "system")


# what is no regular file ---------------------------------------------------------------------------------------------------


def test_a_device_is_written_to_and_stays_one(monkeypatch):
    """As root, a file that is renamed onto /dev/null would take its place for the whole machine."""
    renamed = []
    monkeypatch.setattr(Path, "replace", lambda *given: renamed.append(given))

    files.write_atomically(Path("/dev/null"), "text")

    assert (stat.S_ISCHR(Path("/dev/null").stat().st_mode), renamed) == (True, [])


def test_a_fifo_is_written_to_and_stays_one(tmp_path):
    """Its reader may come a little later."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(files.write_bytes_atomically, path, b"x" * 200_000)
        with path.open("rb") as file:
            read = file.read()
        written.result(60)

    assert (len(read), path.is_fifo(), list(tmp_path.iterdir())) == (200_000, True, [path])


def test_a_fifo_that_nobody_reads(tmp_path, monkeypatch):
    """There is an end to waiting for a reader."""
    monkeypatch.setattr(files, "_READER_WITHIN_S", 0.1)
    path = tmp_path / "fifo"
    os.mkfifo(path)

    with raised(OSError, "FIFO", "0.1 s"):
        files.write_atomically(path, "text")


@pytest.mark.parametrize("there", [True, False])
def test_of_a_link_the_file_that_it_points_to_is_replaced(tmp_path, there):
    """Through several links, and also where that file is not there yet."""
    folder, link, other = tmp_path / "folder", tmp_path / "link", tmp_path / "other"
    folder.mkdir()
    link.symlink_to(other)
    other.symlink_to(folder / "file")
    if there:
        (folder / "file").write_text("old", encoding="utf-8")

    files.write_atomically(link, "new")

    assert (link.is_symlink(), other.is_symlink()) == (True, True)
    assert (folder / "file").read_text(encoding="utf-8") == "new\n"
    assert list(folder.iterdir()) == [folder / "file"]


def test_links_in_a_circle(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)

    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        files.write_atomically(first, "text")
    assert first.is_symlink()


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(OSError, match="Is a directory"):
        files.write_atomically(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []


def test_standard_output_is_written_to_by_any_of_its_names(tmp_path):
    """Where it is a file, what was printed before is kept, and what is printed later comes after it."""
    code = (
        "import sys; from pathlib import Path; from chaos.common import files\n"
        "print('before')\n"
        "for name in ('/dev/stdout', '/proc/self/fd/1', sys.argv[1]): files.write_atomically(Path(name), name)\n"
        "print('after')"
    )
    path = tmp_path / "out"
    with path.open("w", encoding="utf-8") as file:
        subprocess.run([sys.executable, "-c", code, str(path)], stdout=file, check=True, timeout=300)

    assert path.read_text(encoding="utf-8").split() == ["before", "/dev/stdout", "/proc/self/fd/1", str(path), "after"]


# folders -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "message"), [("file", "Not a directory"), ("file/below", "Not a directory")])
def test_a_folder_that_cannot_be_made(tmp_path, name, message):
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match=message):
        files.require_folder(tmp_path / name)


def test_nothing_can_be_put_into_proc():
    """Root has all permissions there, and can make nothing."""
    with pytest.raises(OSError, match="/proc"):
        files.require_folder(Path("/proc/x"))


def test_a_folder_that_can_be_made_is_not_made(tmp_path):
    for place in (tmp_path, tmp_path / "a/b"):
        files.require_folder(place)

    assert list(tmp_path.iterdir()) == []
