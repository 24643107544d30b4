"""Rows of one's own: keys recur, and are null or any bytes. Every finding names the key, the partition and the offset."""

from dataclasses import replace

import pytest

from chaos.judging.judge import check
from chaos.loader import rows_file, sources
from chaos.loader.rows_file import RowsError
from chaos.matching import row_ids
from chaos.scenario.rows.sql import compute
from tests.planted.log import table
from verifiers import VERIFIERS, evidence
from verifiers.base import Bounds, Evidence, Verdict

OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"
BOUNDS = {0: Bounds(0, 100, 100), 1: Bounds(0, 100, 100)}
LINES = row_ids.lines_of(BOUNDS)
OF_LOGS = ("duplicates", "gaps", "ordering", "values")
SENT = [("ann", "1", 0), ("bob", "2", 1), ("ann", "3", 0), (None, "4", 1), ("ann", "1", 0), ("bob", None, 1), ("ann", "5", 0)]


def frame(spark, *records):
    """Records of key, value and partition, at the offsets that follow from their order, or at the one that they say."""
    ends, found = {}, []
    for key, value, partition, *offset in records:
        place = offset[0] if offset else ends.get(partition, 0)
        ends[partition] = place + 1
        found.append((partition, place, 1000 + 10 * len(found), key, value))
    return spark.createDataFrame(table(found, OBSERVED))


@pytest.fixture
def judged(spark, tmp_path):
    """Land a log as a run does, read it again and judge it; the findings by verifier."""

    def ask(subject, numbering, observed, names=OF_LOGS, positions=None, **views):
        found = numbering(observed)
        landed = Evidence(subject, found.expected, observed, BOUNDS, positions or {}, **found.views, **views)
        evidence.write(tmp_path, landed)
        one = evidence.load(spark, tmp_path, subject)
        return {name: check(name, one, LINES) for name in names}

    return ask


@pytest.fixture
def of_sink(spark, judged):
    """Judge a sink that copied what was sent."""

    def ask(*records, source=SENT, names=(*OF_LOGS, "offsets"), positions=None, **views):
        positions = positions or {0: 4, 1: 3}
        numbering = row_ids.of_sink(frame(spark, *source), positions, LINES)
        return judged("sink", numbering, frame(spark, *records), names, positions, **views)

    return ask


@pytest.fixture
def of_source(spark, judged, tmp_path):
    """Judge a source: what was sent, the loader's ledger, and what is in the log."""

    def ask(ledger, *records, sent=SENT):
        path, told = tmp_path / rows_file.FILE, tmp_path / "ledger.csv"
        raw = [{"key": key, "value": value, "partition": partition} for key, value, partition in sent]
        rows_file.write(path, raw, 2, None, name=str)
        told.write_text("id,outcome,partition,offset\n" + "".join(f"{line}\n" for line in ledger), encoding="utf-8")
        return judged("source", row_ids.of_source(spark, path, told, LINES), frame(spark, *records), (*OF_LOGS, "ledger"))

    return ask


def verdicts(findings):
    """Verdict and count of those that found something."""
    return {name: (one.verdict.name, one.count) for name, one in findings.items() if one.verdict is not Verdict.VALID}


def shown(finding):
    """Anomaly, key, partition and offset of each example."""
    return [(one.anomaly, one.id, one.partition, one.offset) for one in finding.examples]


ACKNOWLEDGED = ["0,ok,0,0", "1,ok,1,0", "2,ok,0,1", "3,ok,1,1", "4,ok,0,2", "5,ok,1,2", "6,ok,0,3"]


def test_a_copy_is_right_whatever_recurs_in_it(of_sink):
    """Keys, whole records, a null key and a null value; and every record was compared."""
    findings = of_sink(*SENT)

    assert verdicts(findings) == {}
    assert {one.checked for one in findings.values()} == {7}


