from dataclasses import replace

import pytest

from chaos.report.failure_text import describe, during, explain
from chaos.report.model import Report
from chaos.scenario.verifiers import GUARANTEE_OF_PROGRESS
from tests.unit.report.conftest import Fabricated
from tests.unit.wording import keep
from verifiers import VERIFIERS
from verifiers.base import Example, Verdict


def explained(report: Report) -> list[str]:
    """Its lines, with ordinary spaces."""
    return explain(report).replace("\u00a0", " ").split("\n")


def test_an_invalid_run_names_the_record_and_the_fault_it_fell_into(run: Fabricated) -> None:
    """The reader can go to the log at once: which record, where, when, and which fault was in force then."""
    lines = explained(run.report())

    assert lines[0] == "INVALID: duplicates 1 204 · gaps 0"
    promise = VERIFIERS["duplicates"].guarantee
    assert f"Broken: duplicates in sink, 1 204 of 30 000 records (demanded: {promise})" in lines
    (more,) = (line for line in lines if "findings.json" in line)
    assert "1 201" in keep(more)
    assert more.endswith(" 8")
    first = lines.index("  duplicate: id 17, partition 2, offset 1204, 11:06:46.200Z")
    assert lines[first + 1 : first + 3] == [
        "    also at offset 1190",
        "    during kill_broker-1 on broker-2 (leader of datasink-0), 1.2 s after injection",
    ]


def test_a_run_that_was_too_slow_counts_faults_and_no_records(run: Fabricated) -> None:
    """Progress is judged from the run, not from the log."""
    slow = replace(run.finding("progress", Verdict.INVALID, count=2, checked=2214), counts={"slow recovery": 1, "blocked": 1})

    lines = explained(run.report(findings=(slow,), expect={"progress": Verdict.VALID}))

    (told,) = (line for line in lines if line.startswith("Broken: progress in sink, slow recovery 1, blocked 1; "))
    assert "2 214 times" in keep(told)
    assert GUARANTEE_OF_PROGRESS in told


def test_a_hanging_transaction_is_told_first(run: Fabricated) -> None:
    """The rows that it hides are not proved; the failed drain comes after."""
    detail = "producer 7 epoch 3: open for 63.4 s, timeout 2 s; its coordinator has 'sink-1' in state Empty, producer 7 epoch 3"
    place = Example("hanging", 0, 12, None, run.at(6.2), detail)
    hanging = run.finding("hanging", Verdict.INVALID, count=1, checked=3, counts={"hanging": 1, "young": 0}, examples=(place,))
    gaps = run.finding("gaps", Verdict.UNKNOWN, note="partition 0 was read to offset 12 of 13")
    expect = {"gaps": Verdict.VALID, "hanging": Verdict.VALID}

    promise = VERIFIERS["hanging"].guarantee
    during_it = "during kill_broker-1 on broker-2 (leader of datasink-0), 1.2 s after injection"

    lines = explained(run.report(findings=(gaps, hanging), expect=expect, problems=("drain: open in datasink-0: 1",)))

    assert lines[0] == "INVALID: gaps ? · hanging 1"
    assert lines[3:9] == [
        f"Broken: hanging in sink, 1 of the transactions in 3 partitions: hanging 1 (demanded: {promise})",
        "  hanging: no id, partition 0, offset 12, 11:06:46.200Z",
        f"    {detail}",
        f"    {during_it}",
        "Not proved: gaps in sink (demanded: no record is missing)",
        "  partition 0 was read to offset 12 of 13",
    ]


def test_it_ends_with_where_to_look_and_how_to_repeat(run: Fabricated) -> None:
    """The last two lines are for the clipboard."""
    report = run.report()

    assert explained(report)[-3:] == [
        f"Run directory: {report.run_dir}",
        f"Judge again: chaos judge {report.run_dir}",
        f"Replay: {report.replay}",
    ]


def test_faults_are_told_with_their_proof(run: Fabricated) -> None:
    """Without its proof an INVALID run might be the fault of something else."""
    assert (
        "  kill_broker-1 on broker-2 (leader of datasink-0): injected 11:06:45.000Z, healed after 7.0 s;"
        " proved by pids broker-2 4711, refused broker-2"
    ) in explained(run.report())


def test_an_unknown_run_says_why(run: Fabricated) -> None:
    """The text has the missing proof, the verifier's own reason, the fault that missed and every problem."""
    gaps = run.finding("gaps", Verdict.UNKNOWN, checked=0, note="no record was compared")
    missed = run.fault(effective=False, proved_ms=None, proof={"refused": []}, problem="it had no effect")
    report = run.report(
        verdict=Verdict.UNKNOWN, findings=(gaps,), faults=(missed,), problems=("kill_broker-1: it had no effect",)
    )

    lines = explained(report)

    assert lines[0] == "UNKNOWN: gaps ?"
    assert "Not proved: gaps in sink (demanded: no record is missing)" in lines
    assert "  no record was compared" in lines
    assert any("healed after 7.0 s; had no effect: refused none" in line for line in lines)
    assert lines[lines.index("Problems:") + 1] == "  kill_broker-1: it had no effect"


