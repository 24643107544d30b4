"""Folders of Parquet that others landed, audited without a cluster."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.audit import dense_keys, prepared
from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit.judge import judge
from chaos.audit.logs import AuditUsageError, Fixed, Topics
from chaos.cluster import topics as asked_of_topics
from chaos.common.errors import InconclusiveError
from chaos.judging import landing
from tests.planted.log import land
from verifiers.base import Bounds, Verdict
from verifiers.findings import EXAMPLES
from verifiers.single_scan.groups import Limits

SOURCE = [(id_ % 3, id_ // 3, str(id_), str(id_)) for id_ in range(60)]
SINK = [(id_ % 3, id_ // 3 + id_ // 30, str(id_), str(id_ * id_)) for id_ in range(60)]
LIMITS = Limits(block_bits=2, least_run=0)
COLUMNS = "partition int, offset long, key string, value string"
VALID = dict.fromkeys(("duplicates", "gaps", "ordering", "values"), (Verdict.VALID, 0, ""))


def squared(value):
    """The model of these logs."""
    number = value.cast("decimal(38, 0)")
    return (number * number).cast("string")


@pytest.fixture
def audited(spark, tmp_path):
    """Land two logs, and audit them; the findings by verifier."""

    def ask(source, sink, model=squared, identity=dense_keys.dense, columns=COLUMNS, limits=LIMITS):
        folder = Path(mkdtemp(dir=tmp_path))  # Spark may have kept what was at a place before
        land(folder / "source", source, COLUMNS)
        land(folder / "sink", sink, columns)
        logs = audit_logs.landed(spark, str(folder))
        findings = judge(logs, identity(logs, model), limits)
        assert logs.records == len(source) + len(sink) or "isolation" in columns
        return {finding.verifier: finding for finding in findings}

    return ask


def counts(findings):
    """By verifier."""
    return {name: finding.count for name, finding in findings.items()}


def by(rows, name):
    """These logs with keys that are not numbers."""
    return [(partition, offset, f"{name}{key}", value) for partition, offset, key, value in rows]


def test_a_clean_sink(audited):
    """All is as it must be, and nothing is left out."""
    found = audited(SOURCE, SINK)

    assert {(finding.verdict, finding.count, finding.checked) for finding in found.values()} == {(Verdict.VALID, 0, 60)}
    assert list(found) == ["duplicates", "gaps", "ordering", "values"]


@pytest.mark.parametrize(("identity", "name"), [(dense_keys.dense, ""), (prepared.by_key, "user-")])
def test_every_anomaly_by_either_identity(audited, identity, name):
    """Lost, double, late, wrong and phantom; what is missing is lost, because no group is named."""
    sink = [row for row in SINK if row[2] != "9"]
    sink = [(*row[:3], "x") if row[2] == "16" else row for row in sink]
    sink += [(0, 40, "12", "144"), (1, 41, "99991", "9998200081")]

    found = audited(by(SOURCE, name), by(sink, name), identity=identity)

    assert counts(found) == {"duplicates": 1, "gaps": 1, "ordering": 1, "values": 2}
    number = (lambda text: text) if name else int
    assert [one.id for one in found["gaps"].examples] == [number(f"{name}9")]
    assert [(one.id, one.offset) for one in found["duplicates"].examples] == [(number(f"{name}12"), 40)]
    assert [(one.anomaly, one.id) for one in found["values"].examples] == [
        ("wrong value", number(f"{name}16")),
        ("phantom", number(f"{name}99991")),
    ]
    assert found["ordering"].examples[0].words.endswith(f"{'key ' if name else 'id '}{name}57 precedes it in this partition")


def test_the_order_of_any_keys_is_that_of_the_source(audited):
    """Not that of their names; and keys that the source does not have do not disorder any others."""
    sink = [*by(SINK, "k"), (0, 5, "stray", "1"), (0, 6, "alone", "1")]
    rows = [
        (partition, 2 * offset if key.startswith("k") else 2 * offset + 1, key, value) for partition, offset, key, value in sink
    ]

    found = audited(by(SOURCE, "k"), rows, identity=prepared.by_key)

    assert counts(found) == {"duplicates": 0, "gaps": 0, "ordering": 0, "values": 2}
    assert {one.id for one in found["values"].examples} == {"stray", "alone"}


@pytest.mark.parametrize("limits", [LIMITS, replace(LIMITS, most_groups=1)])
@pytest.mark.parametrize(("identity", "key"), [(dense_keys.dense, "0x1"), (prepared.by_key, None)], ids=["no number", "no key"])
def test_records_that_nothing_identifies(audited, identity, key, limits, snapshot):
    """However many groups there are: nothing is judged by them; it is told where the first is, and what to do."""
    with pytest.raises(InconclusiveError) as error:
        audited([*SOURCE, (0, 99, key, "1"), (1, 99, key, "1")], SINK, identity=identity, limits=limits)

    assert f"partition 0 offset 99: {key!r}; " in str(error.value)
    assert str(error.value) == snapshot


@pytest.mark.parametrize("name", ["source", "sink"])
def test_a_log_that_was_landed_twice(audited, name):
    """A log has one record at an offset."""
    logs = {"source": SOURCE, "sink": SINK}
    logs[name] = logs[name] * 2

    with pytest.raises(
        AuditUsageError, match=rf"^{name}: partition 0 has 40 records at 2[01] offsets: it was landed more than"
    ):
        audited(**logs)


def test_an_open_transaction_in_the_source(spark, tmp_path):
    """Its hidden records may be demanded, too; visible rows are judged."""
    land(tmp_path / "source", SOURCE, COLUMNS)
    land(tmp_path / "sink", SINK, COLUMNS)
    logs = audit_logs.landed(spark, str(tmp_path))
    source = {**logs.fixed.source, 1: Bounds(0, 20, 25)}
    logs = replace(logs, fixed=replace(logs.fixed, source=source, positions={0: 20, 1: 20, 2: 20}))

    findings = judge(logs, dense_keys.dense(logs, squared), LIMITS)

    note = "in the source, an open transaction hides the end of partition 1 (read to offset 20 of 25)"
    doubted = dict.fromkeys(("gaps", "values", "offsets"), (Verdict.UNKNOWN, note))
    assert {one.verifier: (one.verdict, str(one.note)) for one in findings} == doubted | dict.fromkeys(
        ("duplicates", "ordering"), (Verdict.VALID, "")
    )


@pytest.fixture
def limited(spark, tmp_path):
    """Land two logs, change what is known of them, and audit them: verdict, count and note of every verifier."""

    def ask(source_rows=SOURCE, sink_rows=SINK, **known):
        land(tmp_path / "source", source_rows, COLUMNS)
        land(tmp_path / "sink", sink_rows, COLUMNS)
        logs = audit_logs.landed(spark, str(tmp_path))
        logs = replace(logs, fixed=replace(logs.fixed, **known))
        findings = judge(logs, dense_keys.dense(logs, squared), LIMITS)
        return {one.verifier: (one.verdict, one.count, str(one.note)) for one in findings}

    return ask


def whole(**low):
    """Ends of three partitions; one given as ``p1=5`` begins at 5."""
    return {number: Bounds(low.get(f"p{number}", 0), 30, 30) for number in range(3)}


def since(rows, partition, low):
    """Without what expired."""
    return [row for row in rows if row[0] != partition or row[1] >= low]


def test_a_source_whose_begin_has_expired(limited, snapshot):
    """Rows that may match an expired record are not compared; a wrong value still counts. Whole sources excuse nothing."""
    source, ends = since(SOURCE, 1, 5), whole(p1=5)

    found = limited(source, source=ends)

    _, _, note = found["values"]
    assert note == snapshot
    assert found == VALID | dict.fromkeys(("duplicates", "values"), (Verdict.UNKNOWN, 0, note))
    wrong = [(*row[:3], "x") if row[2] == "30" else row for row in SINK]
    assert limited(source, wrong, source=ends)["values"] == (Verdict.INVALID, 1, note)
    assert limited(source, source=whole())["values"] == (Verdict.INVALID, 5, "")


def test_a_sink_whose_begin_has_expired(limited, snapshot):
    """Rows before it may be neither lost nor behind; rows ahead of the position still count."""
    ends, done = whole(p0=4, p2=1), {0: 20, 1: 20, 2: 20}
    sink = since(since(SINK, 0, 4), 2, 1)

    found = limited(sink_rows=sink, sink=ends, positions=done)
    ahead = limited(sink_rows=sink, sink=ends, positions=done | {1: 19})
    certain = limited(sink_rows=sink, sink=whole(), positions=done)

    _, _, note = found["gaps"]
    assert note == snapshot
    assert found == VALID | {"gaps": (Verdict.UNKNOWN, 0, note), "offsets": (Verdict.VALID, 0, "")}
    assert (ahead["gaps"], ahead["offsets"]) == (found["gaps"], (Verdict.INVALID, 1, ""))
    where = "lost: source partition 0 has 4 at offsets 0 to 3, source partition 2 has 1 at offset 0"
    assert (certain["gaps"], certain["offsets"]) == ((Verdict.INVALID, 5, where), (Verdict.INVALID, 5, ""))


def test_logs_that_begin_above_0_and_agree(limited):
    """Nothing is called wrong, so no limitation matters."""
    found = limited(since(SOURCE, 1, 5), since(SINK, 1, 5), source=whole(p1=5), sink=whole(p1=5))

    assert found == VALID


def test_positions_that_moved_while_the_ends_were_asked_for(limited, snapshot):
    """Positions committed meanwhile are ahead of the first ones; positions behind them still count."""
    first = {0: 20, 1: 18, 2: 20}

    found = limited(positions=first, moved=True)

    _, _, note = found["offsets"]
    assert note == snapshot
    assert found == VALID | {"offsets": (Verdict.UNKNOWN, 2, note)}
    lost = [row for row in SINK if row[2] != "9"]
    assert limited(sink_rows=lost, positions=first, moved=True)["offsets"] == (Verdict.INVALID, 3, note)
    assert limited(positions=first)["offsets"] == (Verdict.INVALID, 2, "")
    assert limited(positions=dict.fromkeys(range(3), 20), moved=True) == VALID | {"offsets": (Verdict.VALID, 0, "")}


class AtWork:
    """A cluster where a transaction of one record is committed before each answer.

    Args:
        errors: what it answers for the position in each partition; None for the position.
        policies: of both topics; an error in place of one that may not be read.
    """

    topics: ClassVar = {"in": [0, 1], "out": [0, 1], "small": [0]}

    def __init__(self, *errors, policies=("delete", "delete")):
        self.commits = 0
        self.policies = dict(zip(("in", "out"), policies, strict=True)) | {"small": "delete"}
        self.errors = dict(enumerate(errors))

    def list_topics(self, **_options):
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=numbers) for name, numbers in self.topics.items()})

    def listed(self, _admin, _topic, partitions, *_options):
        self.commits += 1
        return dict.fromkeys(partitions, self.commits)

    def describe_configs(self, resources, **_options):
        future = Future()
        policy = self.policies[resources[0].name]
        if isinstance(policy, KafkaError):
            future.set_exception(KafkaException(policy))
        else:
            future.set_result({"cleanup.policy": SimpleNamespace(value=policy)})
        return {resources[0]: future}

    def committed(self, asked, **_options):
        self.commits += 1
        errors = ((one.partition, self.errors.get(one.partition)) for one in asked)
        return [SimpleNamespace(partition=n, offset=self.commits if e is None else -1001, error=e) for n, e in errors]

    def close(self):
        """As a consumer does."""


@pytest.fixture
def fix(monkeypatch):
    """Fix what such a cluster says."""

    def ask(cluster, group="it", sources=("in",), sinks=("out",)):
        monkeypatch.setattr(asked_of_topics, "list_offsets", cluster.listed)
        monkeypatch.setattr(
            audit_logs, "topic_ids", lambda _admin, topics, _within_s: {topic: f"of {topic}" for topic in topics}
        )
        for client in ("AdminClient", "Consumer"):
            monkeypatch.setattr(audit_logs, client, lambda _settings: cluster)
        return audit_logs.fix(Topics("somewhere", sources, sinks, group))

    return ask


def test_a_pipeline_at_work(fix):
    """Its positions are below the sink's end, the sink's rows below the source's end; its progress is known."""
    fixed = fix(AtWork())

    for number in (0, 1):
        assert fixed.positions[number] < fixed.sink[number].lso < fixed.source[number].lso
    assert (fixed.moved, fix(AtWork(), group="").positions, fix(AtWork(), group="").moved) == (True, None, False)
    assert fixed.ids == {"in": "of in", "out": "of out"}