def test_a_batch_that_is_copied_again(of_sink):
    """The duplicates are named by their keys and places, also the neighbour that shows the replay; so is what is late."""
    findings = of_sink(*SENT, ("ann", "3", 0), ("ann", "5", 0))

    assert verdicts(findings) == {"duplicates": ("INVALID", 2), "ordering": ("INVALID", 1)}
    assert shown(findings["duplicates"]) == [("duplicate", "ann", 0, 4), ("duplicate", "ann", 0, 5)]
    assert shown(findings["ordering"]) == [("inversion", "ann", 0, 4)]
    assert "key ann precedes it" in findings["ordering"].examples[0].words


def test_one_of_records_that_are_alike_is_too_many(of_sink):
    """It is a duplicate, and its order cannot be told."""
    findings = of_sink(*SENT, ("ann", "1", 0))

    assert verdicts(findings) == {"duplicates": ("INVALID", 1)}
    assert shown(findings["duplicates"]) == [("duplicate", "ann", 0, 4)]
    assert "the order of 3 rows was not judged" in findings["ordering"].note


def test_a_record_is_missing(of_sink):
    """One of two that are alike, and one without a key: both are lost, for the positions are past them."""
    findings = of_sink(*(record for number, record in enumerate(SENT) if number not in {3, 4}))

    assert verdicts(findings) == {"gaps": ("INVALID", 2), "offsets": ("INVALID", 2)}
    assert [(one.anomaly, one.id, one.partition) for one in findings["gaps"].examples] == [
        ("lost", "ann", 0),
        ("lost", "null", 1),
    ]


def test_what_is_wrong_with_values(of_sink):
    """Another value, another partition, a key that was never sent, and a null in place of a text."""
    records = [("ann", "9", 0), ("bob", "2", 0), ("eve", "1", 1), ("ann", "3", 0), (None, None, 1), ("ann", "1", 0)]
    findings = of_sink(*records, ("bob", None, 1), ("ann", "5", 0))

    assert sorted(shown(findings["values"])) == [
        ("misrouted", "bob", 0, 1),
        ("phantom", "eve", 1, 0),
        ("wrong value", "ann", 0, 0),
        ("wrong value", "null", 1, 1),
    ]
    assert "value 9, expected 1" in findings["values"].examples[0].words


def test_other_views_are_of_keys_too(spark, of_sink):
    """A second read is compared with the first as both are, and what differs is named by its key."""
    again = frame(spark, *SENT[:-1])

    findings = of_sink(*SENT, names=("stability",), again=again)

    assert shown(findings["stability"]) == [("truncated", "ann", 0, 3)]


def test_a_source_that_is_as_the_ledger_says(of_source):
    """Acknowledgements tell records apart that are alike."""
    findings = of_source(ACKNOWLEDGED, *SENT)

    assert verdicts(findings) == {}
    assert findings["ledger"].checked == findings["gaps"].checked == 7


def test_records_that_are_alike_may_be_written_in_another_order(of_source):
    """The fifth before the first: acknowledged so, it is an inversion of the first three, and not of the ledger's places."""
    ledger = ["0,ok,0,2", "2,ok,0,1", "4,ok,0,0", "6,ok,0,3"]

    findings = of_source(ledger, *(record for record in SENT if record[2] == 0))

    assert verdicts(findings) == {"ordering": ("INVALID", 2)}


def test_a_source_lacks_what_was_acknowledged(of_source):
    """It is told where it should be, and by what key the place is held."""
    left = [*SENT[:2], ("eve", "x", 0), *SENT[3:]]

    findings = of_source(ACKNOWLEDGED, *left)

    assert verdicts(findings) == {"gaps": ("INVALID", 1), "values": ("INVALID", 1), "ledger": ("INVALID", 1)}
    assert shown(findings["ledger"]) == [("not written", "ann", 0, None)]
    assert "offset 1, which holds key 'eve'" in findings["ledger"].examples[0].words


