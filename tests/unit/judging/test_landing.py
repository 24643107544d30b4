"""How topics are read for either judge, and which views are landed; a fake of Spark's reader notes its options."""

from threading import Event
from types import SimpleNamespace
from typing import get_args

import pytest

from chaos.audit import logs
from chaos.audit.logs import Topics
from chaos.cluster import protocol
from chaos.judging import landing
from chaos.scenario.verifiers import VerifierName
from verifiers.base import Bounds

ENDS = {0: Bounds(1, 5, 9), 1: Bounds(0, 4, 4)}


class Reader:
    """Takes what a `DataFrameReader` takes."""

    def __init__(self):
        self.said = {}
        self.columns = ()

    def format(self, _name):
        return self

    def option(self, name, value):
        self.said[name] = value
        return self

    def options(self, **given):
        self.said |= given
        return self

    def load(self):
        return self

    def selectExpr(self, *columns):  # noqa: N802 - Spark's name
        self.columns = columns
        return self


@pytest.fixture
def spark():
    return SimpleNamespace(read=Reader())


@pytest.mark.parametrize(
    ("isolation", "ends"),
    [("read_committed", '{"topic": {"0": 5, "1": 4}}'), ("read_uncommitted", '{"topic": {"0": 9, "1": 4}}')],
)
def test_a_topic_of_a_run_is_read_up_to_its_fixed_ends(spark, isolation, ends):
    """To the LSO or, of a reader of uncommitted rows, to the high watermark; with the client options of its cluster."""
    topic = landing.topic_of_run("host:1", "topic", isolation, {"security.protocol": "SSL"})

    found = landing.read(spark, topic, ENDS).said

    assert (found["startingOffsets"], found["endingOffsets"]) == ('{"topic": {"0": 1, "1": 0}}', ends)
    assert (found["kafka.isolation.level"], found["kafka.security.protocol"]) == (isolation, "SSL")
    assert (found["groupIdPrefix"], found["kafka.fetch.max.wait.ms"]) == ("topic-audit", "50")


@pytest.mark.parametrize(
    ("how", "asked"), [({}, "false"), ({"exact": True}, "false"), ({"exact": True, "headers": True}, "true")]
)
def test_headers_are_read_where_they_are_compared(how, asked):
    """A user's rows have headers, which are a part of the value."""
    topic = landing.topic_of_run("host:1", "topic", "read_committed", None, **how)
    reader = SimpleNamespace(read=Reader())

    assert landing.read(reader, topic, ENDS).said["includeHeaders"] == asked
    assert ("transform(headers" in topic.columns[1]) is (asked == "true")
    assert "transform" not in topic.columns[0]


@pytest.mark.parametrize("fails", [True, False])
def test_records_that_are_gone_end_the_read_unless_it_is_the_second(spark, fails):
    found = landing.read(spark, landing.topic_of_run("host:1", "topic", "read_committed", None), ENDS, fail_on_loss=fails).said

    assert found["failOnDataLoss"] == str(fails).lower()


def test_an_audit_reads_committed_rows_in_large_fetches(spark):
    """Under a group name of Spark's own choice: the topics are not ours."""
    found = logs.read(spark, Topics("host:1", ("in",), ("out",)), "in", ENDS).said

    assert found.items() >= landing.LARGE_FETCHES.items()
    assert (found["kafka.isolation.level"], found["includeHeaders"], "groupIdPrefix" in found) == (
        "read_committed",
        "false",
        False,
    )


def test_what_identifies_a_record_is_landed_as_the_key(spark):
    """Headers are read if it mentions them."""
    read = logs.read(spark, Topics("host:1", ("in",), ("out",), identity="upper(key)"), "in", ENDS)
    assert (read.said["includeHeaders"], read.columns[3]) == ("false", "CAST(upper(key) AS STRING) AS key")

    read = logs.read(spark, Topics("host:1", ("in",), ("out",), identity="headers[0].value"), "in", ENDS)
    assert (read.said["includeHeaders"], read.columns[3]) == ("true", "CAST(headers[0].value AS STRING) AS key")


def test_an_audit_logs_in_as_the_cluster_demands(spark):
    """In a group that it may use there."""
    topics = Topics("host:1", ("in",), ("out",), java={"security.protocol": "SSL"}, groups="chaos-alice-audit")

    found = logs.read(spark, topics, "in", ENDS).said

    assert (found["kafka.security.protocol"], found["groupIdPrefix"]) == ("SSL", "chaos-alice-audit")


@pytest.mark.parametrize(
    ("verify", "subject", "views"),
    [
        (("duplicates", "gaps", "ordering", "values", "offsets"), "sink", set()),
        (("atomicity",), "sink", {"uncommitted", "batches"}),
        (("gaps", "stability"), "source", {"again"}),
        (("ledger",), "source", {"ledger"}),
        (("ledger", "commits"), "source-customers", {"ledger", "commits"}),
        (("ledger",), "sink", set()),
        (("hanging",), "source", {"open_transactions"}),
        (("outcomes", "deliveries", "commits"), "sink", {"told"}),
        (
            get_args(VerifierName),
            "source",
            {"again", "batches", "commits", "deliveries", "ledger", "open_transactions", "told", "uncommitted"},
        ),
    ],
)
def test_only_what_a_verifier_needs_is_landed(verify, subject, views):
    """An ordinary scenario reads each topic once."""
    assert landing.needed(verify, subject) == views


@pytest.mark.parametrize(("ends", "asked"), [(ENDS, [[0]]), ({1: ENDS[1]}, [])])
def test_brokers_are_asked_of_partitions_that_were_not_read_to_their_ends(monkeypatch, ends, asked):
    """No broker is asked if nothing is open."""
    of = []
    monkeypatch.setattr(protocol, "open_transactions", lambda *place: of.append(place[2]) or ["row"])
    monkeypatch.setattr(landing.arrow, "made", lambda _spark, rows, _columns: rows)

    assert landing._open_transactions(None, "host:1", "topic", ends) == ["row"] * len(asked)
    assert of == asked


@pytest.fixture
def undone(monkeypatch):
    """The folders and jobs that `land_together` removes and cancels."""
    done = []
    monkeypatch.setattr(landing, "_remove", lambda _spark, places: done.extend(places))
    monkeypatch.setattr(landing, "_cancel", lambda _spark: done.append("cancelled"))
    return done


def test_logs_that_are_all_landed_stay(undone):
    landing.land_together(None, {"source": lambda _place: None, "sink": lambda _place: None})

    assert undone == []


def test_a_log_that_cannot_be_landed_ends_the_other(undone, monkeypatch):
    """Its own error is the one that is raised, and both folders are removed."""
    cancelled = Event()
    monkeypatch.setattr(landing, "_cancel", lambda _spark: cancelled.set())

    def fails(_place):
        raise ValueError("the reason")

    def is_cancelled(_place):
        assert cancelled.wait(300)
        raise ValueError("cancelled")

    with pytest.raises(ValueError, match="the reason"):
        landing.land_together(None, {"source": is_cancelled, "sink": fails})

    assert undone == ["source", "sink"]


def test_what_is_removed_stays_away(monkeypatch):
    """A task that ends late makes its folder again."""
    seen, removed = [True, False, True, False], []
    files = SimpleNamespace(
        exists=lambda _path: seen.pop(0) if seen else False, delete=lambda path, _recursive: removed.append(path)
    )
    monkeypatch.setattr(landing, "_hadoop", lambda _spark, place: (files, place))

    landing._remove(None, ["source"])

    assert removed == ["source"] * 2