def test_a_position_that_cannot_be_told(fix):
    """It is not that of a group which never committed there: that stands at the begin, and all of its rows would be ahead."""
    with pytest.raises(InconclusiveError, match=r"somewhere does not answer .*not the coordinator for this group"):
        fix(AtWork(None, KafkaError(KafkaError.NOT_COORDINATOR, "not the coordinator for this group")))


def test_partitions_of_several_topics_are_numbered_through(fix):
    """Those that belong together have the same number; names are told where there are several topics on a side."""
    fixed = fix(AtWork(), sources=("small", "in"), sinks=("out", "small"))

    assert fixed.numbers == {"source": {"small": {0: 0}, "in": {0: 2, 1: 3}}, "sink": {"out": {0: 0, 1: 1}, "small": {0: 2}}}
    assert [sorted(ends) for ends in (fixed.source, fixed.sink, fixed.positions)] == [[0, 2, 3], [0, 1, 2], [0, 2, 3]]
    assert (fixed.place("source", 3), fixed.place("sink", 3)) == (("in", 1), None)
    assert fix(AtWork()).place("source", 1) is None
    assert fix(AtWork(), sinks=("small",), sources=("in", "out")).place("sink", 0) == ("small", 0)


def test_topics_that_are_compacted(fix, snapshot):
    """One whose policy may not be read may be; a broker that does not tell it otherwise is one that does not answer."""
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")

    assert fix(AtWork()).compacted == {}
    assert fix(AtWork(policies=("compact", "delete"))).compacted == {"source": "is compacted"}
    in_doubt = fix(AtWork(policies=(denied, "compact,delete"))).compacted
    assert in_doubt == {"source": snapshot, "sink": "is compacted"}
    with pytest.raises(InconclusiveError, match=r"does not answer .*timed out"):
        fix(AtWork(policies=("delete", KafkaError(KafkaError.REQUEST_TIMED_OUT, "timed out"))))