def test_a_retry_that_was_written_twice(of_source):
    """Without idempotence: the copy that was not acknowledged is the one too many."""
    findings = of_source(ACKNOWLEDGED, *SENT, ("bob", None, 1))

    assert verdicts(findings) == {"duplicates": ("INVALID", 1)}
    assert shown(findings["duplicates"]) == [("duplicate", "bob", 1, 3)]


@pytest.mark.parametrize("there", [True, False])
def test_an_outcome_that_is_not_known(of_source, there):
    """It may be there, once; of two that are alike the acknowledged one is there first, wherever its place is."""
    ledger = [*ACKNOWLEDGED[1:4], "4,ok,0,", "0,unknown,,", *ACKNOWLEDGED[5:]]
    kept = SENT if there else SENT[1:]
    ledger = ledger if there else [line.replace("2,ok,0,1", "2,ok,0,0").replace("6,ok,0,3", "6,ok,0,2") for line in ledger]

    findings = of_source(ledger, *kept)

    assert verdicts(findings) == {}
    assert findings["gaps"].counts["recovered" if there else "absent"] == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_record_that_a_broker_refused(of_source, there):
    """It is not a gap; and if it is there all the same, the refusal was none."""
    ledger = [*ACKNOWLEDGED, "7,fail,0,"]
    sent = [*SENT, ("poison", "x", 0)]

    findings = of_source(ledger, *(sent if there else SENT), sent=sent)

    found = {"values": ("INVALID", 1), "ledger": ("INVALID", 1)} if there else {}
    assert verdicts(findings) == found
    assert shown(findings["ledger"]) == ([("refused", "poison", 0, 4)] if there else [])


BYTES = [b"", b"plain", "ä€😀".encode(), b"\xff\x00", b"0x41", b"0x", b"\xed\xa0\x80", b"\xc0\x80", b"\x00", None]


def test_bytes_are_told_apart(spark):
    """Spark and the loader write the same of them, and no two are alike."""
    data = spark.createDataFrame(
        [(number, bytearray(one) if one is not None else None) for number, one in enumerate(BYTES)], "n int, b binary"
    )

    found = [row["t"] for row in data.orderBy("n").selectExpr(f"{row_ids.text('b')} AS t").collect()]

    assert found == [rows_file.text(one) for one in BYTES]
    assert len(set(found)) == len(BYTES)


HEADERS = [None, [], [("a", b"1")], [("a", None)], [("a", b"")], [("a", b"\xff")], [("a", b"0xFF")]]
HEADERS += [[("a", b"1"), ("b", b"2")], [("b", b"2"), ("a", b"1")], [("a", b"1"), ("a", b"1")], [('a","value":"1', None)]]


def as_read(spark, values, shown):
    """Values with headers, as verifiers see them."""
    kinds = "n int, value binary, headers array<struct<key: string, value: binary>>"
    rows = [(number, value, headers) for number, (value, headers) in enumerate(values)]
    found = spark.createDataFrame(rows, kinds).orderBy("n").selectExpr(f"{shown} AS t")
    return [row["t"] for row in found.collect()]


