"""Progress, judged from made-up histories: how much time a fault cost, how much is too much, and what proves nothing."""

import pytest

from chaos.common.events import (
    FaultInjected,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
    PipelineSampled,
    ProcessReport,
    ProgressSampled,
    ReadersBlocked,
)
from chaos.common.history import Event
from chaos.judging import progress
from chaos.judging.progress import longest_blocked_s, longest_standstill_s, recoveries
from tests.unit.wording import keep
from verifiers.base import Verdict

TOTAL = 100


def history(*lines):
    """Events from (second, what, value): ``sample`` with the committed output, ``inject`` with a fault, or with a phase.

    ``loaded`` is a sample too, with what is in the source; ``lag`` says how far the pipeline is behind.
    """
    return tuple(_event(index, *line) for index, line in enumerate(lines))


def _event(index, second, what, value):
    if what in SAID:
        return Event(index, int(1000 * second), float(second), SAID[what](value))
    if what in PHASES:
        return Event(index, int(1000 * second), float(second), PHASES[what](phase=value))
    return Event(index, int(1000 * second), float(second), FaultInjected(fault=value))


SAID = {
    "sample": lambda value: ProgressSampled(written=TOTAL, committed=value, total=TOTAL, end=value),
    "loaded": lambda value: ProgressSampled(written=value, committed=value, total=TOTAL, end=value),
    "lag": lambda value: PipelineSampled(positions={}, lag=value),
    "blocked": lambda value: ReadersBlocked(partition=1, end=20, seconds=value),
    "died": lambda value: ProcessReport(who="loader", event="loaded", content={"records": value, "failed": True}),
    "ended": lambda value: PhaseFailed(phase=value[0], error=value[1], cause="pipeline ended"),
    "error": lambda value: PhaseFailed(phase=value[0], error=value[1]),
}
PHASES = {"begin": PhaseBegan, "end": PhaseEnded, "fail": PhaseFailed}
STEADY = ((0, "sample", 0), (1, "sample", 10), (2, "sample", 20))


def test_a_recovery_ends_with_the_longest_standstill():
    """Records that were already on their way when the fault came do not show a recovery."""
    events = history(*STEADY, (3, "inject", "kill"), (4, "sample", 22), (11, "sample", 30), (12, "sample", 40))

    (recovery,) = recoveries(events)

    assert (recovery.fault, recovery.seconds, recovery.committed) == ("kill", 8.0, 20)


def test_each_fault_pays_for_what_began_before_the_next_one():
    """A standstill that began after the second fault is not counted for the first."""
    events = history(
        *STEADY, (3, "inject", "a"), (6, "sample", 30), (10, "inject", "b"), (11, "sample", 40), (30, "sample", 50)
    )

    assert [(one.fault, one.seconds) for one in recoveries(events)] == [("a", 8.0), ("b", 20.0)]


def test_what_the_next_fault_made_longer_is_not_the_first_ones():
    """The output went on every second until the next fault came: what it then waited for was that one."""
    events = history(*STEADY, (3, "inject", "a"), (8, "sample", 30), (9, "sample", 31), (10, "inject", "b"), (50, "sample", 40))

    assert [(one.fault, one.seconds) for one in recoveries(events)] == [("a", 5.0), ("b", 40.0)]


def test_a_fault_that_cost_less_than_is_usual_is_over_with_the_first_growth():
    """Some standstill is the longest in any run; it is the fault's only if there was none like it before."""
    events = history(
        (0, "sample", 0), (1, "sample", 10), (4, "sample", 20), (5, "inject", "a"), (6, "sample", 30), (9, "sample", 40)
    )

    assert [one.seconds for one in recoveries(events)] == [1.0]


def test_an_output_that_was_put_back_has_not_grown():
    """A leader that takes over tells less for a moment."""
    events = history(*STEADY, (3, "inject", "kill"), (6, "sample", 7), (12, "sample", 20), (20, "sample", 21))

    assert [one.seconds for one in recoveries(events)] == [17.0]


