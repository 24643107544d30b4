"""Where the demo may write, and what it leaves alone."""

from pathlib import Path

import pytest

from chaos.demo import folder
from chaos.demo.folder import PAGE, RUNS, SCENARIOS, DemoUsageError

PROGRAM = "copy_in_steps.py"


def written(place: Path) -> Path:
    folder.check(place)
    folder.write(place)
    return place


@pytest.mark.parametrize("is_there", [False, True])
def test_a_new_or_an_empty_folder_gets_all_files(tmp_path: Path, *, is_there: bool) -> None:
    place = tmp_path / "some" / "place"
    if is_there:
        place.mkdir(parents=True)

    written(place)

    names = {path.name for path in place.iterdir()}
    assert names == {SCENARIOS, PROGRAM, "copy_in_transactions.py", ".gitignore"}
    assert {name: (place / name).read_text(encoding="utf-8") for name in names} == folder.texts()


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    """What else is missing is known before anything is written."""
    folder.check(tmp_path / "place")

    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_an_earlier_demo_is_used_again(tmp_path: Path) -> None:
    """With its runs, and what pytest and an editor left there; a file that is missing comes again."""
    place = written(tmp_path / "place")
    (place / RUNS).mkdir()
    (place / PAGE).touch()
    (place / "__pycache__").mkdir()
    (place / PROGRAM).unlink()

    written(place)

    assert (place / PROGRAM).read_text(encoding="utf-8") == folder.texts()[PROGRAM]
    assert (place / RUNS).is_dir()


@pytest.mark.parametrize("name", [PROGRAM, SCENARIOS])
def test_a_file_that_was_changed_is_not_overwritten(tmp_path: Path, name: str) -> None:
    """Who mends the wrong program keeps what they wrote; the message names the file, and says how it is run."""
    place = written(tmp_path / "place")
    text = folder.texts()[name] + "# mine\n"
    (place / name).write_text(text, encoding="utf-8")

    with pytest.raises(DemoUsageError, match=rf"{name}: .*pytest -m chaos {SCENARIOS}"):
        folder.check(place)

    assert (place / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["notes.txt", SCENARIOS, ".hidden"])
def test_a_folder_of_the_users_own_is_refused(tmp_path: Path, name: str) -> None:
    """Also if it has a scenarios file: that is theirs."""
    (tmp_path / name).write_text("version: 2\n", encoding="utf-8")

    with pytest.raises(DemoUsageError, match=r"not empty.*--into"):
        folder.check(tmp_path)


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/demo", "/proc/demo"])
def test_a_place_where_no_folder_can_be_is_refused(place: str) -> None:
    with pytest.raises(DemoUsageError, match=f"^{place}: .*--into"):
        folder.check(Path(place))


def test_what_happens_between_check_and_write_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "place").touch()

    with pytest.raises(DemoUsageError, match="cannot be written: File exists"):
        folder.write(tmp_path / "place")
