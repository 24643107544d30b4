import json

import pytest

from chaos.report.codec import finding_from_json, finding_to_json, from_json, to_json
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict


def test_a_report_survives_the_way_through_a_file(run: Fabricated) -> None:
    """What `chaos judge` reads back is what the run wrote, field by field and type by type."""
    report = run.report(
        problems=("drain: it never ended",),
        recovery_s=None,
        faults=(run.fault(healed_ms=None, problem="lost"),),
        exactly={"duplicates": {"duplicate": 1}},
        matrix={"request": "EndTxn", "fault": "request-lost"},
        not_sent=True,
    )

    again = from_json(json.loads(json.dumps(to_json(report))))

    assert again == report
    assert isinstance(again.findings[0].verdict, Verdict)


def test_a_report_from_before_there_were_matrices_is_read(run: Fabricated) -> None:
    """`chaos judge` takes old run directories too."""
    written = to_json(run.report())
    for field in ("exactly", "matrix", "not_sent"):
        del written[field]

    assert from_json(written) == run.report()


def test_verdicts_are_written_by_name(run: Fabricated) -> None:
    """A number would mean something else the day a verdict is added."""
    written = to_json(run.control())

    assert (written["verdict"], written["expect"]) == ("VALID", {"duplicates": "INVALID"})
    assert [finding["verdict"] for finding in written["findings"]] == ["INVALID", "VALID"]


def test_a_finding_survives_with_its_examples(run: Fabricated) -> None:
    """Examples may lack offset, id and time: a lost record has none of them."""
    lost = run.example(anomaly="lost", offset=None, timestamp_ms=None)
    finding = run.finding("gaps", Verdict.INVALID, count=1, counts={"lost": 1, "pending": 0}, examples=(lost,), note="why")

    assert finding_from_json(json.loads(json.dumps(finding_to_json(finding)))) == finding


def test_an_unknown_verdict_is_an_error(run: Fabricated) -> None:
    """A file of another version must not be read as something it does not say."""
    with pytest.raises(KeyError, match="FINE"):
        finding_from_json(finding_to_json(run.finding("gaps")) | {"verdict": "FINE"})