@pytest.mark.parametrize(("slo_s", "verdict"), [(8.0, Verdict.VALID), (7.9, Verdict.INVALID)])
def test_a_recovery_may_take_as_long_as_declared(slo_s, verdict):
    """To the second, and the fault is named."""
    events = history(*STEADY, (3, "inject", "kill"), (11, "sample", 30))

    finding = progress.check(events, slo_s, TOTAL, "sink")

    assert finding.verdict is verdict
    assert finding.counts == {"slow recovery": int(verdict is Verdict.INVALID), "no recovery": 0, "blocked": 0}
    assert [example.words for example in finding.examples] == (
        ["kill: recovery took 8.0 s, 7.9 s are allowed"] if finding.count else []
    )


def test_an_output_that_never_grows_again_has_not_recovered():
    """Unless there was nothing left to come."""
    halted = progress.check(history(*STEADY, (3, "inject", "kill"), (64, "fail", "drain")), 60, TOTAL, "sink")
    through = progress.check(
        history(*STEADY, (3, "sample", TOTAL), (4, "inject", "kill"), (65, "fail", "drain")), 60, TOTAL, "sink"
    )

    assert (halted.verdict, halted.counts["no recovery"]) == (Verdict.INVALID, 1)
    assert keep(halted.examples[0].words).startswith("kill: ")
    assert through.verdict is Verdict.VALID


@pytest.mark.parametrize("after", [(), ((3.01, "sample", 21),)], ids=["nothing", "a last row"])
def test_a_run_that_ends_with_its_loader_shows_no_missing_recovery(after):
    """The fault was fatal to the loader. Whether one more row was seen before it ended is chance."""
    lines = (*STEADY, (3, "inject", "answer"), *after, (3.2, "fail", "drain"), (3.2, "begin", "observe"))

    finding = progress.check(history(*lines), 60, TOTAL, "source")

    assert (finding.verdict, finding.count) == (Verdict.VALID if after else Verdict.UNKNOWN, 0)
    assert keep(finding.note).startswith("answer: ") is (not after)


def test_an_output_that_stops_again_for_ever_has_not_recovered():
    """One record came after the fault, and none until the drain was given up."""
    lines = (*STEADY, (3, "inject", "kill"), (4, "sample", 21), (300, "fail", "drain"), (301, "begin", "observe"))

    finding = progress.check(history(*lines, (400, "begin", "judge")), 45, TOTAL, "sink")

    assert (finding.verdict, dict(finding.counts)) == (Verdict.INVALID, {"slow recovery": 0, "no recovery": 1, "blocked": 0})
    assert "21 of 100" in keep(finding.examples[0].words)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(((4, "sample", 21), (40, "fail", "drain"), (41, "begin", "observe")), id="not for longer than allowed"),
        pytest.param(((4, "sample", 21), (300, "end", "drain"), (301, "begin", "observe")), id="its end was not sampled"),
        pytest.param(((4, "sample", TOTAL), (300, "fail", "drain"), (301, "begin", "observe")), id="all was through"),
    ],
)
def test_an_output_that_only_ends_has_recovered(lines):
    """A run that ends is no standstill."""
    assert progress.check(history(*STEADY, (3, "inject", "kill"), *lines), 45, TOTAL, "sink").verdict is Verdict.VALID


UNDRAINED = ((300, "fail", "drain"), (301, "begin", "observe"))


@pytest.mark.parametrize("after", [(), ((4, "sample", TOTAL),)], ids=["at once", "after some growth"])
@pytest.mark.parametrize("fault", [(), ((3, "inject", "kill"),)], ids=["no fault", "a fault"])
def test_positions_that_are_behind_a_complete_output_are_no_standstill(after, fault):
    """The positions are wrong, or nobody can read them: that is UNKNOWN, by name, and not a missing recovery."""
    before = (3, "sample", TOTAL - 1 if after else TOTAL)

    finding = progress.check(history(*STEADY, before, *fault, *after, (5, "lag", 7), *UNDRAINED), 45, TOTAL, "sink")

    assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0)
    assert "7 behind" in keep(finding.note)


