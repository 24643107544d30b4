import json

import pytest
from pydantic import TypeAdapter, ValidationError

from chaos.common.errors import InconclusiveError
from chaos.judging.findings_file import NamedFinding
from chaos.report.model import Report, reports_in
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict

FINDING = TypeAdapter(NamedFinding)


def test_a_report_survives_the_way_through_a_file(run: Fabricated) -> None:
    """A report that is read back equals the written one, field by field and type by type."""
    report = run.report(
        problems=("drain: it never ended",),
        recovery_s=None,
        faults=(run.fault(healed_ms=None, problem="lost", aftermath={"moved": 3, "to": None}),),
        exactly={"duplicates": {"duplicate": 1}},
        matrix={"request": "EndTxn", "fault": "request-lost"},
        not_sent=True,
    )
    report.write()

    again = Report.model_validate_json((run.folder / "report.json").read_text(encoding="utf-8"))

    assert again == report
    assert isinstance(again.findings[0].verdict, Verdict)


@pytest.mark.parametrize("change", [{"version": 3}, {"version": 5}, {"newer": 1}, {"verdict": "FINE"}, {"verdict": 1}])
def test_a_report_that_says_something_unknown_is_refused(run: Fabricated, change: dict[str, object]) -> None:
    """A file of another version must not be read as something it does not say."""
    with pytest.raises(ValidationError, match=next(iter(change))):
        Report.model_validate(json.loads(run.report().model_dump_json()) | change)


def test_all_runs_of_a_folder_are_read_and_one_without_a_report_is_named(run: Fabricated) -> None:
    """In the order of their names, which begin with the time; other folders are none of ours."""
    for name in ("2-b", "1-a", "3-cut", "4-cut", "other"):
        (run.folder / name).mkdir()
    for name in ("2-b", "1-a"):
        run.report(scenario=name[2:], run_dir=run.folder / name).write()
    (run.folder / "3-cut" / "scenario.json").touch()
    (run.folder / "4-cut" / "history.jsonl").touch()  # it was killed before its plan was written down

    reports, cut_short = reports_in(run.folder)

    assert [report.scenario for report in reports] == ["a", "b"]
    assert cut_short == [run.folder / "3-cut", run.folder / "4-cut"]


def test_a_folder_without_runs_and_a_damaged_report_are_errors(run: Fabricated) -> None:
    """A table of nothing, or one that leaves a run out, would look like a good night."""
    with pytest.raises(InconclusiveError, match="holds no run directory"):
        reports_in(run.folder)

    (run.folder / "1-a").mkdir()
    (run.folder / "1-a" / "report.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InconclusiveError, match=r"1-a/report.json cannot be read, or another version"):
        reports_in(run.folder)


def test_verdicts_are_written_by_name(run: Fabricated) -> None:
    """A number would mean something else on the day a verdict is added."""
    written = json.loads(run.control().model_dump_json())

    assert (written["version"], written["verdict"], written["expect"]) == (4, "VALID", {"duplicates": "INVALID"})
    assert [finding["verdict"] for finding in written["findings"]] == ["INVALID", "VALID"]


def test_a_finding_survives_with_its_examples(run: Fabricated) -> None:
    """Examples may lack offset, id and time: a lost record has none of them."""
    lost = run.example(anomaly="lost", offset=None, timestamp_ms=None)
    finding = run.finding("gaps", Verdict.INVALID, count=1, counts={"lost": 1, "pending": 0}, examples=(lost,), note="why")

    assert FINDING.validate_json(FINDING.dump_json(finding)) == finding


@pytest.mark.parametrize("verdict", ["FINE", 2])
def test_an_unknown_verdict_is_an_error(run: Fabricated, verdict: object) -> None:
    """A file of another version must not be read as something it does not say."""
    written = json.loads(FINDING.dump_json(run.finding("gaps")))

    with pytest.raises(ValidationError, match=f"{verdict!r} is not a verdict"):
        FINDING.validate_python(written | {"verdict": verdict})