def test_headers_are_told_apart(spark):
    """In their order, with their bytes; a value that reads as if headers followed is another one. None are like no list."""
    shown = row_ids.with_headers("value", "headers")

    found = as_read(spark, [(bytearray(b"v"), headers) for headers in HEADERS], shown)
    like = as_read(spark, [(bytearray(text.encode()), None) for text in found], shown)
    null = as_read(spark, [(None, headers) for headers in HEADERS] + [(bytearray(b""), HEADERS[2])], shown)

    assert found[:3] == ["v", "v", 'v headers=[{"key":"a","value":"1"}]']
    assert len({*found}) == len(HEADERS) - 1
    assert not {*found[2:]} & {*like}
    assert null[:2] == [None, None]
    assert len({*null}) == len(null) - 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_copy_that_loses_headers(spark, tmp_path, judged, kept):
    """Where they are compared, each record that had some has a wrong value, and both values are shown with them."""
    raw = [{"key": "ann", "value": "1", "headers": {"trace": str(number)}, "partition": 0} for number in range(3)]
    path, told = tmp_path / rows_file.FILE, tmp_path / "ledger.csv"
    rows_file.write(path, [*raw, {"key": "bob", "value": "2", "partition": 0}], 2, None, name=str)
    told.write_text("id,outcome,partition,offset\n" + "".join(f"{n},ok,0,{n}\n" for n in range(4)), encoding="utf-8")
    shown = row_ids.with_headers("value", "headers")
    texts = as_read(
        spark, [(row["value"], row["headers"]) for row in spark.read.parquet(str(path)).orderBy("id").collect()], shown
    )
    source = [("ann", text, 0) for text in texts[:3]] + [("bob", "2", 0)]
    lost = [("ann", "1", 0)] * 3 + [("bob", "2", 0)]

    of_source = judged("source", row_ids.of_source(spark, path, told, LINES), frame(spark, *source), (*OF_LOGS, "ledger"))
    numbering = row_ids.of_sink(frame(spark, *source), {0: 4}, LINES)
    of_sink = judged("sink", numbering, frame(spark, *(source if kept else lost)), OF_LOGS, {0: 4})

    assert verdicts(of_source) == {}
    assert of_sink["values"].count == (0 if kept else 3)
    if not kept:
        assert 'value 1, expected 1 headers=[{"key":"trace","value":"0"}]' in of_sink["values"].examples[0].words


def test_headers_that_are_not_promised_are_not_compared(spark, tmp_path, judged):
    """The source is read without them, too."""
    path, told = tmp_path / rows_file.FILE, tmp_path / "ledger.csv"
    rows_file.write(path, [{"key": "ann", "value": "1", "headers": {"a": "b"}, "partition": 0}], 2, None, name=str)
    told.write_text("id,outcome,partition,offset\n0,ok,0,0\n", encoding="utf-8")

    numbering = row_ids.of_source(spark, path, told, LINES, headers=False)

    assert verdicts(judged("source", numbering, frame(spark, ("ann", "1", 0)), (*OF_LOGS, "ledger"))) == {}


def test_rows_of_a_query(spark, tmp_path):
    """In the order of the ids; the columns are those of records."""
    compute(spark, "SELECT concat('c-', id % 3) AS key, string(id) AS value FROM ids", 7, tmp_path / "sql")

    raw = [row for part in sorted((tmp_path / "sql").glob("*.parquet")) for row in sources.of_file(part)]
    assert [(row["key"], row["value"]) for row in raw] == [(f"c-{number % 3}", str(number)) for number in range(7)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC 1", r"\[PARSE_SYNTAX_ERROR\]"),
        ("SELECT amount AS value FROM ids", r"\[UNRESOLVED_COLUMN.*`amount`"),
        ("SELECT 'a' AS key FROM ids", "the query has no column value"),
        ("SELECT id AS value FROM ids", r"a value of type bigint; write CAST\(value AS STRING\)"),
        ("SELECT '' AS value, id AS amount FROM ids", "has an unknown column amount"),
        ("SELECT CAST(1 DIV (id - 2) AS STRING) AS value FROM ids", "DIVIDE_BY_ZERO"),
    ],
)
def test_a_query_that_gives_no_rows(spark, tmp_path, query, said):
    """Spark's reason, in a line."""
    with pytest.raises(RowsError, match=said) as caught:
        compute(spark, query, 5, tmp_path / "sql")
    assert "\n" not in str(caught.value)


def test_every_verifier_is_asked_of_one_kind(spark):
    """Those that are given keys as they are, are verifiers."""
    assert VERIFIERS.keys() >= row_ids.AS_THEY_ARE
    assert row_ids.numbered(replace(Evidence("sink", spark.range(0), spark.range(0), BOUNDS)), LINES).bounds == BOUNDS
