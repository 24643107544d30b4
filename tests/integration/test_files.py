"""Files with transactions on the real system: what examples/files/README.md claims beyond the verdicts of its scenarios."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from chaos.scenario.load import load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

SCENARIOS = ROOT / "examples" / "files" / "scenarios.yaml"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def played(session, name, instead=None):
    """The report of a scenario, whose pipeline may be another one."""
    text = SCENARIOS.read_text(encoding="utf-8")
    if instead is not None:
        declared = rf"(?ms)(^  - name: {name}\n.*?^    pipeline: )[^\n]*"
        text, changed = re.subn(declared, lambda found: found[1] + json.dumps(instead), text, count=1)
        assert changed
    file = load_text(text, SCENARIOS)
    return session.run(file.scenario(name), file.system, "", lambda _event: None).report


def of_sink(report):
    return {one.verifier: one for one in report.findings if one.subject == "sink"}


def said(report, log):
    return (Path(report.run_dir) / "logs" / log).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "again"),
    [("files-node-killed-at-commit", 1), pytest.param("files-node-killed-after-commit", 0, marks=pytest.mark.nightly)],
)
def test_a_file_is_written_once_however_often_it_is_downloaded(chaos_session, name, again):
    """The effect outside Kafka is not undone: a request to the server for each attempt, and rows of the last one only."""
    report = played(chaos_session, name, "files-alone")

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    downloads = Counter(re.findall(r'"GET (\S+) HTTP/1.1" 200', said(report, "service-files.log")))
    assert len(downloads) == 150
    assert sorted(downloads.values(), reverse=True)[: again + 1] == [2] * again + [1]
    assert of_sink(report)["gaps"].checked == 150 * 40


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("bug", "name", "problem"),
    [
        (
            "wakeup",
            "files-tutorial-told-to-end",
            "terminate_pipeline-1: it had no effect",
        ),
        ("no-retry", "files-tutorial", "the pipeline ended with 1 in the middle of the run; "),
    ],
)
def test_a_mistake_that_loses_nothing_is_not_valid(chaos_session, bug, name, problem):
    """These two of the tutorial's leave the data well; that the pipeline does not end, or has ended, is said."""
    report = played(chaos_session, name, {"use": "tutorial", "with": {"bug": bug}})

    assert report.verdict is Verdict.UNKNOWN
    assert any(problem in one for one in report.problems), report.problems
    assert of_sink(report)["gaps"].counts["lost"] == 0


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "lost"), [("files-tutorial-forgets", 40)])
def test_a_mistake_that_loses_rows_is_invalid(chaos_session, name, lost):
    """Whole files are missing, each row of them, and the first ones are named."""
    report = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    gaps = of_sink(report)["gaps"]
    assert (gaps.verdict, gaps.counts["lost"]) == (Verdict.INVALID, lost)
    assert all(example.id for example in gaps.examples)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("a-row-that-does-not-parse", r"http://files/\d+\.csv\?rows=40&broken=30, row 30: it has 2 fields, not 3"),
        (
            "no-such-host",
            r"http://no-such-host\.invalid/\d+\.csv\?rows=40: its host no-such-host\.invalid does not .*",
        ),
    ],
)
def test_what_is_refused_is_named_and_not_there(chaos_session, bad, why):
    """One line for each, with the URL and the row; the other files are there in full."""
    report = played(chaos_session, f"files-bad-ones-skipped-{bad}")

    assert report.verdict is Verdict.VALID, report.problems
    assert of_sink(report)["gaps"].checked == 90 * 40
    refused = [json.loads(line) for line in said(report, "pipeline.log").splitlines() if '"refused"' in line]
    assert len({line["url"] for line in refused}) == len(refused) == 30
    assert all(re.fullmatch(why, line["why"]) and line["url"] in line["why"] for line in refused)
