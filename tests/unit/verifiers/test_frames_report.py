"""What a report of `verifiers.audit` says in a failed assertion, in a notebook, and to a program; without a Spark session."""

import json
import subprocess
import sys

import pytest

import verifiers
from verifiers.base import NO_PLACE, Example, Finding, Verdict
from verifiers.details import Detail

VALUES = {"wrong value": 1, "phantom": 1, "misrouted": 0, "undecodable": 0}


def example(anomaly, key, detail, place=""):
    return Example(anomaly, NO_PLACE, None, key, None, detail, place=place)


def report(*findings):
    """A report without frames."""
    frames = dict.fromkeys(("lost", "duplicated", "wrong", "phantom", "late", "repeated"))
    return verifiers.Report(60, 61, ("order_id", "line"), ("amount",), findings, **frames)


@pytest.fixture
def damaged():
    lost = tuple(example("lost", f"{number}, 1", Detail("nothing answers it")) for number in range(32))
    wrong = example("wrong value", "<b>7</b>", Detail("amount {value}, expected {wanted}", {"value": "<i>", "wanted": 3}))
    return report(
        Finding("duplicates", "sink", Verdict.UNKNOWN, 0, 0, {"duplicate": 0}, note="nothing was compared"),
        Finding("gaps", "sink", Verdict.INVALID, 42, 60, {"lost": 42, "pending": 0}, lost),
        Finding("ordering", "sink", Verdict.VALID, 0, 0, {"inversion": 0}, note="not asked", asked=False),
        Finding("values", "sink", Verdict.INVALID, 2, 61, VALUES, (wrong, example("phantom", "9", "", "offset 4"))),
    )


def test_a_failed_assertion_shows_the_report(damaged, snapshot):
    """Short lines: the verdict, then each finding, its first examples, and how many more there are."""
    assert str(AssertionError(damaged)) == snapshot
    assert max(map(len, str(damaged).splitlines())) < 128


def test_pytest_shows_one_line_of_the_report(damaged):
    """It cuts what is no string; `str(report)` is shown as it is."""
    with pytest.raises(AssertionError) as raised:
        assert damaged.valid, damaged

    said = "<INVALID: 61 rows of the sink for 60 records, by order_id, line; 42 lost; 1 wrong value; 1 phantom>"
    assert str(raised.value).splitlines()[0] == repr(damaged) == said


def test_a_notebook_shows_all_examples_as_text(damaged, snapshot):
    """Nothing is loaded from elsewhere, and what users have written is text."""
    html = damaged._repr_html_()

    assert "<b>7</b>" not in html
    assert "&lt;b&gt;7&lt;/b&gt;" in html
    assert "amount &lt;i&gt;, expected 3" in html
    assert html.count("<li>") == 34
    assert not {"http", "src=", "<script"} & {part for part in ("http", "src=", "<script") if part in html}
    assert html == snapshot


def test_a_program_gets_types_of_json(damaged):
    found = json.loads(json.dumps(damaged.to_json()))

    assert {name: found[name] for name in ("verdict", "records", "rows", "key", "compared")} == {
        "verdict": "INVALID",
        "records": 60,
        "rows": 61,
        "key": ["order_id", "line"],
        "compared": ["amount"],
    }
    assert [(one["verifier"], one["verdict"], one["count"], one["asked"]) for one in found["findings"]] == [
        ("duplicates", "UNKNOWN", 0, True),
        ("gaps", "INVALID", 42, True),
        ("ordering", "VALID", 0, False),
        ("values", "INVALID", 2, True),
    ]


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([Verdict.VALID, Verdict.VALID], Verdict.VALID),
        ([Verdict.VALID, Verdict.UNKNOWN], Verdict.UNKNOWN),
        ([Verdict.UNKNOWN, Verdict.INVALID], Verdict.INVALID),
    ],
)
def test_the_worst_finding_decides(verdicts, verdict):
    found = report(*(Finding("gaps", "sink", one, 0, 0) for one in verdicts))

    assert (found.verdict, found.valid) == (verdict, verdict is Verdict.VALID)


def test_what_an_audit_of_frames_needs_is_imported_at_its_first_use():
    """The import of `verifiers` costs those nothing who audit no frames."""
    code = "import sys, verifiers; assert 'verifiers.frames' not in sys.modules; print(verifiers.audit.__module__)"

    said = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout

    assert said.strip() == "verifiers.frames.auditing"
    with pytest.raises(AttributeError, match="module 'verifiers' has no attribute 'audits'"):
        _ = verifiers.audits


@pytest.mark.parametrize("frame", [[1], "orders", None, 7])
def test_what_is_no_frame(frame):
    """Refused without Spark, in one line."""
    with pytest.raises(verifiers.AuditError, match=r"^source is a builtins\.\w+, not a Spark DataFrame: use spark.createData"):
        verifiers.audit(frame, frame, key="id")
