from pathlib import Path

import pytest
from rich.console import RenderableType

from chaos.report import coverage, summary
from chaos.report.summary import as_text, costs, summary_table
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict

LONG = "coordinator-killed-between-prepare-and-markers"


def printed(renderable: RenderableType, width: int = 140) -> str:
    """Without colours, with ordinary spaces."""
    return as_text(renderable, width=width, colour=False).replace("\u00a0", " ")


@pytest.mark.parametrize("width", [100, 140])
def test_a_row_fits_the_width_and_says_everything(run: Fabricated, width: int) -> None:
    """Name, findings, verdict, recovery, wall time, seed: none cut, none broken in two."""
    text = printed(summary_table([run.report(scenario=LONG)], width), width)

    for said in (LONG, "duplicates 1 204 · gaps 0", "INVALID", "3.1 s", "22.0 s", " 7 "):
        assert said in text
    assert all(len(line) <= width for line in text.splitlines() if "replay:" not in line and "run:" not in line)


@pytest.mark.parametrize("width", [100, 120, 140])
def test_a_name_stays_whole(run: Fabricated, width: int) -> None:
    """Also where it is too long for its column: the findings go below it. A run that is VALID is named in the table only."""
    assert LONG in printed(summary_table([run.valid(scenario=LONG)], width), width)


@pytest.mark.parametrize("width", [100, 140])
def test_a_caught_control_is_green_and_says_invalid_as_expected(run: Fabricated, width: int) -> None:
    """Its verdict is of the run, its finding of the data."""
    text = printed(summary_table([run.control(scenario=LONG)], width), width)

    assert "VALID" in text
    assert "duplicates 1 204: INVALID as expected" in text
    assert "replay:" not in text


def test_what_is_not_valid_can_be_repeated_from_the_clipboard(run: Fabricated) -> None:
    """The replay line is longer than the terminal is wide and must stay one line all the same."""
    bad = run.report(
        verdict=Verdict.UNKNOWN, problems=("kill_broker-1: it had no effect",), replay=f"pytest {'x' * 120} --chaos-seed 7"
    )

    lines = printed(summary_table([run.valid(), bad], 100), 100).splitlines()

    assert f"  replay: {bad.replay}" in lines
    assert f"  run:    {bad.run_dir}" in lines
    assert "  kill_broker-1: it had no effect" in lines
    assert sum("replay:" in line for line in lines) == 1


def test_colours_go_to_terminals_only(run: Fabricated) -> None:
    """A CI log with escape sequences in it cannot be searched."""
    table = summary_table([run.report()], 100)

    assert "\x1b[1;31mINVALID" in as_text(table, width=100, colour=True)
    assert "\x1b" not in as_text(table, width=100, colour=False)


def test_fixed_cost_is_what_does_not_depend_on_the_workload(run: Fabricated) -> None:
    """set_up 0.4, drain 4.0, observe 3.5 and judge 2.0 make 9.9; steady, inject and heal belong to the scenario."""
    cheap = run.valid(phases=tuple(phase for phase in run.phases() if phase.name != "drain"))

    text = printed(costs([run.report(), cheap, cheap], ups_s=[21.3, 18.0], total_s=301.2))

    assert "system up in 21.3 s, 18.0 s" in text
    assert "whole set 5 min 01 s" in text
    assert "fixed cost per scenario: 9.9 s at most, 5.9 s median" in text


def test_a_session_without_runs_has_costs_too() -> None:
    """The system may not have come up at all."""
    assert printed(costs([], ups_s=[], total_s=2.0)).strip() == "whole set 2.0 s"


def test_the_same_as_markdown_begins_with_the_worst(run: Fabricated) -> None:
    """Whoever opens a page of two hundred rows looks for the red ones."""
    bad = run.report(scenario=LONG, verdict=Verdict.UNKNOWN, problems=("drain: <error> a|b",), replay="pytest x")

    lines = summary.markdown([run.valid(), bad, run.valid()], []).replace("\u00a0", " ").splitlines()

    assert lines[0] == "**2 VALID, 1 UNKNOWN**"
    assert lines[4].startswith(f"| {LONG} | UNKNOWN | duplicates 1 204 · gaps 0 | 3.1 s | 22.0 s | 7 |")
    assert [line.count("|") for line in lines[2:7]] == [7] * 5
    assert lines[7:] == ["", f"**UNKNOWN {LONG}**", "", "* drain: &lt;error&gt; a\\|b", "* replay: `pytest x`"]


def test_a_run_that_was_cut_short_is_a_row_too(run: Fabricated) -> None:
    """A night in which runs are missing must not look like one in which all is well."""
    text = summary.markdown([run.valid()], [Path("runs/20261121T010203Z-killed")])

    assert text.startswith("**1 VALID, 1 without a report**\n")
    assert "| 20261121T010203Z-killed | no report |" in text


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
    assert [cell["verdict"] for cell in coverage.as_json(reports)] == ["NOT SENT", "UNKNOWN"]


def test_json_has_an_object_for_each_case(run: Fabricated) -> None:
    """Coordinates, scenario, verdict, what was caught, recovery; for a machine that compares nights."""
    control = case(run, "EndTxn", "lost", "app", expect={"duplicates": Verdict.INVALID}, recovery_s=1.2)

    (cell,) = coverage.as_json([control, run.report()])

    assert cell == {
        "step": "EndTxn",
        "fault": "lost",
        "pipeline": "app",
        "scenario": "leader-killed-mid-batch",
        "verdict": "VALID",
        "caught": {"duplicate": 1204},
        "recovery_s": 1.2,
    }


def test_a_cell_has_the_anomalies_that_it_predicts_with_their_counts(run: Fabricated) -> None:
    """Where each cell declares another one, VALID alone would say nothing of what was seen."""
    control = case(run, "EndTxn", "lost", "app", expect={"duplicates": Verdict.INVALID}, recovery_s=1.2)
    other = case(
        run, "EndTxn", "lost", "spark", verdict=Verdict.INVALID, expect={"duplicates": Verdict.INVALID}, recovery_s=None
    )

    assert "EndTxn lost VALID (caught: duplicate 1 204) 1.2 s INVALID" in shown([control, other])


def test_the_table_of_a_matrix_is_made_for_a_page_too(run: Fabricated) -> None:
    """A README shows what a run said, and nobody copies it by hand."""
    reports = [case(run, "EndTxn", "lost", "app", recovery_s=1.2), case(run, "EndTxn", "a | b", "spark", recovery_s=None)]

    assert coverage.markdown(reports).splitlines() == [
        "| step | fault | app | spark |",
        "| --- | --- | --- | --- |",
        "| EndTxn | lost | VALID 1.2\u00a0s |  |",
        "| EndTxn | a \\| b |  | VALID |",
        "",
        "2 VALID",
    ]
    assert coverage.markdown([run.report()]) == ""


def test_there_is_no_table_without_a_matrix(run: Fabricated) -> None:
    """Ordinary scenarios have their row in the summary."""
    assert coverage.tables([run.report()], 120) == []


def test_matrices_with_other_axes_have_tables_of_their_own(run: Fabricated) -> None:
    """Their cells have nothing to do with each other."""
    grid = [case(run, step, "lost", client) for step in ("EndTxn", "Produce") for client in ("app", "spark")]
    other = run.report(verdict=Verdict.VALID, matrix={"delivery": "exactly_once", "fault": "kill"})

    assert len(coverage.tables([*grid, other], 120)) == 2
