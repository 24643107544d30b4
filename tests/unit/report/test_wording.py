import pytest

from chaos.report import wording
from tests.unit.report.conftest import Fabricated
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
    assert plain(wording.seconds(duration_s)) == text


def test_a_moment_is_in_utc_with_milliseconds(run: Fabricated) -> None:
    """As brokers and Spark log it."""
    assert wording.moment(run.at(6.2)) == "11:06:46.200Z"


def test_a_control_is_fulfilled_by_an_anomaly_in_the_output_alone(run: Fabricated) -> None:
    """A duplicate in the source is no success of a control that predicts one in the sink."""
    sink, source = run.duplicates(), run.duplicates(subject="source")
    report = run.control(findings=(source, sink))

    assert wording.outcome(report, sink) is Verdict.VALID
    assert wording.outcome(report, source) is Verdict.INVALID
    assert [plain(text) for text in wording.phrases(report)] == [
        "duplicates in source 1 204",
        "duplicates 1 204: INVALID as expected",
    ]


def test_unknown_is_never_as_expected(run: Fabricated) -> None:
    """A control that compared nothing proved nothing."""
    finding = run.duplicates(verdict=Verdict.UNKNOWN, count=0, checked=0)
    report = run.control(findings=(finding,))

    assert wording.outcome(report, finding) is Verdict.UNKNOWN
    assert [plain(text) for text in wording.phrases(report)] == ["duplicates ?"]


def test_a_source_that_is_well_is_not_mentioned(run: Fabricated) -> None:
    """Eight numbers where four say all are harder to read."""
    report = run.valid(findings=(run.finding("gaps", subject="source"), run.finding("gaps")))

    assert [plain(text) for text in wording.phrases(report)] == ["gaps 0"]


def test_a_proof_reads_as_words() -> None:
    """Braces and quotes say nothing to a person."""
    assert (
        wording.facts({"pids": {"broker-2": 4711}, "refused": ["broker-2", "broker-3"]})
        == "pids broker-2 4711, refused broker-2 broker-3"
    )


def test_wall_time_spans_the_phases(run: Fabricated) -> None:
    """From the begin of the first to the end of the last; nothing for a run that had none."""
    assert wording.wall_s(run.report()) == pytest.approx(22.0)
    assert wording.wall_s(run.report(phases=())) == 0
