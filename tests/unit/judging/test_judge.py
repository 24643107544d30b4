"""Which verifier is asked of which log, and how findings are kept."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from chaos.common.errors import InconclusiveError
from chaos.judging.findings_file import FindingsFile, load_findings
from chaos.judging.judge import _applies, _certain, check, judge
from chaos.scenario.verifiers import OF_LOGS
from tests.unit.wording import keep, raised
from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.details import Detail, Key, Partition, Place, Producer, Record


@pytest.mark.parametrize(
    ("name", "subjects", "said_of", "asked"),
    [
        ("duplicates", ["source", "sink"], [], ["source", "sink"]),
        ("offsets", ["source", "sink"], [], ["sink"]),
        ("ledger", ["source", "sink"], [], ["source"]),
        ("ledger", ["source"], [], ["source"]),
        ("offsets", ["source"], [], ["source"]),
        ("outcomes", ["source", "sink"], ["source"], ["source"]),
        ("outcomes", ["source", "sink"], ["source", "sink"], ["source", "sink"]),
        ("outcomes", ["source", "sink"], [], ["sink"]),
        ("stability", ["source", "sink"], [], ["sink"]),
        ("outcomes", ["source", "source-customers"], ["source", "source-customers"], ["source", "source-customers"]),
        ("gaps", ["source", "source-customers", "sink"], [], ["source", "source-customers", "sink"]),
    ],
)
def test_a_verifier_is_asked_of_its_own_logs(name, subjects, said_of, asked):
    """A verifier that judges none of the logs of this run is asked all the same: it says UNKNOWN and is not just left out."""
    logs = [Evidence(one, None, None, {}, told="told" if one in said_of else None) for one in subjects]

    assert [one.subject for one in logs if _applies(name, one, logs)] == asked


def test_a_run_that_was_never_landed(tmp_path):
    """There is nothing to judge."""
    scenario = SimpleNamespace(verify=("duplicates", "progress"), subjects={"orders": "source"})

    with raised(InconclusiveError):
        judge(None, scenario, tmp_path)


@pytest.mark.parametrize(
    ("there", "lost"), [((), "source"), (("source",), "source-customers"), (("source-customers",), "source")]
)
def test_a_source_that_was_lost(tmp_path, there, lost):
    """Its anomalies would stay unseen, and the sink alone might be VALID; this holds for each filled topic."""
    for subject in (*there, "sink"):
        (tmp_path / "evidence" / subject).mkdir(parents=True)
    subjects = {"orders": "source", "customers": "source-customers"}

    with raised(InconclusiveError, f"evidence/{lost} "):
        judge(None, SimpleNamespace(verify=("duplicates",), subjects=subjects), tmp_path)


FINDINGS = [
    Finding("duplicates", "sink", Verdict.INVALID, 1, 9, {"duplicate": 1}, (Example("duplicate", 0, 12, 9, None, "also at 3"),))
]


def test_a_jvm_that_has_ended_has_found_nothing():
    """Its last answer may have been cut short, so a count may be too small, or records may be missing."""

    def gone(_name):
        raise ConnectionRefusedError("refused")

    (found,) = _certain(SimpleNamespace(conf=SimpleNamespace(get=gone)), (FINDINGS[0],))

    assert (found.verifier, found.verdict) == ("duplicates", Verdict.UNKNOWN)
    assert "(refused)" in keep(found.note)


@pytest.mark.parametrize("version", [3, 5])
def test_findings_of_another_version_are_refused(tmp_path, version):
    """They may say something that this version cannot read."""
    (tmp_path / "findings.json").write_text(f'{{"version": {version}, "findings": []}}', encoding="utf-8")

    with pytest.raises(ValueError, match="version"):
        load_findings(tmp_path)


def test_a_run_that_found_nothing_yet(tmp_path):
    """It did not come as far as phase 7."""
    assert load_findings(tmp_path) == ()


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (None, "the verifier itself failed: TypeError: check() returned None, not a finding of duplicates about the sink"),
        (
            Finding("tidy", "sink", Verdict.VALID, 0, 9),
            "the verifier itself failed: TypeError: check() returned Finding(",
        ),
        (Finding("duplicates", "source", Verdict.VALID, 0, 9), "the verifier itself failed: TypeError: check() returned "),
        (Finding("duplicates", "sink", Verdict.VALID, 0, 0), "nothing was compared"),
    ],
)
def test_what_a_verifier_of_another_package_must_not_answer(monkeypatch, answer, note):
    """A finding under another name would be held against no expectation, and one without a comparison proves nothing."""
    monkeypatch.setitem(OF_LOGS, "duplicates", SimpleNamespace(check=lambda _evidence: answer))

    finding = check("duplicates", Evidence("sink", None, None, {}))

    assert (finding.verifier, finding.subject, finding.verdict) == ("duplicates", "sink", Verdict.UNKNOWN)
    assert finding.note.startswith(note)


@pytest.mark.parametrize(
    "answer",
    [
        Finding("duplicates", "sink", Verdict.VALID, 0, 9),
        Finding("duplicates", "sink", Verdict.VALID, 0, 0, note="a total has no order", asked=False),
    ],
)
def test_what_it_may_answer(monkeypatch, answer):
    """It is kept as it is, also where there is nothing in this log that it could be asked about."""
    monkeypatch.setitem(OF_LOGS, "duplicates", SimpleNamespace(check=lambda _evidence: answer))

    assert check("duplicates", Evidence("sink", None, None, {})) is answer


def test_findings_are_read_as_they_were_written(tmp_path):
    """Facts stay facts, whatever they are, and so do the words of a note."""
    detail = Detail(
        "also at {others}; {again} by {writer}, which holds {holds}; {part}",
        {
            "others": (Place(17), Place(4, Partition(2, topic="orders"), name="file 1")),
            "again": Record((9, 15), ("ann", "eve")),
            "writer": Producer(7, 2),
            "holds": Key(None),
            "part": Detail("{count} in {source}", {"count": 3, "source": Partition(0, "source")}),
        },
    )
    examples = (Example("duplicate", 0, 18, 9, None, detail, topic="orders"), Example("lost", 0, None, "k", 1, "plain"))
    note = Detail("{partition} has {count}", {"partition": Partition(1), "count": 2})
    written = Finding("duplicates", "sink", Verdict.INVALID, 1, 2, {"duplicate": 1}, examples, note)
    (tmp_path / "findings.json").write_text(FindingsFile(findings=(written,)).model_dump_json(), encoding="utf-8")

    (read,) = load_findings(tmp_path)

    assert read == replace(written, note="partition 1 has 2")
    assert [one.words for one in read.examples] == [one.words for one in examples]
