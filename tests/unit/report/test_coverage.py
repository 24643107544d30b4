"""The table of a matrix: a cell for each case, and what cannot happen told from what did not come."""

from chaos.report import coverage
from chaos.report.summary import as_text
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict

AXES = ("step", "fault", "pipeline")


def case(run: Fabricated, *words: str, **changes):
    """A report of one case, VALID unless the changes say otherwise."""
    return run.report(**{"verdict": Verdict.VALID, "matrix": dict(zip(AXES, words, strict=True)), **changes})


def shown(reports, width=120):
    """The tables as lines without colours."""
    text = as_text(*coverage.tables(reports, width), width=width, colour=False)
    return [" ".join(line.replace("\u00a0", " ").split()) for line in text.splitlines() if line.strip()]


def test_pipelines_go_across_and_the_other_axes_down(run: Fabricated) -> None:
    """As a reader asks: this step under this fault, in each pipeline."""
    reports = [
        case(run, "EndTxn", "lost", "app", recovery_s=1.2),
        case(run, "EndTxn", "lost", "spark", verdict=Verdict.UNKNOWN, recovery_s=None),
        case(run, "Produce", "late", "app", verdict=Verdict.INVALID, recovery_s=0.4),
    ]

    lines = shown(reports)

    assert lines[0] == "step fault app spark"
    assert "EndTxn lost VALID 1.2 s UNKNOWN" in lines
    assert "Produce late INVALID 0.4 s" in lines
    assert lines[-1] == "1 VALID, 1 UNKNOWN, 1 INVALID"


def test_a_case_that_cannot_happen_is_no_case_that_did_not_trip(run: Fabricated) -> None:
    """A request that this client never sends, as the scenario predicts and the toxic counted."""
    reports = [
        case(run, "AddOffsetsToTxn", "lost", "copier", not_sent=True, recovery_s=None),
        case(run, "AddOffsetsToTxn", "lost", "app", verdict=Verdict.UNKNOWN, not_sent=False, recovery_s=None),
    ]

    assert "AddOffsetsToTxn lost not sent UNKNOWN" in shown(reports)
    assert [cell["verdict"] for cell in coverage.to_json(reports)] == ["NOT SENT", "UNKNOWN"]


def test_json_has_an_object_for_each_case(run: Fabricated) -> None:
    """Coordinates, scenario, verdict, recovery; for a machine that compares nights."""
    (cell,) = coverage.to_json([case(run, "EndTxn", "lost", "app", recovery_s=1.2), run.report()])

    assert cell == {
        "step": "EndTxn",
        "fault": "lost",
        "pipeline": "app",
        "scenario": "leader-killed-mid-batch",
        "verdict": "VALID",
        "recovery_s": 1.2,
    }


def test_there_is_no_table_without_a_matrix(run: Fabricated) -> None:
    """Ordinary scenarios have their row in the summary."""
    assert coverage.tables([run.report()], 120) == []


def test_matrices_with_other_axes_have_tables_of_their_own(run: Fabricated) -> None:
    """Their cells have nothing to do with each other."""
    other = run.report(verdict=Verdict.VALID, matrix={"delivery": "exactly_once", "fault": "kill"})

    assert len(coverage.tables([case(run, "EndTxn", "lost", "app"), other], 120)) == 2
