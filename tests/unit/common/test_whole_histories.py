"""A history that lacks lines is refused, whichever lines they are: what they said may have been a failure."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.common.errors import InconclusiveError
from chaos.common.events import FORMAT, PhaseBegan, PhaseEnded, ProgressSampled, RunBegan, RunEnded, RunFailed
from chaos.common.history import History, format_of, load, require_complete
from tests.unit.wording import keep

PHASES = ("set_up", "steady", "inject", "heal", "drain", "observe", "judge")
OF_PHASES = [*chain.from_iterable((PhaseBegan(phase=name), PhaseEnded(phase=name)) for name in PHASES)]
SAMPLES = [ProgressSampled(written=n, committed=n, total=9, end=n) for n in range(3)]
OF_RUN = [*OF_PHASES[:3], *SAMPLES, *OF_PHASES[3:]]
WHOLE = [RunBegan(run="x", format=FORMAT), *OF_RUN, RunEnded(events=1 + len(OF_RUN))]


def written(folder, values):
    """The lines of a history of these events."""
    path = folder / "history.jsonl"
    path.unlink(missing_ok=True)
    with History(path) as history:
        for value in values:
            history.record(value)
    return path, path.read_text(encoding="utf-8").splitlines(keepends=True)


def judged(path, lines, *, was_judged=True):
    """Whether it is believed; the reason if not."""
    path.write_text("".join(lines), encoding="utf-8")
    try:
        require_complete(list(load(path)), path, was_judged=was_judged)
    except InconclusiveError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("values", [WHOLE, [*WHOLE[:-1], RunFailed(error="Ctrl-C"), RunEnded(events=len(WHOLE))]])
def test_a_whole_history_is_believed(tmp_path, values):
    """Also of a run that was ended from outside."""
    assert judged(*written(tmp_path, values)) == ""


@given(lost=st.sets(st.integers(0, len(WHOLE) - 1), min_size=1))
def test_no_set_of_lines_can_be_lost_unseen(tmp_path_factory, lost):
    """In the middle, at the begin, at the end, or all of them: the reason is one line, and names the file."""
    path, lines = written(tmp_path_factory.mktemp("lost"), WHOLE)

    why = judged(path, [line for number, line in enumerate(lines) if number not in lost])

    assert why.startswith(f"{path} ")
    assert "\n" not in why


@given(order=st.permutations(range(len(WHOLE))))
def test_lines_that_changed_places_are_seen(tmp_path_factory, order):
    """The order of lines decides, for instance, whether a fault came too late."""
    path, lines = written(tmp_path_factory.mktemp("order"), WHOLE)

    assert bool(judged(path, [lines[number] for number in order])) == (order != sorted(order))


def test_a_line_that_is_there_twice(tmp_path):
    """As in a file that was put together from two copies."""
    path, lines = written(tmp_path, WHOLE)

    said = keep(judged(path, [*lines[:3], *lines[2:]]))
    assert "line 3 " in said
    assert "line 4" in said


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ([4], "lacks line 5: "),
        ([4, 5, 6, 9], "lacks lines 5 to 7, 10: "),
        ([1, 3, 5, 7, 9], "lacks lines 2, 4, 6 and 2 more pieces: "),
    ],
)
def test_the_lines_that_are_missing_are_named(tmp_path, lost, named):
    """By their numbers in the whole file, counted from 1 as an editor does."""
    path, lines = written(tmp_path, WHOLE)

    assert named in judged(path, [line for number, line in enumerate(lines) if number not in lost])


def test_one_that_was_cut_short_is_told_with_its_last_line(tmp_path):
    """A whole number of lines: nothing of it is damaged."""
    path, lines = written(tmp_path, WHOLE)

    assert "history.jsonl ends with line 9, " in keep(judged(path, lines[:9]))
    assert "history.jsonl has no line: " in judged(path, [])
    assert "ends with line 9, " in judged(path, [*lines[:9], lines[9][:-5]])


def test_a_run_that_was_killed_while_it_was_judged_can_be_judged_again(tmp_path):
    """All that the verdict rests on was there by then; a report that tells of more shows that lines are missing."""
    path, lines = written(tmp_path, WHOLE[:-2])

    assert judged(path, lines, was_judged=False) == ""
    assert judged(path, lines, was_judged=True) != ""


def test_one_without_an_end_is_refused(tmp_path):
    """Only later lines would show whether a failure was the one that the scenario expects."""
    path, lines = written(tmp_path, OF_RUN)

    assert "and the run went on after that" in judged(path, lines)


@pytest.mark.parametrize(
    ("first", "format_"),
    [(RunBegan(run="x", format=FORMAT), FORMAT), (RunBegan(run="x"), 2), (PhaseBegan(phase="set_up"), 1)],
)
def test_the_format_is_in_the_first_line(tmp_path, first, format_):
    """It was not said before format 3."""
    path, _ = written(tmp_path, [first, *OF_RUN])

    assert format_of(path) == format_


def test_a_line_that_is_not_the_first_says_no_format(tmp_path):
    """Lines are missing before it, and `load` says so."""
    path, lines = written(tmp_path, WHOLE)
    path.write_text("".join(lines[1:]), encoding="utf-8")

    assert format_of(path) is None


@pytest.mark.parametrize("text", ["", "?\n", "[]\n"])
def test_a_first_line_that_says_no_format(tmp_path, text):
    """It is damaged, and `load` says so."""
    (tmp_path / "history.jsonl").write_text(text, encoding="utf-8")

    assert format_of(tmp_path / "history.jsonl") is None


@pytest.mark.parametrize("index", ["1", None, 1.0])
def test_an_index_that_is_no_number(tmp_path, index):
    """The line is damaged, as any other that lacks something."""
    path, lines = written(tmp_path, WHOLE)
    lines[1] = json.dumps(json.loads(lines[1]) | {"index": index}) + "\n"

    assert "history.jsonl:2 is damaged (" in judged(path, lines)