def test_positions_that_are_behind_do_not_hide_that_the_output_stopped():
    """One row is missing, and the output stood still for longer than allowed."""
    lines = ((3, "inject", "kill"), (4, "sample", TOTAL - 1), (5, "lag", 7), *UNDRAINED)

    finding = progress.check(history(*STEADY, *lines), 45, TOTAL, "sink")

    assert (finding.verdict, finding.counts["no recovery"]) == (Verdict.INVALID, 1)


ENDED = "InconclusiveError: the pipeline ended with 1 in the middle of the run; the last line of logs/pipeline.log: REFUSED"


@pytest.mark.parametrize("failed", ["inject", "heal", "drain"])
@pytest.mark.parametrize("growth", [(), ((4, "sample", 21),)], ids=["at once", "after some growth"])
def test_a_pipeline_that_must_end_and_ended_owes_no_recovery(failed, growth):
    """However soon after the fault, and however long the run went on."""
    lines = (*STEADY, (3, "inject", "crash"), *growth, (5, "lag", 7), (6, "ended", (failed, ENDED)), (300, "begin", "observe"))

    finding = progress.check(history(*lines), 45, TOTAL, "sink", ends="REFUSED")

    assert (finding.verdict, finding.count) == (Verdict.VALID, 0)


@pytest.mark.parametrize(
    ("what", "error", "ends"),
    [
        ("ended", ENDED, "FENCED"),
        ("ended", ENDED, None),
        ("error", "DeadlineError: waited 180 s for the end of the source; REFUSED", "REFUSED"),
    ],
)
def test_a_pipeline_that_ended_otherwise_is_excused_from_nothing(what, error, ends):
    """With other words, where it must not end at all, or where it has not ended."""
    lines = (*STEADY, (3, "inject", "crash"), (6, what, ("drain", error)), (300, "begin", "observe"))

    finding = progress.check(history(*lines), 45, TOTAL, "sink", ends=ends)

    assert (finding.verdict, finding.counts["no recovery"]) == (Verdict.INVALID, 1)


def test_a_pipeline_that_must_end_may_not_have_been_slow_before():
    """The recovery before its end counts as any other."""
    lines = (*STEADY, (3, "inject", "crash"), (60, "sample", 30), (61, "ended", ("drain", ENDED)), (62, "begin", "observe"))

    finding = progress.check(history(*lines), 45, TOTAL, "sink", ends="REFUSED")

    assert (finding.verdict, finding.counts["slow recovery"]) == (Verdict.INVALID, 1)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(((4, "loaded", 30), (5, "lag", 0), *UNDRAINED), id="its loader died"),
        pytest.param(((5, "lag", 7), (6, "end", "drain"), (7, "begin", "observe")), id="its position was sampled too early"),
    ],
)
def test_a_pipeline_that_has_read_all_there_is_has_not_stopped(lines):
    """Whatever is missing from the workload, it had nothing left to do."""
    begun = ((0, "loaded", 0), (1, "loaded", 10), (2, "loaded", 20))

    assert progress.check(history(*begun, (3, "inject", "kill"), *lines), 45, TOTAL, "sink").verdict is Verdict.VALID


@pytest.mark.parametrize(("each", "verdict"), [(True, Verdict.INVALID), (False, Verdict.VALID)])
def test_what_a_part_of_the_source_comes_to_is_known_only_where_each_record_is_a_row(each, verdict):
    """All that was written is read, and the output has fewer rows: of a filter that is right."""
    lines = ((3, "inject", "kill"), (5, "lag", 0), *UNDRAINED)

    assert progress.check(history(*STEADY, *lines), 45, TOTAL, "sink", each=each).verdict is verdict


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "the output never grew"),
        (((0, "sample", 0),), "the output never grew"),
        (((0, "sample", 0), (1, "inject", "kill"), (2, "sample", 10)), "nothing was committed before kill"),
    ],
)
def test_a_run_that_was_not_under_way_tells_nothing(lines, why):
    """A fault in an idle system proves nothing about recovery."""
    finding = progress.check(history(*lines), 60, TOTAL, "sink")

    assert finding.verdict is Verdict.UNKNOWN
    assert finding.note.startswith(why)


