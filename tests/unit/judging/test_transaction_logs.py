"""Batches as leaders send them: headers of all, records of the internal topics, whatever their compression."""

import struct
import warnings
from types import SimpleNamespace

import pytest

from chaos.cluster.internal_topics import TransactionState
from chaos.judging.transaction_logs import Heard, _named, _parsed, _Reader, heard
from verifiers.transactions.logs import OFFSETS, Batch, Forgotten, Produced, Start, Unfenced

with warnings.catch_warnings():  # of kafka-python, as in chaos/cluster/protocol.py
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder

LOG = ("totals", 2)
NOW_MS = 1_795_000_000_000


def batch(first, values, compression=0):
    """A batch of producer 7, epoch 3, in a transaction."""
    builder = DefaultRecordBatchBuilder(2, compression, True, 7, 3, 0, 1 << 20)  # noqa: FBT003 - it is transactional
    for number, value in enumerate(values):
        builder.append(number, NOW_MS + number, b"key", value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)  # as the broker gives it
    return bytes(data)


def read(data, low, high):
    """The batches, and the offsets and values of their records."""
    records = []
    found = list(_parsed(LOG, data, low, high, lambda of, one: records.append((of.base_offset, one.offset, bytes(one.value)))))
    return found, records


@pytest.mark.parametrize("compression", [0, 1], ids=["none", "gzip"])
def test_headers_and_records(compression):
    found, records = read(batch(5, [b"a", b"b"], compression) + batch(7, [b"c"], compression), 5, 8)

    assert found == [
        Batch(*LOG, 5, 6, 2, 7, 3, transactional=True, control=None, timestamp_ms=NOW_MS + 1),
        Batch(*LOG, 7, 7, 1, 7, 3, transactional=True, control=None, timestamp_ms=NOW_MS),
    ]
    assert records == [(5, 5, b"a"), (5, 6, b"b"), (7, 7, b"c")]


def test_a_marker_has_no_records_of_the_application():
    body = struct.pack(">hh", 0, 1)
    record = b"\x00\x00\x00\x08" + body + b"\x0c" + bytes(6) + b"\x00"
    tail = struct.pack(">hiqqqhii", 0x30, 0, NOW_MS, NOW_MS, 7, 3, -1, 1) + bytes([2 * len(record)]) + record
    found, records = read(struct.pack(">qiibI", 9, 9 + len(tail), 0, 2, 0) + tail, 9, 10)

    assert found == [Batch(*LOG, 9, 9, 1, 7, 3, transactional=True, control="COMMIT", timestamp_ms=NOW_MS)]
    assert records == []


def test_what_begins_outside_of_the_range_is_left_out():
    """A Fetch gives the whole batch in which its offset lies, and more than was asked for."""
    found, _ = read(batch(3, [b"a", b"b"]) + batch(5, [b"c"]) + batch(6, [b"d"]), 4, 6)

    assert [one.first_offset for one in found] == [5]


def test_all_partitions_of_a_topic_that_a_transaction_wrote_to_are_read():
    """Rows in no transaction may be anywhere in it; of the log of positions only what is named is read."""
    named = (("totals", 2), ("gone", 0), (OFFSETS, 3))
    states = [
        (0, 0, TransactionState("app", 7, 0, "Ongoing", named, 1, 2)),
        (0, 1, TransactionState("app", 8, 0, "Empty", (), 1, 2)),
    ]
    topics = {"totals": 3, OFFSETS: 50, "other": 1}
    metadata = SimpleNamespace(topics={name: SimpleNamespace(partitions=range(count)) for name, count in topics.items()})
    reader = _Reader(None, metadata, None, None, read_states=states)

    assert _named(reader, {8}) == {("totals", 0), ("totals", 1), ("totals", 2), (OFFSETS, 3)}


def test_what_proxies_have_seen_of_a_group():
    """Only this group and existing topics count, in milliseconds."""
    seen = {"group": "a", "topic": "orders", "topic_id": "", "partition": 1, "position": 7, "generation": 2, "client_id": "c"}
    times = {"asked_ns": 5_900_000, "answered_ns": 8_100_000}
    by_id = {"topic": "", "topic_id": f"{9:032x}"}
    starts = [
        seen | times,
        seen | times | by_id,
        seen | times | by_id | {"topic_id": f"{1:032x}"},
        seen | times | {"group": "b"},
    ]
    unfenced = [{"group": group, "producer_id": 1000, "sent_ns": 3_500_000} for group in "ab"]

    tables = heard(Heard(starts, unfenced, [("id", 5)], {"starts": 9_500_000}), "a", {f"{9:032x}": "returns"})

    expected = Start("a", "orders", 1, 7, 2, "c", 5, 8)
    assert tables["starts"].to_pylist() == [expected._asdict(), expected._replace(topic="returns")._asdict()]
    assert tables["unfenced"].to_pylist() == [Unfenced("a", 1000, 3)._asdict()]
    assert tables["produced"].to_pylist() == [Produced("id", 5)._asdict()]
    assert tables["forgotten"].to_pylist() == [Forgotten("starts", 9)._asdict()]
