from dataclasses import replace

import guarantee_page
import pytest
from guarantee_cells import (
    APPLICATION,
    AS_IT_COMES,
    AT_LEAST,
    AT_MOST,
    BASE,
    EXACTLY,
    IN_ORDER,
    LARGE,
    LATENCY,
    NOT_IDEMPOTENT,
    SPARK,
    WRITER,
    Cell,
    Chosen,
    Claim,
    Compared,
    Latency,
    Range,
    across,
    against,
    claims,
    design,
    latency,
    percentile,
    rate,
    ratios,
)

_FACTS = {"command": "benchmarks/guarantee.py", "day": "Friday", "machine": "here", "cores": 2, "rounds": 3, "paced": "500"}
_FACTS |= {"renewed": 0, "busy": "Busy: 3 %."}


def of(way: str, **chosen) -> list[Cell]:
    return [cell for cell in design(Chosen(**chosen)) if cell.way == way]


def test_one_factor_at_a_time_is_moved_away_from_the_base():
    places = {replace(cell, guarantee=EXACTLY) for cell in of(APPLICATION)}

    assert {
        BASE,
        replace(BASE, interval_ms=10),
        replace(BASE, interval_ms=1000),
        replace(BASE, size=LARGE),
        *(replace(BASE, partitions=partitions) for partitions in (1, 9, 27)),
        *(replace(BASE, workers=workers) for workers in (1, 9)),
    } == places


def test_crossed_all_combinations_are_measured_with_each_guarantee():
    assert len(set(of(APPLICATION, crossed=True))) == 3 * 3 * 2 * 4 * 3


def test_no_cell_is_measured_twice_in_a_round():
    cells = design(Chosen())

    assert len(set(cells)) == len(cells)


@pytest.mark.parametrize("crossed", [False, True])
def test_beside_every_cell_of_exactly_once_is_the_one_of_at_least_once(crossed):
    cells = design(Chosen(crossed=crossed))
    alone = [cell for cell in cells if cell.guarantee == EXACTLY and against(cell) not in cells]

    assert {AS_IT_COMES} == {cell.way for cell in alone}, "a producer that does not commit does not make readers wait"


def test_a_bare_producer_has_an_interval_only_with_transactions():
    cells = of(WRITER)

    assert {BASE.interval_ms} == {cell.interval_ms for cell in cells if cell.guarantee != EXACTLY}
    assert {10, 100, 1000} == {cell.interval_ms for cell in cells if cell.guarantee == EXACTLY}
    assert against(Cell(WRITER, EXACTLY, interval_ms=10), AT_MOST) == Cell(WRITER, AT_MOST, interval_ms=100)


def test_where_the_base_is_not_chosen_the_first_value_that_is_takes_its_place():
    assert {(1000, 9)} == {(cell.interval_ms, cell.partitions) for cell in of(APPLICATION, intervals=(1000,), partitions=(9,))}


def test_a_guarantee_that_is_not_chosen_is_not_measured():
    assert {AT_LEAST} == {cell.guarantee for cell in of(SPARK, guarantees=(AT_LEAST,))}
    assert not of(AS_IT_COMES, guarantees=(AT_LEAST,))


def test_a_rate_is_between_the_ends_of_batches_and_not_between_two_looks_at_the_clock():
    ends = [(0.5, 900), (1.5, 1000), (2.5, 1000), (3.5, 1000)]

    assert rate(ends, began_s=1.0) == 1000


def test_a_single_batch_has_no_rate():
    with pytest.raises(ValueError, match="measure for longer"):
        rate([(0.5, 900), (1.5, 1000)], began_s=1.0)


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100)])
def test_a_percentile_is_one_of_the_values(percent, expected):
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_latencies_are_in_milliseconds():
    assert latency([0.010, 0.020, 0.030], [0.001, 0.002, 0.004]) == Latency(20, 30, 2, 4)


