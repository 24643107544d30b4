"""The package of docs/plugins.md, installed by pip: its fault breaks the real system, and its verifier judges."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.integration.external import ROOT, environment

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]

PACKAGE = ROOT / "tests" / "plugin_package"
WITHIN_S = 1500
JUDGE = ("-c", "from chaos.cli.main import main; main()", "judge")


def ran(*arguments, **options):
    command = (sys.executable, *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, **options)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The variables of a shell in whose environment the package is installed."""
    site = tmp_path_factory.mktemp("site")
    flags = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", site)
    answer = ran("-m", "pip", "install", *flags, PACKAGE)
    assert answer.returncode == 0, answer.stderr
    return {"PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def played(installed, net, tmp_path_factory):
    """Its scenarios: scenario -> the folder of its run."""
    folder = tmp_path_factory.mktemp("played")
    runs = folder / "runs"
    flags = ("-m", "chaos", "-p", "no:cacheprovider", "--rootdir", folder, "--chaos-runs", runs)
    answer = ran("-m", "pytest", PACKAGE / "scenarios.yaml", *flags, env={**environment(net), **installed}, cwd=folder)
    (folder / "played.log").write_text(answer.stdout + answer.stderr, encoding="utf-8")
    found = {report(path.parent)["scenario"]: path.parent for path in runs.glob("*/report.json")}
    of_tables = {"json-lines", "json-lines-in-part", "reader-raises"}
    assert set(found) == {"begin-trimmed", "nothing-to-trim", "keys-recur", "generator-raises", *of_tables}, (
        answer.stdout[-4000:] + answer.stderr
    )
    return found


def report(run):
    return json.loads((run / "report.json").read_text(encoding="utf-8"))


def finding(run):
    """The finding of that package's verifier."""
    return next(one for one in report(run)["findings"] if (one["verifier"], one["subject"]) == ("retention", "source"))


def test_its_fault_has_an_effect_that_its_verifier_sees(played):
    """The run is VALID because the scenario expects just that."""
    run = played["begin-trimmed"]

    assert (report(run)["verdict"], finding(run)["verdict"]) == ("VALID", "INVALID")
    assert finding(run)["count"] > 0


def test_a_fault_without_effect_makes_the_run_unknown(played):
    """As ours do; the log is as it was, and its verifier says so."""
    run = played["nothing-to-trim"]

    assert (report(run)["verdict"], finding(run)["verdict"], finding(run)["count"]) == ("UNKNOWN", "VALID", 0)
    assert report(run)["problems"] == ["trim_log-1: it had no effect"]


def test_the_rows_of_its_generator_are_sent(played):
    """Five keys, of which one recurs most; each row is found as often as it was sent."""
    run = played["keys-recur"]
    keys = Counter(parquet.read_table(run / "rows.parquet").column("key").to_pylist())

    assert (report(run)["verdict"], report(run)["problems"]) == ("VALID", [])
    assert len(keys) == 5
    assert keys.most_common(1)[0][0] == b"customer-1"
    assert {one["checked"] for one in report(run)["findings"] if one["verifier"] in {"gaps", "duplicates"}} == {900}


def test_a_generator_that_raises_makes_the_run_unknown(played):
    """One line, with its package and the place in its code."""
    run = played["generator-raises"]

    (problem,) = report(run)["problems"]
    assert report(run)["verdict"] == "UNKNOWN"
    assert "generator: skewed of retention-chaos 1.0 raised ValueError: there must be a customer, not 0 (" in problem
    assert problem.endswith("generators.py:11)")


def test_the_rows_that_its_reader_gives_are_judged(played):
    """With its arguments: of 6000 orders 4000 are large, and 20 of those are of 100, which one scenario's reader leaves out."""
    whole, part = report(played["json-lines"]), report(played["json-lines-in-part"])

    assert (whole["verdict"], whole["problems"]) == ("VALID", [])
    checked = {one["verifier"]: one["checked"] for one in whole["findings"] if one["subject"] == "sink"}
    assert (checked["gaps"], checked["duplicates"], checked["values"]) == (4000, 4000, 4000)
    (gaps,) = (one for one in part["findings"] if (one["verifier"], one["subject"]) == ("gaps", "sink"))
    assert (part["verdict"], gaps["verdict"], gaps["counts"]["lost"]) == ("VALID", "INVALID", 20)


def test_a_reader_that_raises_makes_the_run_unknown(played):
    """One line, with the function and the place in its code."""
    run = report(played["reader-raises"])

    (problem,) = run["problems"]
    assert run["verdict"] == "UNKNOWN"
    assert "pipeline, sink, reader: retention_chaos.sinks:json_lines raised AnalysisException: " in problem
    assert "retention_chaos/sinks.py:10)" in problem


@pytest.mark.parametrize("name", ["begin-trimmed", "json-lines"])
def test_the_run_is_judged_again(played, installed, name):
    """From its files, by the same verifiers."""
    run = played[name]
    before = finding(run)
    (run / "findings.json").unlink()

    answer = ran(*JUDGE, run, env={**os.environ, **installed})

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert finding(run) == before


def test_without_the_package_it_is_not_judged_again(played):
    """It would be judged by fewer verifiers than then."""
    run: Path = played["begin-trimmed"]
    before = report(run)

    answer = ran(*JUDGE, run, env=dict(os.environ))

    assert (answer.returncode, answer.stderr.count("\n")) == (4, 1)
    assert answer.stderr.startswith("'trim_log' came from retention-chaos 1.0, ")
    assert report(run) == before