def test_a_standstill_with_nothing_above_it_blocks_no_reader():
    """Records must be there that no read_committed reader is given."""
    events = history((0, "sample", 10), (1, "sample", 20), (7, "blocked", 5.0), (9, "sample", 60), (30, "sample", 70))

    assert longest_blocked_s(events) == 5.0
    assert longest_standstill_s(events) == 21.0


@pytest.mark.parametrize(("slo_s", "verdict"), [(5.0, Verdict.VALID), (4.9, Verdict.INVALID)])
def test_readers_may_be_blocked_for_as_long_as_declared(slo_s, verdict):
    """Without any fault too: an application that leaves transactions open does this to its readers."""
    lines = (
        *STEADY,
        (8, "blocked", 5.0),
        (9, "sample", 60),
        (10, "end", "drain"),
        (11, "begin", "observe"),
    )

    finding = progress.check(history(*lines), slo_s, TOTAL, "sink")

    assert (finding.verdict, finding.counts["blocked"]) == (verdict, int(verdict is Verdict.INVALID))
    assert [example.timestamp_ms for example in finding.examples] == [3000] * finding.count
    assert all("partition 1" in keep(example.words) for example in finding.examples)


def test_the_note_tells_how_long_an_output_stood_still_that_never_went_on():
    """It is no standstill between two growths, and is the longest all the same."""
    events = history(*STEADY, (3, "inject", "kill"), (200, "begin", "observe"))

    finding = progress.check(events, 60, TOTAL, "sink")

    assert finding.counts["no recovery"] == 1
    assert str(finding.note).startswith("longest standstill 198.0 s")


@pytest.mark.parametrize(("load", "told"), [(18.4, True), (4.9, False), (None, False)])
def test_a_slow_recovery_on_a_busy_machine(load, told):
    """The verdict stays, and the note says what else may have been the cause."""
    events = list(history(*STEADY, (3, "inject", "kill"), (40, "begin", "drain"), (60, "sample", TOTAL)))
    events[4] = Event(4, 40_000, 40.0, PhaseBegan(phase="drain", load=load))

    finding = progress.check(events, 30, TOTAL, "sink")
    right = progress.check(events, 90, TOTAL, "sink")

    assert (finding.verdict, finding.counts["slow recovery"]) == (Verdict.INVALID, 1)
    assert ("18 processes wanted each core of this machine" in str(finding.note)) is told
    assert "processes wanted" not in str(right.note)


def test_the_note_tells_how_long_it_stood_still():
    """Also of a run that is as it must be."""
    finding = progress.check(history(*STEADY, (6, "sample", 30)), 60, TOTAL, "sink")

    assert "4.0 s" in keep(finding.note)
    assert finding.checked == 3


def test_an_output_that_flowed_for_a_while_had_recovered():
    """Some standstill is the longest of a long run; one that comes much later, and is allowed, is not the fault's."""
    flowing = tuple((second, "sample", second + 20) for second in range(4, 60))
    lines = (*STEADY, (3, "inject", "kill"), *flowing, (63, "sample", 90), (64, "end", "drain"), (65, "begin", "observe"))

    assert progress.check(history(*lines), 45, TOTAL, "sink").verdict is Verdict.VALID
    assert progress.check(history(*lines), 3.9, TOTAL, "sink").verdict is Verdict.INVALID, "4 s by itself"


def test_rows_on_their_way_do_not_shorten_a_recovery():
    """One row came a moment after the injection: the time counts from the injection all the same."""
    lines = ((3, "inject", "kill"), (4, "sample", 22), (11, "sample", 30), (12, "end", "drain"), (13, "begin", "observe"))

    assert progress.check(history(*STEADY, *lines), 7.9, TOTAL, "sink").counts["slow recovery"] == 1


def test_markers_of_a_loader_that_died_are_no_rows_that_are_missing():
    """It wrote twenty records in twenty transactions, and the pipeline copied all of them."""
    lines = (
        (0, "sample", 0),
        (1, "sample", 10),
        (3, "inject", "kill"),
        (4, "sample", 20),
        (5, "lag", 0),
        (6, "died", 20),
        *UNDRAINED,
    )

    assert progress.check(history(*lines), 45, TOTAL, "sink").verdict is Verdict.VALID