def test_a_ratio_is_within_a_round():
    exactly, at_least = Cell(WRITER, EXACTLY), Cell(WRITER, AT_LEAST)
    measured = {exactly: [90.0, 40.0, 100.0], at_least: [100.0, 50.0, 100.0]}

    assert ratios(measured, exactly, at_least) == [0.9, 0.8, 1.0]
    assert across([0.9, 0.8, 1.0]) == Range(0.9, 0.8, 1.0)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [((0.8, 0.9), "confirmed"), ((0.7, 0.9), "not decided"), ((0.7, 0.79), "refuted"), ((), "not measured")],
)
def test_a_claim_is_decided_if_all_rounds_agree(found, verdict):
    assert Claim("said", "by", 0.8, [Compared("figure", found)]).verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([(0.9,), (0.8,)], "confirmed"),
        ([(0.9,), (0.7,)], "depends"),
        ([(0.9,), (0.7, 0.9)], "not decided"),
        ([(0.7,), ()], "refuted"),
    ],
)
def test_a_claim_is_judged_at_every_cell_that_it_speaks_of(found, verdict):
    assert Claim("said", "by", 0.8, [Compared("figure", values) for values in found]).verdict == verdict


def test_every_pair_of_worker_numbers_is_compared():
    measured = {cell: [1000.0] for cell in of(APPLICATION)} | {replace(BASE, workers=9): [500.0]}
    claim = next(one for one in claims(measured) if "more workers" in one.text)

    found = {one.figure: one.verdict(claim.least) for one in claim.compared}

    assert found == {
        "plain application: 3 workers over 1": "confirmed",
        "plain application: 9 workers over 1": "refuted",
        "plain application: 9 workers over 3": "refuted",
    }
    assert claim.verdict == "depends"


def test_what_idempotence_costs_is_seen_alone():
    cells = of(WRITER)
    sizes = {cell.size for cell in cells if cell.guarantee == NOT_IDEMPOTENT}
    measured = {Cell(WRITER, AT_LEAST, size=100): [90.0], Cell(WRITER, NOT_IDEMPOTENT, size=100): [100.0]}
    claim = next(one for one in claims(measured) if "idempotence" in one.text)

    assert sizes == {100, LARGE}
    assert [(one.found, claim.verdict) for one in claim.compared] == [([0.9], "refuted")]


def test_claims_have_the_figures_of_the_cells_that_they_speak_of():
    large = Cell(WRITER, EXACTLY, size=LARGE)
    measured = {large: [60.0], replace(large, guarantee=IN_ORDER): [50.0], replace(large, guarantee=AT_MOST): [100.0]}
    found = {one.text: one for one in claims(measured)}

    assert found["at most 3 % less than at least once in order"].compared[0].found == [1.2]
    assert found["at most 20 % less than at most once"].verdict == "refuted"
    assert found["low overhead"].verdict == "not measured"


def test_the_tables_have_a_line_for_each_cell_and_the_page_its_picture(tmp_path):
    values = {LATENCY: Latency(120.0, 230.0, 9.0, 40.0), AS_IT_COMES: Latency(60.0, 120.0, 51.0, 107.0)}
    measured = {cell: [values.get(cell.way, 1000.0)] * 3 for cell in design(Chosen())}
    measured[Cell(SPARK, EXACTLY, batch_records=4000)] = [800.0, 900.0, 1000.0]

    guarantee_page.write(measured, _FACTS, tmp_path / "cost.md")
    page = (tmp_path / "cost.md").read_text(encoding="utf-8")
    tables = (tmp_path / "findings" / "cost-tables.md").read_text(encoding="utf-8")

    assert "| 4,000 | exactly once | 900 (800 … 1,000) | 0.90 (0.80 … 1.00) |" in tables
    assert "| 10 ms | exactly once | 60 ms (60 … 60) | 120 ms (120 … 120) | 51 ms (51 … 51) | 107 ms (107 … 107) |" in page
    assert "| Spark, 100,000 records a batch | 1,000 | 1,000 | 1.00 (1.00 … 1.00) |" in page
    assert "Busy: 3 %." in page
    assert (tmp_path / "cost.png").stat().st_size > 10_000


def test_a_page_of_a_few_cells_says_what_was_not_measured(tmp_path):
    measured = {cell: [1000.0] for cell in of(SPARK)}

    guarantee_page.write(measured, _FACTS, tmp_path / "cost.md")

    assert "not measured" in (tmp_path / "cost.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("kept", "warned"), [((0.9, 1.0, 1.3), False), ((0.9, 1.0, 1.4), True)])
def test_a_page_warns_of_a_figure_whose_rounds_differ_by_more_than_half(kept, warned):
    cell = replace(BASE, guarantee=EXACTLY)
    measured = {cell: [100.0 * one for one in kept], against(cell): [100.0] * 3}

    page = guarantee_page.text(measured, _FACTS)

    assert ("differ by more than half in: plain application, 100 B, 100 ms. Read" in page) == warned
