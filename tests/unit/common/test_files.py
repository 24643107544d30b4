"""Folders that nobody else has."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from chaos.common import files
from chaos.common.errors import RuntimeUnavailableError


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

    with pytest.raises(RuntimeUnavailableError, match=f"no new folder could be made in {tmp_path}"):
        files.new_folder(tmp_path, "system")
