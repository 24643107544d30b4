"""The tables of matrices lose no run: whatever the axes, names and repeats are, each verdict is in one of their cells."""

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.report import coverage
from chaos.report.model import Report
from chaos.report.summary import as_text
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict

WORDS = ("lost", "late", "EndTxn", "a b")
RUNS = st.lists(
    st.tuples(
        st.sampled_from(("sweep", "commit-sweep", "sweep-lost", "${fault}-first")),
        st.sampled_from((("fault",), ("fault", "pipeline"), ("step", "fault"), ("step", "fault", "pipeline"))),
        st.tuples(*[st.sampled_from(WORDS)] * 3),
        st.sampled_from(list(Verdict)),
        st.booleans(),
    ),
    max_size=12,
)


def reports_of(run: Fabricated, runs):
    """A report of each, as a matrix of that name would have them."""
    reports = []
    for base, axes, words, verdict, not_sent in runs:
        of_case = dict(zip(axes, words, strict=False))
        name = base.replace("${fault}", of_case["fault"])
        name = name if "$" in base else "-".join([name, *(word.lower().replace(" ", "-") for word in of_case.values())])
        reports.append(run.report(scenario=name, verdict=verdict, matrix=of_case, not_sent=not_sent, expect={}))
    return reports


def told(markdown: str) -> Counter[str]:
    """How often each verdict is in a cell: a cell of several runs counts them."""
    counted: Counter[str] = Counter()
    for line in markdown.splitlines():
        for cell in line.strip("|").split(" | ") if line.startswith("|") else ():
            several = re.search(r"\(of \d+ runs: (.+)\)", cell)
            if several:
                counted.update({word: int(count) for count, word in re.findall(r"(\d+) (NOT SENT|\w+)", several[1])})
            elif found := re.match(r"\s*(VALID|INVALID|UNKNOWN|not sent)\b", cell):
                counted[found[1].upper()] += 1
    return counted


@given(runs=RUNS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_every_run_is_told(run: Fabricated, runs) -> None:
    """Matrices whose axes have the same names, cases that are there twice, and repeats."""
    reports = reports_of(run, runs)
    markdown = coverage.markdown(reports)

    assert told(markdown) == Counter(map(coverage._verdict, reports))


@given(runs=RUNS.filter(lambda runs: any(verdict is Verdict.INVALID for _, _, _, verdict, _ in runs)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_no_red_cell_is_dropped(run: Fabricated, runs) -> None:
    """A cell with an INVALID run begins with it, so that its colour is red."""
    reports = reports_of(run, runs)
    cells = [cell for line in coverage.markdown(reports).splitlines() for cell in line.strip("| ").split(" | ")]

    assert any(cell.startswith("INVALID") for cell in cells)
    assert not any(re.match(r"(VALID|UNKNOWN|not sent).*\d INVALID", cell) for cell in cells if "runs:" in cell)


def table(reports) -> list[str]:
    """Its lines."""
    text = as_text(*coverage.tables(reports, 120), width=120, colour=False).replace("\u00a0", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def pairs(run: Fabricated) -> list[Report]:
    """A bad and a good version, of two scenarios: the words of the first pair are those of the second."""
    caught = run.control(scenario="keyed-1-5-0", matrix={"version": "1.5.0"}, recovery_s=7.0)
    others = [
        run.report(
            scenario=f"{name}-{version.replace('.', '-')}", verdict=Verdict.VALID, matrix={"version": version}, recovery_s=None
        )
        for name, version in (("keyed", "1.6.0"), ("dense", "1.5.0"), ("dense", "1.6.0"))
    ]
    return [caught, *others]


def test_matrices_of_one_line_each_share_a_table(run: Fabricated) -> None:
    """Pairs of a bad and a good version would otherwise be a table each, and a reader would look for the few red ones."""
    assert [line for line in table(pairs(run)) if set(line) - set("─")] == [
        "scenario case verdict",
        "keyed 1.5.0 VALID (caught: duplicate 1 204) 7.0 s",
        "1.6.0 VALID",
        "dense 1.5.0 VALID",
        "1.6.0 VALID",
        "4 VALID",
    ]


def test_a_line_that_has_no_equal_is_named_too(run: Fabricated) -> None:
    """Its axes are others than those of the pairs, and it stood in a table without a name."""
    patched = run.report(
        scenario="late-3-0-12-patched",
        verdict=Verdict.VALID,
        matrix={"version": "3.0.12", "program": "patched"},
        recovery_s=None,
    )

    assert "late 3.0.12, patched VALID" in table([*pairs(run), patched])


def test_a_grid_beside_others_has_its_name_above(run: Fabricated) -> None:
    """Two sweeps whose axes differ; a sweep that is alone needs no name."""
    grid = [
        run.report(
            scenario=f"sweep-{step}-{fault}", verdict=Verdict.VALID, matrix={"step": step, "fault": fault}, recovery_s=None
        )
        for step in ("produce", "end")
        for fault in ("lost", "late")
    ]

    assert [line for line in table([*pairs(run), *grid]) if set(line) - set("─")][-5:] == [
        "sweep",
        "step lost late",
        "produce VALID VALID",
        "end VALID VALID",
        "4 VALID",
    ]
    assert "sweep" not in table(grid)


def test_matrices_that_share_axes_but_no_case_are_one_table(run: Fabricated) -> None:
    """Two declarations for two halves of one table, as a file may have them."""
    one, other = (
        run.report(scenario=f"{name}-{name}", verdict=Verdict.VALID, matrix={"fault": name}, recovery_s=None)
        for name in ("a", "b")
    )

    assert [line for line in table([one, other]) if set(line) - set("─")] == ["a b", "VALID VALID", "2 VALID"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_repeats_of_a_case_are_counted_in_its_cell(run: Fabricated, order) -> None:
    """The last one does not hide the others, whichever it is."""
    verdicts = (Verdict.INVALID, Verdict.VALID, Verdict.VALID)
    repeats = [
        run.report(scenario="sweep-a", verdict=verdicts[number], matrix={"fault": "a"}, recovery_s=number, expect={})
        for number in order
    ]

    (cell,) = [line for line in table(repeats) if "runs" in line]
    assert cell.startswith("INVALID 0.0 s (of 3 runs: ")
    assert {"2 VALID", "1 INVALID"} <= set(re.split(r"[,()] ?|: ", cell))
