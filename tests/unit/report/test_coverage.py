"""The tables of matrices lose no run: whatever the axes, names and repeats are, each verdict is in one of their cells."""

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.report import summary
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
    markdown = summary.coverage_markdown(reports)

    assert told(markdown) == Counter(map(summary._verdict, reports))


@given(runs=RUNS.filter(lambda runs: any(verdict is Verdict.INVALID for _, _, _, verdict, _ in runs)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_no_red_cell_is_dropped(run: Fabricated, runs) -> None:
    """A cell with an INVALID run begins with it, so that its colour is red."""
    reports = reports_of(run, runs)
    cells = [cell for line in summary.coverage_markdown(reports).splitlines() for cell in line.strip("| ").split(" | ")]

    assert any(cell.startswith("INVALID") for cell in cells)
    assert not any(re.match(r"(VALID|UNKNOWN|not sent).*\d INVALID", cell) for cell in cells if "runs:" in cell)


def table(reports) -> list[str]:
    """Its lines."""
    text = as_text(*summary.coverage_tables(reports, 120), width=120, colour=False).replace("\u00a0", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_two_matrices_with_the_same_axes_and_words_are_two_tables(run: Fabricated) -> None:
    """The case of the one says nothing of that of the other; each table says whose it is."""
    good, bad = (
        run.report(scenario=f"{name}-bad", verdict=verdict, matrix={"copy": "bad"}, recovery_s=None)
        for name, verdict in (("keyed", Verdict.VALID), ("dense", Verdict.INVALID))
    )

    lines = table([bad, good])

    assert [line for line in lines if set(line) - set("─")] == [
        "dense",
        "bad",
        "INVALID",
        "1 INVALID",
        "keyed",
        "bad",
        "VALID",
        "1 VALID",
    ]


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
