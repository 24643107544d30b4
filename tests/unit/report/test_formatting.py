from dataclasses import replace

import pytest

from chaos.report import formatting
from tests.unit.report.conftest import Fabricated
from tests.unit.wording import keep
from verifiers.base import Verdict


def plain(text: str) -> str:
    """With ordinary spaces."""
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(None, "–"), (0.04, "0.0 s"), (3.14, "3.1 s"), (125.2, "2 min 05 s")],  # noqa: RUF001 - the dash of an empty cell
)
def test_durations_have_a_unit(duration_s: float | None, text: str) -> None:
    """Seconds with one digit, minutes from where digits stop helping, a dash when there is nothing to say."""
    assert plain(formatting.seconds(duration_s)) == text


def test_a_moment_is_in_utc_with_milliseconds(run: Fabricated) -> None:
    """As brokers and Spark log it."""
    assert formatting.moment(run.at(6.2)) == "11:06:46.200Z"


def test_a_control_is_fulfilled_by_an_anomaly_in_the_output_alone(run: Fabricated) -> None:
    """A duplicate in the source does not fulfil a control that predicts one in the sink."""
    sink, source = run.duplicates(), run.duplicates(subject="source")
    report = run.control(findings=(source, sink))

    assert report.expectations.outcome(sink) is Verdict.VALID
    assert report.expectations.outcome(source) is Verdict.INVALID
    assert [plain(text) for text in formatting.phrases(report)] == [
        "duplicates 1 204: INVALID as expected",
        "duplicates in source 1 204",
    ]


def test_a_valid_run_says_how_many_faults_had_no_effect(run: Fabricated) -> None:
    """A few faults by chance may find nothing to break; the reader is told, or green would mean more than was tried."""
    faults = (run.fault(), run.fault(name="cut_link-2", effective=False, problem="it had no effect"))
    valid = run.report(verdict=Verdict.VALID, findings=(run.finding("gaps"),), faults=faults)

    assert [plain(text) for text in formatting.phrases(valid)] == ["gaps 0", "1 of 2 faults without effect"]
    assert [plain(text) for text in formatting.phrases(valid.model_copy(update={"faults": faults[:1]}))] == ["gaps 0"]


def test_a_valid_run_says_how_many_faults_were_skipped(run: Fabricated) -> None:
    """The pipeline was quicker than the schedule, so fewer faults were tried than a soak of this length promises."""
    valid = run.report(verdict=Verdict.VALID, findings=(run.finding("gaps"),), spared=3)

    gaps, spared = (plain(text) for text in formatting.phrases(valid))
    assert gaps == "gaps 0"
    assert keep(spared).startswith("3 random faults ")


@pytest.mark.parametrize(
    ("counts", "text", "verdict"),
    [
        ({"duplicate": 1, "other": 0}, "duplicates 1: INVALID as expected", Verdict.VALID),
        ({"duplicate": 2, "other": 0}, "duplicates 2: duplicate 1 expected", Verdict.INVALID),
        ({"duplicate": 0, "other": 1}, "duplicates 1: duplicate 1 expected", Verdict.INVALID),
        ({"duplicate": 1, "other": 1}, "duplicates 2: duplicate 1 expected", Verdict.INVALID),
    ],
)
def test_an_exact_control_says_what_was_predicted(run: Fabricated, counts: dict[str, int], text: str, verdict: Verdict) -> None:
    """Too many, too few, or another anomaly: the number that was found, and the one that was wanted."""
    finding = run.duplicates(count=sum(counts.values()), counts=counts)
    report = run.control(findings=(finding,), exactly={"duplicates": {"duplicate": 1}})

    assert report.expectations.outcome(finding) is verdict
    assert plain(formatting.phrase(report, finding)) == text


def test_an_exact_control_that_finds_nothing_is_not_fulfilled(run: Fabricated) -> None:
    """Nothing is less than one."""
    finding = run.finding("duplicates", counts={"duplicate": 0})
    report = run.control(findings=(finding,), exactly={"duplicates": {"duplicate": 1000}})

    assert report.expectations.outcome(finding) is Verdict.INVALID
    assert plain(formatting.phrase(report, finding)) == "duplicates 0: duplicate 1 000 expected"


def test_what_a_verifier_counts_beside_its_anomalies_is_not_predicted(run: Fabricated) -> None:
    """Aborted rows, say: no record went wrong with them."""
    finding = run.duplicates(count=1, counts={"duplicate": 1, "aborted": 500})
    report = run.control(findings=(finding,), exactly={"duplicates": {"duplicate": 1}})

    assert report.expectations.outcome(finding) is Verdict.VALID


