"""Running totals on the real system: what examples/totals/README.md claims beyond the verdicts of its scenarios."""

import re
from collections import Counter

import pytest

from chaos.scenario.load import load
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

SCENARIOS = ROOT / "examples" / "totals" / "scenarios.yaml"
CUSTOMERS = 97
BATCH = 50
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.nightly]


def played(session, name):
    """The report of a scenario, and what its verifiers say of the sink."""
    file = load(SCENARIOS)
    report = session.run(file.scenario(name), file.system, "", lambda _event: None).report
    return report, {one.verifier: one for one in report.findings if one.subject == "sink"}


def errors(finding):
    """Customer -> by how much its total is wrong, of the examples that are told."""
    found = [re.fullmatch(r".*: total (\d+) too (high|low)", one.words) for one in finding.examples]
    return {int(one.id.removeprefix("customer-")): (int(by[1]), by[2]) for one, by in zip(finding.examples, found, strict=True)}


@pytest.mark.parametrize(
    "name",
    [
        "totals-application-killed-before-its-commit",
        "totals-spark-default-last-commit-deleted",
        "totals-spark-rocksdb-driver-killed-in-a-batch",
    ],
)
def test_every_total_is_compared_and_right(chaos_session, name):
    """One for each customer, however often it was written."""
    report, found = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    assert {found[one].checked for one in ("gaps", "values", "duplicates")} == {CUSTOMERS}
    assert not found["ordering"].asked


@pytest.mark.parametrize("name", ["totals-never-read", "totals-spark-in-memory"])
def test_totals_that_begin_at_zero_again(chaos_session, name):
    """Each customer's orders from before the crash are missing."""
    report, found = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert found["values"].counts["wrong value"] == CUSTOMERS
    by = errors(found["values"])
    assert by
    assert {how for _, how in by.values()} == {"low"}


def test_orders_that_come_twice_are_summed_twice(chaos_session):
    """By what they cost, and by no more: it is known which orders these are."""
    report, found = played(chaos_session, "totals-spark-orders-twice")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert found["values"].counts["wrong value"] == CUSTOMERS
    again: Counter[int] = Counter()
    for order in range(1, 4000, 10):
        again[order % CUSTOMERS] += 1 + order * 7 % 300
    by = errors(found["values"])
    assert by == {customer: (again[customer], "high") for customer in by}


@pytest.mark.parametrize(("when", "how"), [("before", "high"), ("after", "low")])
def test_a_snapshot_that_is_no_part_of_the_commit(chaos_session, when, how):
    """One batch is counted twice, or not at all: fifty orders that follow each other, each of another customer."""
    report, found = played(chaos_session, f"totals-snapshot-{when}-the-commit")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert found["values"].counts["wrong value"] == BATCH
    by = errors(found["values"])
    assert {one for _, one in by.values()} == {how}
    could_be = [
        {number for number in range(customer, 6000, CUSTOMERS) if 1 + number * 7 % 300 == amount}
        for customer, (amount, _) in by.items()
    ]
    assert any(
        all(any(first <= number < first + BATCH for number in numbers) for numbers in could_be)
        for first in range(0, 6000, BATCH)
    )
