"""Judged by a run without faults: each anomaly with its exact count, and when a twin is no measure."""

import json
import re

import pytest

from chaos.common.errors import InconclusiveError
from chaos.engine import kept_twins, twins
from chaos.expectation.base import nothing, view
from chaos.expectation.definitions import ABOUT, ROWS, Twin
from chaos.expectation.model import Model
from chaos.expectation.sources import fingerprint
from chaos.judging.judge import check
from chaos.matching import row_ids
from tests.planted.examples import nightly
from tests.planted.test_sql_models import BOUNDS, ENDS, KEPT, LINES, NAMES, ORDER, ORDERS, frame, verdicts
from tests.unit.engine.test_twins import run_plan
from verifiers import evidence
from verifiers.base import Evidence, Verdict


@pytest.fixture
def judged(spark, tmp_path):
    """Keep a twin that has written what is to be kept of the orders, and judge a sink by it; the findings by verifier."""
    rows = frame(spark, [*KEPT, KEPT[0]])  # one of them twice: a multiset
    about = {"source": fingerprint(frame(spark, ORDERS))}
    rows.select("key", "value").write.parquet(str(tmp_path / "twin" / ROWS))
    (tmp_path / "twin" / ABOUT).write_text(json.dumps(about), encoding="utf-8")

    def ask(sink, identity="", source=ORDERS, positions=ENDS):
        model = Model(Twin(str(tmp_path / "twin" / ROWS)), identity=identity)
        views = {"orders": view(frame(spark, source)), "others": nothing(spark)}
        observed = frame(spark, sink)
        found = model.numbering(spark, views, positions, LINES, anywhere=False)(observed)
        reasons = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": found.anywhere}
        evidence.write(tmp_path, Evidence("sink", found.expected, observed, BOUNDS, positions, **found.views, **reasons))
        one = evidence.load(spark, tmp_path, "sink")
        return {name: check(name, one, LINES) for name in NAMES}

    return ask


def test_the_same_rows_in_another_order_and_other_partitions(judged, snapshot):
    """All are compared; neither order nor partitions are asked, and it is said so."""
    findings = judged([(key, value, 1 - partition) for key, value, partition in [KEPT[0], *reversed(KEPT)]])

    assert verdicts(findings) == {}
    assert {name: one.checked for name, one in findings.items() if one.asked} == dict.fromkeys(
        [name for name in NAMES if name != "ordering"], 41
    )
    assert findings["ordering"].note == snapshot


@pytest.mark.parametrize("identity", ["", *nightly(ORDER)])
def test_what_the_twin_did_not_write(judged, identity):
    """Two missing, three again, one that should have been filtered: each is counted as what it is."""
    sink = [KEPT[0], *(row for number, row in enumerate(KEPT) if number not in {8, 9}), *KEPT[20:23], ("eve", "{}", 0)]

    findings = judged(sink, identity)

    assert verdicts(findings) == {
        "duplicates": ("INVALID", 3),
        "gaps": ("INVALID", 2),
        "values": ("INVALID", 1),
        "offsets": ("INVALID", 2),
    }
    assert findings["values"].counts["phantom"] == 1


def test_a_row_that_the_twin_wrote_twice_and_this_run_once(judged):
    """It is missing once."""
    assert verdicts(judged(KEPT)) == {"gaps": ("INVALID", 1), "offsets": ("INVALID", 1)}


def test_a_wrong_value(judged):
    """It is told with what the twin wrote."""
    changed = [*KEPT[:5], (KEPT[5][0], KEPT[5][1].replace('"amount"', '"sum"'), 0), *KEPT[6:], KEPT[0]]

    findings = judged(changed, ORDER)

    assert verdicts(findings) == {"values": ("INVALID", 1)}
    assert findings["values"].examples[0].words == f"value {changed[5][1]}, expected {KEPT[5][1]}"


@pytest.mark.parametrize(
    "more",
    [{"positions": {0: 30, 1: 20}}, {"source": ORDERS[1:]}, {"source": [*ORDERS[1:], ("c-0", "{}", 0)]}],
    ids=["not at its end", "one less", "another one"],
)
def test_a_twin_of_which_it_is_not_known_what_it_demands_here(judged, more, snapshot):
    """Nothing is called wrong then, and nothing right: the run may be right, and the twin's source was another one."""
    found = judged(KEPT, **more)

    assert {one.verdict for one in found.values()} == {Verdict.UNKNOWN}
    (note,) = {one.note for one in found.values()}
    assert note == snapshot


def test_two_runs_that_did_not_write_the_same(spark, tmp_path):
    """How many rows differ is said, and one of them; the same multiset in another order is the same."""
    one, other = frame(spark, [*KEPT, KEPT[0]]), frame(spark, [*reversed(KEPT), ("eve", None, 0)])
    twins._require_same(run_plan(tmp_path), one, frame(spark, [KEPT[0], *reversed(KEPT)]))

    with pytest.raises(InconclusiveError) as caught:
        twins._require_same(run_plan(tmp_path), one, other)

    said = "wrote different rows (1 rows only the first, 1 only the second; the first wrote key 'c-2', value '{"
    assert f"pipeline, expected, same_as: two runs without faults {said}" in str(caught.value)


def test_what_is_kept_is_whole(spark, tmp_path):
    """Rows and what is known of them; a second one of the same key gives way, and nothing is left half."""
    rows = frame(spark, KEPT).select("key", "value")

    for run in ("a", "b"):
        kept_twins.keep(tmp_path / "key", rows, {"run": run})

    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    about = json.loads((tmp_path / "key" / ABOUT).read_text(encoding="utf-8"))
    assert re.fullmatch(r"\d{8}T\d{6}Z", about.pop("made"))
    assert about == {"run": "a", "rows": 40}
    assert Model(Twin(str(tmp_path / "key" / ROWS))).demanded(spark, {}).count == 40


def test_bytes_as_text_are_those_that_a_sink_is_read_as(spark, tmp_path):
    """The rows of a twin were landed as text, and are not made text a second time."""
    kept_twins.keep(tmp_path / "key", frame(spark, [("0x30783132", None, 0), (None, "0xFF00", 0)]), {})

    found = Model(Twin(str(tmp_path / "key" / ROWS))).demanded(spark, {}).rows.collect()

    assert {(row["key"], row["value"]) for row in found} == {("0x30783132", None), (None, "0xFF00")}
    assert row_ids.NO_KEY not in {row["key"] for row in found}