@pytest.mark.parametrize(("side", "grown"), [("source", False), ("sink", True)])
def test_a_sink_that_grows_while_it_is_read(fix, monkeypatch, side, grown):
    """It matters where it is compacted: later rows remove those before them."""
    monkeypatch.setattr(audit_logs.landing, "exists", lambda *_: False)
    monkeypatch.setattr(audit_logs.landing, "land_together", lambda *_: None)
    cluster = AtWork(policies=("compact" if side == "source" else "delete", "compact" if side == "sink" else "delete"))
    fixed = fix(cluster)

    assert audit_logs.land(None, Topics("somewhere", ("in",), ("out",)), fixed, "folder") == replace(fixed, grown=grown)


def test_what_was_fixed_is_known_of_the_logs(spark, tmp_path):
    """Ends, positions, and that they moved."""
    land(tmp_path / "source", SOURCE, COLUMNS)
    land(tmp_path / "sink", SINK, COLUMNS)
    fixed = Fixed(whole(p1=5), whole(p0=4), {0: 20}, moved=True)

    logs = audit_logs.landed(spark, str(tmp_path), fixed)

    assert logs.fixed == fixed
    assert logs.records == logs.source.count() + logs.sink.count() == len(SOURCE) + len(SINK)


@pytest.mark.parametrize(("place", "local"), [("{}", True), ("file://{}", True), ("hdfs://127.0.0.1:1{}", False)])
def test_where_a_place_is(spark, tmp_path, place, local):
    """Landed rows are counted without Spark only on this machine."""
    assert landing.is_local(spark, place.format(tmp_path)) is local