def test_a_run_that_judged_nothing_says_so(run: Fabricated) -> None:
    """A dead pipeline leaves no finding, and the text must not look as if all were well."""
    report = run.report(verdict=Verdict.UNKNOWN, findings=(), faults=(), phases=(), problems=("set_up: broken",))

    assert explained(report)[0] == "UNKNOWN: nothing was judged"


def test_a_control_that_came_back_valid_is_blamed_on_fault_or_verifier(run: Fabricated) -> None:
    """It must not be read as good news."""
    report = run.control(verdict=Verdict.INVALID, findings=(run.finding("duplicates"),))

    lines = explained(report)

    assert lines[0] == "INVALID: duplicates 0: INVALID expected"
    assert any(line.startswith("Not caught: duplicates in sink, 0 of 30 000 records; expected INVALID") for line in lines)


def test_a_control_whose_fault_never_came_is_not_called_blind(run: Fabricated) -> None:
    """It was not tried: that is UNKNOWN, and says nothing about the verifier."""
    report = run.control(
        verdict=Verdict.UNKNOWN, findings=(run.finding("duplicates"),), problems=("kill_broker-1: it had no effect",)
    )

    lines = explained(report)

    assert report.expectations.outcome(report.findings[0]) is Verdict.UNKNOWN
    assert any(line.startswith("Inconclusive: duplicates in sink, 0 of 30 000 records") for line in lines)
    assert not [line for line in lines if "blind" in line]


def test_an_anomaly_is_invalid_whatever_else_went_wrong(run: Fabricated) -> None:
    """A duplicate in the log is a duplicate, also when a fault was missed."""
    report = run.report(problems=("kill_broker-1: it had no effect",))

    assert report.expectations.outcome(run.duplicates()) is Verdict.INVALID


def test_a_control_that_found_something_else_is_not_called_blind(run: Fabricated) -> None:
    """It was caught, but not with what was predicted: found and predicted stand side by side."""
    finding = run.finding("gaps", Verdict.INVALID, count=3, counts={"lost": 2, "pending": 1})
    report = run.control(
        verdict=Verdict.INVALID, findings=(finding,), expect={"gaps": Verdict.INVALID}, exactly={"gaps": {"lost": 2}}
    )

    lines = explained(report)

    assert lines[0] == "INVALID: gaps 3: lost 2 expected"
    assert "Not as predicted: gaps in sink, 3 of 30 000 records: lost 2, pending 1; expected exactly lost 2" in lines
    assert not [line for line in lines if "blind" in line]


def test_a_control_that_demands_some_of_an_anomaly_says_so(run: Fabricated) -> None:
    """Some is no exact number."""
    finding = run.finding("gaps", Verdict.INVALID, count=3, counts={"lost": 0, "pending": 3})
    report = run.control(
        verdict=Verdict.INVALID, findings=(finding,), expect={"gaps": Verdict.INVALID}, exactly={"gaps": {"lost": "some"}}
    )

    assert "Not as predicted: gaps in sink, 3 of 30 000 records: pending 3; expected some lost" in explained(report)


def test_an_exact_control_that_found_nothing_is_not_caught(run: Fabricated) -> None:
    """This control really is blind."""
    finding = run.finding("gaps", counts={"lost": 0, "pending": 0})
    report = run.control(
        verdict=Verdict.INVALID, findings=(finding,), expect={"gaps": Verdict.INVALID}, exactly={"gaps": {"lost": 2}}
    )

    assert any(line.startswith("Not caught: gaps in sink, 0 of 30 000 records") for line in explained(report))


def test_the_anomalies_are_told_apart(run: Fabricated) -> None:
    """Lost and pending are different news: one is gone, the other late."""
    gaps = run.finding("gaps", Verdict.INVALID, count=5, counts={"lost": 5, "pending": 0})

    said = "5 of 30 000 records: lost 5 (demanded: no record is missing)"
    assert any(said in line for line in explained(run.report(findings=(gaps,))))


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_verifier_stands_for_a_guarantee(run: Fabricated, verifier: str) -> None:
    """A reader is told what was promised, not only which verifier complains."""
    broken = run.finding(verifier, Verdict.INVALID, count=1)

    (line,) = (line for line in explained(run.report(findings=(broken,))) if line.startswith("Broken: "))

    assert line.endswith(f"(demanded: {VERIFIERS[verifier].guarantee})")


