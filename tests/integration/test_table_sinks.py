"""Tables on the real system: a batch that is done again; evidence that is judged without the table; what cannot be read."""

import shutil
import subprocess
import sys

import pytest

from chaos.judging.judge import load_findings
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

TABLES = ROOT / "examples" / "tables"
LARGE = 8000  # of 12 000 orders
BATCH = 2000  # large orders in a full batch of 3 000
JUDGE = (sys.executable, "-c", "from chaos.cli.main import main; main()", "judge")
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]


def played(session, name):
    """The report of one of the example's scenarios, and what its verifiers say of the sink."""
    file = load(TABLES / "scenarios.yaml")
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
    assert duplicates.examples[0].detail.startswith("also at version 1, file part-")
    run = report.run_dir
    shutil.rmtree(run / "large")
    shutil.rmtree(run / "table")
    before = load_findings(run)

    assert subprocess.run([*JUDGE, str(run)], capture_output=True, timeout=600, check=False).returncode == 0

    assert load_findings(run) == before


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            '{parquet: "{folder}/elsewhere"}',
            "pipeline, sink, parquet: there is nothing at {folder}/elsewhere; does",
        ),
        pytest.param(
            "{jdbc: {url: 'jdbc:postgresql://127.0.0.1:9/shop', table: '{suffix}'}}",
            "does a server answer at jdbc:postgresql://127.0.0.1:9/shop, and has it the table",
        ),
        pytest.param(
            '{delta: "{folder}/large"}',
            "pipeline, sink, delta: there is no Delta table at {folder}/large; does the pipeline write elsewhere?",
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