def test_a_position_between_two_records_of_one_id(spark, tmp_path):
    """The first demands the row, so it is not written ahead of the position; what the second demands is still to come."""
    land(tmp_path / "source", [*SOURCE, (0, 20, "3", "3")], COLUMNS)
    land(tmp_path / "sink", SINK, COLUMNS)
    logs = audit_logs.landed(spark, str(tmp_path))
    logs = replace(logs, fixed=replace(logs.fixed, positions={0: 20, 1: 20, 2: 20}))

    findings = {one.verifier: one for one in judge(logs, dense_keys.dense(logs, squared), LIMITS)}

    assert {name: (one.verdict, one.count) for name, one in findings.items()} == dict.fromkeys(
        ("duplicates", "ordering", "values", "offsets"), (Verdict.VALID, 0)
    ) | {"gaps": (Verdict.UNKNOWN, 0)}
    assert findings["gaps"].counts["pending"] == 1


def test_no_records_at_all(audited):
    """Nothing was compared: UNKNOWN, not VALID."""
    assert {finding.verdict for finding in audited([], []).values()} == {Verdict.UNKNOWN}


def test_a_view_of_what_is_not_committed(audited):
    """Marked rows are not judged as output; a committed row that is not among them is a split view."""
    rows = [(*row, "read_committed") for row in SINK] + [(*row, "read_uncommitted") for row in SINK[:-1]]
    rows.append((0, 70, "3", "9", "read_uncommitted"))

    found = audited(SOURCE, rows, columns=f"{COLUMNS}, isolation string")

    assert counts(found) == {"duplicates": 0, "gaps": 0, "ordering": 0, "values": 0, "atomicity": 1}
    assert dict(found["atomicity"].counts) == {"split view": 1, "aborted": 1}


