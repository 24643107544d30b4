import re
import struct

import numpy as np
import pytest

from chaos.report.formatting import phrases
from chaos.report.model import Report
from chaos.report.run_clock import RunClock
from chaos.report.timeline import _figure, draw
from tests.unit.report.conftest import Fabricated


def drawn(run: Fabricated, report: Report) -> tuple[list[str], list[float]]:
    """All texts of the picture, and the left edges of the fault bars in seconds."""
    figure = _figure(report, run.events())
    lower = figure.axes[1]
    texts = [text.get_text().replace("\u00a0", " ") for axes in figure.axes for text in (*axes.texts, *axes.get_yticklabels())]
    return texts, [bar.get_x() for container in lower.containers for bar in container]


def test_both_files_are_written_and_of_their_kind(run: Fabricated) -> None:
    """900 points wide in a report, sharp on a dense screen, and a vector picture beside it."""
    svg, png = draw(run.report(), run.events(), run.folder)

    assert (svg, png) == (run.folder / "timeline.svg", run.folder / "timeline.png")
    assert svg.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert (width, height > 400) == (1350, True)


def test_the_same_run_gives_the_same_picture(run: Fabricated) -> None:
    """Judged again, a run directory must not change without reason."""
    first = draw(run.report(), run.events(), run.folder)[0].read_text(encoding="utf-8")

    assert draw(run.report(), run.events(), run.folder)[0].read_text(encoding="utf-8") == first
    assert not re.search(r"<dc:date>", first)


def test_the_records_of_an_output_that_stands_still_are_drawn_to_the_end(run: Fabricated) -> None:
    """Nothing is sampled while nothing moves, and a line that ends early looks like a run that ended."""
    report = run.report()
    upper = _figure(report, run.events()).axes[0]

    ends = {line.get_label(): float(np.asarray(line.get_xdata())[-1]) for line in upper.lines}
    assert ends["committed"] == ends["written"] == RunClock.of(report, run.events()).span_s


def test_faults_phases_and_verdict_are_named(run: Fabricated) -> None:
    """A picture that needs the log beside it explains nothing."""
    texts, bars = drawn(run, run.report())

    assert {"kill_broker-1", "broker-2 (leader of datasink-0)", "inject\n8.0 s", "INVALID: duplicates 1 204 · gaps 0"} <= set(
        texts
    )
    assert not any("set_up" in text for text in texts), "0.4 s of 22 are too narrow for a name"
    assert bars == [pytest.approx(5.0)]


def test_the_records_over_time_are_those_of_the_history(run: Fabricated) -> None:
    """Written and committed, in seconds since the run began."""
    lines = {line.get_label(): line for line in _figure(run.report(), run.events()).axes[0].get_lines()}

    written, committed, broken = (np.asarray(lines[name].get_xydata()) for name in ("written", "committed", "broken record"))
    assert (written[0][0], written[-1][1]) == (pytest.approx(1.0), 30_000)
    assert committed[-1][1] == 30_000
    assert list(broken[:, 0]) == [pytest.approx(6.2)]


def test_a_row_with_a_time_of_its_program_is_not_drawn_outside_of_the_run(run: Fabricated) -> None:
    """An hour before it and an hour after it: the picture would have no room for anything else."""
    report = run.report(
        findings=(run.duplicates(examples=tuple(run.example(timestamp_ms=run.at(s)) for s in (-3600, 6.2, 3600))),)
    )

    lines = {line.get_label(): line for line in _figure(report, run.events()).axes[0].get_lines()}

    assert list(np.asarray(lines["broken record"].get_xydata())[:, 0]) == [pytest.approx(6.2)]
    assert draw(report, run.events(), run.folder)[1].stat().st_size > 1000


def test_a_fault_that_was_never_injected_has_a_lane_and_no_bar(run: Fabricated) -> None:
    """That it is missing must be seen."""
    never = run.fault(injected_ms=None, healed_ms=None, proved_ms=None, effective=False, problem="its trigger never came")
    texts, bars = drawn(run, run.report(faults=(never,)))

    assert {"kill_broker-1", "its trigger never came"} <= set(texts)
    assert bars == []


def test_nothing_at_all_can_be_drawn(run: Fabricated) -> None:
    """A run that died in set_up has a picture too; a dollar sign in its title does not begin a formula."""
    report = run.valid(title="cost $x^{ of $", phases=(), faults=(), findings=())

    assert draw(report, (), run.folder)[1].stat().st_size > 1000


LONG = "The leader of a sink partition is killed in the middle of a batch, while its followers are cut off and nobody is told"


@pytest.mark.parametrize("fault", ["cut-1", "the-leader-of-the-sink-is-cut-off-from-both-of-its-followers"])
@pytest.mark.parametrize("logs", [1, 3, 12])
def test_title_and_verdict_are_within_the_picture(run: Fabricated, fault: str, logs: int) -> None:
    """However much is found, and however long the names beside the picture are; what is left out is left out after a word."""
    found = [run.duplicates(subject=f"orders-of-branch-{number}") for number in range(logs)]
    report = run.report(title=LONG, findings=tuple(found), faults=(run.fault(name=fault),))
    figure = _figure(report, run.events())
    figure.draw_without_rendering()

    shown = {text.get_text().replace("\n", " "): text.get_window_extent() for text in figure.axes[0].texts}
    verdict = next(text for text in shown if text.startswith("INVALID: "))
    said = f"INVALID: {' · '.join(phrases(report))}"

    assert LONG in shown
    assert said.startswith(verdict.removesuffix("…"))
    assert (verdict == said, verdict.endswith("…")) == ((True, False) if logs <= 3 else (False, True))
    assert said.removeprefix(verdict.removesuffix("…"))[:1] in {"", " "}, "it is cut between two words"
    for text in (verdict, LONG):
        assert 0 <= shown[text].x0 < shown[text].x1 <= figure.bbox.width
    assert shown[verdict].y1 <= shown[LONG].y0
    assert shown[LONG].y1 <= figure.bbox.height


def test_a_word_that_is_longer_than_the_picture_is_cut(run: Fabricated) -> None:
    """There is nothing else to cut."""
    figure = _figure(run.report(title="W" * 390), run.events())
    figure.draw_without_rendering()

    (title,) = (text for text in figure.axes[0].texts if text.get_text().startswith("W"))
    assert title.get_text().endswith("…")
    assert title.get_window_extent().x1 <= figure.bbox.width
