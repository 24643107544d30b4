"""Tables on the real system: a batch that is done again; evidence that is judged without the table; what cannot be read."""

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from chaos.contract.base import CHECKPOINT
from chaos.judging.findings_file import load_findings
from chaos.judging.landing import landed
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

TABLES = ROOT / "examples" / "tables"
POSTGRES = TABLES / "postgres"
LARGE = 8000  # of 12 000 orders
BATCH = 2000  # large orders in a full batch of 3 000
JUDGE = (sys.executable, "-c", "from chaos.cli.main import main; main()", "judge")
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]


def played(session, name, folder=TABLES):
    """The report of one of the example's scenarios, and what its verifiers say of the sink."""
    file = load(folder / "scenarios.yaml")
    report = session.run(file.scenario(name), file.system, "", lambda _event: None).report
    return report, {one.verifier: one for one in report.findings if one.subject == "sink"}


@pytest.mark.parametrize("name", ["tables-parquet-executors-killed-in-a-batch", "tables-iceberg-last-commit-deleted"])
def test_a_table_that_knows_its_batches(chaos_session, name):
    """Each large order was compared, and is there once."""
    report, found = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems
    assert (found["duplicates"].checked, found["gaps"].checked, found["values"].checked) == (LARGE, LARGE, LARGE)
    assert not found["ordering"].asked


def test_a_batch_that_is_appended_again(chaos_session):
    """All of it is there twice, and each row names the version of the table; so it is judged again when the table is gone."""
    report, found = played(chaos_session, "tables-delta-append-last-commit-deleted")

    assert report.verdict is Verdict.VALID, report.problems
    duplicates = found["duplicates"]
    assert (duplicates.count, duplicates.checked) == (BATCH, LARGE + BATCH)
    assert duplicates.examples[0].place.startswith("version 2, file part-")
    assert duplicates.examples[0].words.startswith("also at version 1, file part-")
    run = report.run_dir
    shutil.rmtree(run / "large")
    shutil.rmtree(run / "table")
    before = load_findings(run)

    assert subprocess.run([*JUDGE, str(run)], capture_output=True, timeout=600, check=False).returncode == 0

    assert load_findings(run) == before


@pytest.mark.nightly
def test_a_batch_of_which_two_tasks_had_committed(chaos_session):
    """Their rows are there twice, all of them and no others: those of partitions 0 and 1 in one batch."""
    report, found = played(chaos_session, "tables-postgres-two-of-three", POSTGRES)

    assert report.verdict is Verdict.VALID, report.problems
    rows = landed(chaos_session.spark(), Path(report.run_dir) / "evidence", "sink")
    twice = {int(row["key"]) for row in rows.groupBy("key").count().where("count = 2").collect()}
    assert len(twice) == found["duplicates"].count
    offsets = Path(report.run_dir) / CHECKPOINT / "offsets"
    plans = [plan_in(file) for file in sorted(offsets.glob("[0-9]*"), key=lambda file: int(file.name))]
    assert twice in [
        {order for place in (0, 1) for order in large(place, one[place], other[place])} for one, other in pairwise(plans)
    ]


def plan_in(file):
    """Partition -> the end of this batch; its last line is the plan of its one source."""
    (of_topic,) = json.loads(file.read_text().splitlines()[-1]).values()
    return {int(partition): end for partition, end in of_topic.items()}


def large(partition, begin, end):
    """The large orders of a partition between two offsets; order 3 n + p is record n of partition p."""
    orders = (3 * offset + partition for offset in range(begin, end))
    return [order for order in orders if order * 7 % 300 >= 100]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tables-postgres-broken-is-killed", "tables-postgres-broken-is-cut-off"])
def test_a_database_that_breaks_in_a_batch(chaos_session, name):
    """The batch fails and is done again; what it had written is not written again."""
    report, found = played(chaos_session, name, POSTGRES)

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    assert (found["duplicates"].checked, found["gaps"].checked, found["values"].checked) == (LARGE, LARGE, LARGE)


@pytest.mark.nightly
def test_a_key_that_recurs_in_a_batch(chaos_session):
    """Nothing is broken, and of each customer one order of a batch is kept."""
    report, found = played(chaos_session, "tables-postgres-by-customer-nothing-broken", POSTGRES)

    assert report.verdict is Verdict.VALID, report.problems
    assert found["gaps"].counts == {"lost": LARGE - 4 * 97}


@pytest.mark.nightly
def test_a_database_that_is_not_installed(chaos_session, tmp_path):
    """One line says what to install."""
    text = (POSTGRES / "scenarios.yaml").read_text().replace("{project}", str(POSTGRES)).replace("../orders.py", "orders.py")
    words = '"{folder}/postgres"]'
    assert words in text
    text = text.replace(words, f"{words}, environment: {{POSTGRES_PROGRAMS: {tmp_path}}}")
    shutil.copy(TABLES / "orders.py", tmp_path)
    file = load_text(text, tmp_path / "scenarios.yaml")

    scenario = file.scenario("tables-postgres-by-customer-nothing-broken")
    report = chaos_session.run(scenario, file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN
    said = f"PostgreSQL is not there: initdb is neither in {tmp_path} nor on the path; install it (apt-get install postgresql)"
    assert any(said in problem for problem in report.problems), report.problems


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            '{parquet: "{folder}/elsewhere"}',
            "nothing at {folder}/elsewhere; ",
        ),
        pytest.param(
            "{jdbc: {url: 'jdbc:postgresql://127.0.0.1:9/shop', table: '{suffix}'}}",
            "answer at jdbc:postgresql://127.0.0.1:9/shop",
        ),
        pytest.param(
            '{delta: "{folder}/large"}',
            "Delta table at {folder}/large",
        ),
    ],
    ids=["elsewhere", "no server", "no Delta table"],
)
def test_a_table_that_cannot_be_read(chaos_session, tmp_path, sink, said):
    """The job has written what it says to another place: UNKNOWN, with a line that says what to mend."""
    text = (TABLES / "scenarios.yaml").read_text().replace("orders.py", str(TABLES / "orders.py"))
    own = 'sink: {parquet: "{folder}/large"}'
    assert own in text
    packages = f"sink: {sink}\n    packages: ['org.postgresql:postgresql:42.7.7']" if "jdbc" in sink else f"sink: {sink}"
    text = text.replace(own, packages, 1).replace('"{sink}"', '"{folder}/large"', 1)
    file = load_text(text, tmp_path / "scenarios.yaml")
    scenario = file.scenario("tables-parquet-driver-killed-in-a-batch").model_copy(update={"faults": ()})

    report = chaos_session.run(scenario, file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN
    assert any(said.replace("{folder}", str(report.run_dir)) in problem for problem in report.problems), report.problems