@pytest.mark.parametrize(("identity", "name"), [(dense_keys.dense, ""), (prepared.by_key, "user-")])
def test_views_that_differ(audited, identity, name, snapshot):
    """By either identity it is the key of the log that is compared and told, in the order of the log."""
    committed = by(SINK, name)
    uncommitted = [row for row in committed if row[2] not in {f"{name}5", f"{name}9"}]
    uncommitted += [(2, 1, f"{name}5", "x"), (0, 70, f"{name}3", "9")]
    rows = [(*row, "read_committed") for row in committed] + [(*row, "read_uncommitted") for row in uncommitted]

    found = audited(by(SOURCE, name), rows, identity=identity, columns=f"{COLUMNS}, isolation string")["atomicity"]

    assert (dict(found.counts), found.checked) == ({"split view": 2, "aborted": 1}, 61)
    assert [(one.anomaly, one.partition, one.offset, one.id) for one in found.examples] == [
        ("split view", 0, 3, None),
        ("split view", 2, 1, None),
    ]
    assert [one.words for one in found.examples] == snapshot


def test_many_rows_that_the_uncommitted_view_lacks(audited):
    """Only the first are shown."""
    rows = [*((*row, "read_committed") for row in reversed(SINK)), (0, 70, "3", "9", "read_uncommitted")]

    found = audited(SOURCE, rows, columns=f"{COLUMNS}, isolation string")["atomicity"]

    assert found.count == 60
    assert [(one.partition, one.offset) for one in found.examples] == sorted(row[:2] for row in SINK)[:EXAMPLES]


def test_a_model_of_ones_own(audited, tmp_path, monkeypatch):
    """A function from a column to a column, in a module of the working directory."""
    (tmp_path / "doubling.py").write_text("def doubled(value):\n    return value.cast('int') * 2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    found = audited(SOURCE, [(*row[:3], str(2 * int(row[2]))) for row in SINK], model=audit_identity.model("doubling:doubled"))

    assert counts(found) == dict.fromkeys(found, 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("partition int, offset long, key string, worth string", "needs the columns value string (found: none)"),
        ("partition int, offset int, key string, value string", "needs the columns offset bigint (found: int)"),
    ],
)
def test_other_columns(audited, columns, message):
    """It is said which, and what they are."""
    with pytest.raises(AuditUsageError) as error:
        audited(SOURCE, SINK, columns=columns)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("row", "place"), [((None, 7, "d", "4"), "null and offset 7"), ((2, None, "d", "4"), "2 and offset null")]
)
@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_row_without_a_place(audited, side, row, place):
    """It is said which log has it, and its key."""
    logs = {"source": SOURCE, "sink": SINK}
    logs[side] = [*logs[side], row]

    with pytest.raises(AuditUsageError, match=rf"/{side}: a row with key 'd' has partition {place}: each row needs both; "):
        audited(**logs)


def test_no_such_folder(spark, tmp_path, snapshot):
    """Named as it was looked for."""
    with pytest.raises(AuditUsageError, match=r"nowhere/source .*\(PATH_NOT_FOUND\)") as caught:
        audit_logs.landed(spark, str(tmp_path / "nowhere"))
    assert str(caught.value).replace(str(tmp_path), "<folder>") == snapshot