def test_exact_counts_are_predicted_for_the_output_alone(run: Fabricated) -> None:
    """The source must be well, whatever the control says of the sink."""
    source, sink = run.duplicates(subject="source", count=1, counts={"duplicate": 1}), run.duplicates(counts={"duplicate": 1})
    report = run.control(findings=(source, sink), exactly={"duplicates": {"duplicate": 1}})

    assert (report.expectations.outcome(source), report.expectations.outcome(sink)) == (Verdict.INVALID, Verdict.VALID)


def test_unknown_is_never_as_expected(run: Fabricated) -> None:
    """A control that compared nothing proved nothing."""
    finding = run.duplicates(verdict=Verdict.UNKNOWN, count=0, checked=0)
    report = run.control(findings=(finding,))

    assert report.expectations.outcome(finding) is Verdict.UNKNOWN
    assert [plain(text) for text in formatting.phrases(report)] == ["duplicates ?"]


def test_a_source_that_is_well_is_not_mentioned(run: Fabricated) -> None:
    """Eight numbers are harder to read than the four that matter."""
    report = run.valid(findings=(run.finding("gaps", subject="source"), run.finding("gaps")))

    assert [plain(text) for text in formatting.phrases(report)] == ["gaps 0"]


def test_a_proof_reads_as_words() -> None:
    """Braces and quotes say nothing to a person."""
    assert (
        formatting.facts({"pids": {"broker-2": 4711}, "refused": ["broker-2", "broker-3"]})
        == "pids broker-2 4711, refused broker-2 broker-3"
    )


def test_wall_time_spans_the_phases(run: Fabricated) -> None:
    """From the begin of the first to the end of the last; nothing for a run that had none."""
    assert formatting.wall_s(run.report()) == pytest.approx(22.0)
    assert formatting.wall_s(run.report(phases=())) == 0


def test_many_verifiers_that_found_nothing_are_counted(run: Fabricated) -> None:
    """A row of a table has room for a few; what is wrong is always named, and so is what was not asked."""
    names = ("duplicates", "gaps", "ordering", "values", "atomicity", "offsets")
    clean = tuple(run.finding(name) for name in names)
    report = run.report(verdict=Verdict.VALID, findings=clean, left_out={"stability": "it takes too long"})
    broken = run.report(verdict=Verdict.INVALID, findings=(*clean, run.finding("ledger", Verdict.INVALID, count=2)))

    named = ["duplicates 0", "gaps 0", "ordering 0", "values 0"]
    assert [plain(text) for text in formatting.phrases(report)] == [*named, "2 more 0", "not asked: stability"]
    assert [plain(text) for text in formatting.phrases(broken)] == [*named, "ledger 2", "2 more 0"]


def test_a_log_that_has_nothing_of_what_is_asked(run: Fabricated) -> None:
    """It is named, also beside many that found nothing; a control that expects it is not fulfilled."""
    names = ("duplicates", "gaps", "values", "offsets", "stability", "hanging")
    unasked = replace(run.finding("ordering", checked=0), asked=False, note="rows have no place")
    report = run.report(verdict=Verdict.VALID, findings=(*map(run.finding, names), unasked))

    assert "ordering not asked" in [plain(text) for text in formatting.phrases(report)]
    assert report.not_asked == {"ordering of the sink": "rows have no place"}
    control = run.report(verdict=Verdict.INVALID, findings=(unasked,), expect={"ordering": Verdict.INVALID})
    assert [plain(text) for text in formatting.phrases(control)] == ["ordering not asked: INVALID expected"]
    assert control.expectations.outcome(unasked) is Verdict.INVALID


def test_what_a_verdict_says_nothing_of_is_told_beside_it(run: Fabricated) -> None:
    """Also where others are only counted."""
    names = ("duplicates", "gaps", "ordering", "values", "offsets", "stability")
    torn = run.finding("atomicity", counts={"torn": 0, "undecided": 2})
    report = run.report(verdict=Verdict.VALID, findings=(*map(run.finding, names), torn))

    named = ["duplicates 0", "gaps 0", "ordering 0", "values 0"]
    assert [plain(text) for text in formatting.phrases(report)] == [*named, "atomicity 0, 2 undecided", "2 more 0"]