def test_it_never_exceeds_forty_lines(run: Fabricated) -> None:
    """Everything at once, many times over, every text with line breaks in it."""
    findings = tuple(run.duplicates(verifier=f"v{place}", note="a\nb") for place in range(9))
    faults = tuple(run.fault(name=f"kill_broker-{place}", proof={"said": "a\nb" * 200}) for place in range(30))
    lines = explained(run.report(findings=findings, faults=faults, problems=("one\ntwo",) * 20, title="a\nb"))

    assert len(lines) <= 40
    assert lines[-1].startswith("Replay: ")
    assert "  … and 6 more verifiers, see the run directory" in lines


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (6.2, "during kill_broker-1 on broker-2 (leader of datasink-0), 1.2 s after injection"),
        (5.0, "during kill_broker-1 on broker-2 (leader of datasink-0), 0.0 s after injection"),
        (12.0, "during kill_broker-1 on broker-2 (leader of datasink-0), 7.0 s after injection"),
        (12.5, "0.5 s after kill_broker-1 was healed"),
        (4.0, "1.0 s before kill_broker-1"),
    ],
)
def test_a_moment_is_placed_against_the_faults(run: Fabricated, second: float, text: str) -> None:
    """Both ends of a window belong to it; outside, the nearest fault is named."""
    assert during(run.report(), run.at(second)).replace("\u00a0", " ") == text


def test_overlapping_faults_are_all_named(run: Fabricated) -> None:
    """It is for the reader to say which of them did it."""
    faults = (run.fault(), run.fault(name="cut-2", target="spark->broker-1", injected_ms=run.at(6), healed_ms=None))

    text = during(run.report(faults=faults), run.at(6.2)).replace("\u00a0", " ")

    assert text.endswith("1.2 s after injection and cut-2 on spark->broker-1, 0.2 s after injection")


def test_what_was_in_force_since_the_copy_before_is_named(run: Fabricated) -> None:
    """The fault that killed a task may be over when its batch is written again; one that ended before the first is innocent."""
    before = run.fault(name="cut-1", injected_ms=run.at(1), healed_ms=run.at(2))
    faults = (before, run.fault(name="die-2", injected_ms=run.at(5), healed_ms=run.at(6)))
    report = run.report(faults=faults)

    def told(at: float, since: float) -> str:
        return during(report, run.at(at), run.at(since)).replace("\u00a0", " ")

    assert told(8, 4) == told(4, 8)
    assert keep(told(8, 4)).endswith(": die-2 (injected 3.0 s earlier)")
    assert keep(told(5.5, 1.5)).endswith(": cut-1 (injected 4.5 s earlier), die-2 (injected 0.5 s earlier)")
    assert told(8, 7) == "2.0 s after die-2 was healed"


def test_the_request_at_which_a_fault_struck_is_named(run: Fabricated) -> None:
    """Beside the fault that was in force between two copies, and in the list of faults."""
    moment = "while the response to EndTxn 17 was on the wire"
    report = run.report(faults=(run.fault(name="die-2", injected_ms=run.at(5), moment=moment),))

    text = during(report, run.at(8), run.at(4)).replace("\u00a0", " ")

    assert keep(text).endswith(f": die-2 (injected 3.0 s earlier, {moment})")
    assert f"Z, {moment}, healed after" in explain(report)
    assert during(report, run.at(6.2)).endswith(f"1.2\u00a0s after injection ({moment})")


def test_many_faults_between_two_copies_do_not_fill_the_report(run: Fabricated) -> None:
    """The last three are named."""
    faults = tuple(run.fault(name=f"f-{n}", injected_ms=run.at(n), healed_ms=run.at(n)) for n in range(1, 7))

    text = during(run.report(faults=faults), run.at(8), run.at(0)).replace("\u00a0", " ")

    named = ", ".join(f"f-{n} (injected {8 - n}.0 s earlier)" for n in (4, 5, 6))
    assert f": {named} and 3 more" in keep(text)


def test_between_two_faults_the_one_that_was_healed_last_is_named(run: Fabricated) -> None:
    """The aftermath of a fault explains more than the approach of the next."""
    faults = tuple(
        run.fault(name=f"f-{second}", injected_ms=run.at(second), healed_ms=run.at(second + 1)) for second in (1, 3, 9)
    )

    assert during(run.report(faults=faults), run.at(6)).replace("\u00a0", " ") == "2.0 s after f-3 was healed"


def test_an_absent_record_has_no_moment(run: Fabricated) -> None:
    """A lost record was written at no time."""
    assert during(run.report(), None) == ""
    assert "no fault" in keep(during(run.report(faults=()), run.at(1)))


def test_a_missing_row_whose_place_is_not_known(run: Fabricated) -> None:
    """Its key is told, and no partition."""
    lost = Example("lost", -1, None, "c-7", None, "all records together demand it")
    assert describe(run.report(), lost) == "lost: key c-7, not in the log, all records together demand it"


def test_the_place_of_a_row_in_a_table(run: Fabricated) -> None:
    """Its file and version, and neither a partition nor an offset."""
    twice = Example("duplicate", 0, 17, "c-7", None, "also at version 1, file a", place="version 2, file b")
    assert describe(run.report(), twice) == "duplicate: key c-7, version 2, file b, also at version 1, file a"


def test_what_was_not_asked_is_told_with_the_reason(run: Fabricated) -> None:
    """VALID says nothing of it."""
    assert "Not asked: ordering (rows are read in any order)" in explained(
        run.report(left_out={"ordering": "rows are read in any order"})
    )
    unasked = replace(run.finding("ordering", checked=0), asked=False, note="rows have no place")
    assert "Not asked: ordering of the sink (rows have no place)" in explained(run.report(findings=(unasked,)))
