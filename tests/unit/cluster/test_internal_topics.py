"""The records of Kafka's internal topics, byte by byte as its schemas lay them out."""

import struct

import pytest

from chaos.cluster import internal_topics
from chaos.cluster.internal_topics import CommittedPosition, TransactionState


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def compact(value):
    return bytes([len(value) + 1]) + value.encode()


def key(version=1, group="billing"):
    """OffsetCommitKey."""
    return struct.pack(">h", version) + text(group) + text("orders") + struct.pack(">i", 2)


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (0, struct.pack(">q", 41) + text("x") + struct.pack(">q", 1_795_000_000_000)),
        (1, struct.pack(">q", 41) + text("") + struct.pack(">qq", 1_795_000_000_000, 1_795_086_400_000)),
        (3, struct.pack(">qi", 41, 7) + text("note") + struct.pack(">q", 1_795_000_000_000)),
        (4, struct.pack(">qi", 41, 7) + compact("note") + struct.pack(">q", 1_795_000_000_000) + b"\x01\x00\x10" + bytes(16)),
    ],
)
@pytest.mark.parametrize("of", [0, 1])
def test_a_position_of_any_version(of, version, value):
    found = internal_topics.position(key(of), struct.pack(">h", version) + value)

    assert found == CommittedPosition("billing", "orders", 2, 41, 1_795_000_000_000)


def test_a_position_that_was_removed_has_no_value():
    assert internal_topics.position(key(), None) == CommittedPosition("billing", "orders", 2, None, -1)


@pytest.mark.parametrize("version", [2, 3, 8, 14])
def test_records_of_groups_and_members_say_nothing_of_positions(version):
    assert internal_topics.position(struct.pack(">h", version) + text("billing"), b"\x00\x03whatever") is None


def state(version, status, partitions):
    """TransactionLogValue: version, producer id and epoch, timeout, status, partitions, updated, started."""
    head = struct.pack(">hqhib", version, 4000, 5, 60_000, status)
    return head + partitions + struct.pack(">qq", 1_795_000_000_900, 1_795_000_000_100)


STATES = [
    (0, struct.pack(">i", 2) + text("totals") + struct.pack(">iii", 2, 0, 2) + text("alarms") + struct.pack(">ii", 1, 1), b""),
    (
        1,
        b"\x03"
        + compact("totals")
        + b"\x03"
        + struct.pack(">ii", 0, 2)
        + b"\x00"
        + compact("alarms")
        + b"\x02"
        + struct.pack(">i", 1)
        + b"\x00",
        b"\x02\x00\x08" + struct.pack(">q", 3999) + b"\x02\x02\x00\x02",  # tags: previous producer id, version of the client
    ),
]


@pytest.mark.parametrize(("version", "partitions", "tags"), STATES)
def test_a_transaction_of_either_version(version, partitions, tags):
    name = struct.pack(">h", 0) + text("app-1")

    found = internal_topics.transaction(name, state(version, 2, partitions) + tags)

    named = (("alarms", 1), ("totals", 0), ("totals", 2))
    assert found == TransactionState("app-1", 4000, 5, "PrepareCommit", named, 1_795_000_000_100, 1_795_000_000_900)


@pytest.mark.parametrize(("version", "none"), [(0, struct.pack(">i", -1)), (1, b"\x00"), (1, b"\x01")])
def test_a_transaction_without_partitions(version, none):
    found = internal_topics.transaction(struct.pack(">h", 0) + text("app-1"), state(version, 0, none))

    assert found is not None
    assert (found.state, found.partitions) == ("Empty", ())


def test_a_transactional_id_that_was_forgotten():
    assert internal_topics.transaction(struct.pack(">h", 0) + text("app-1"), None) is None


def test_what_is_cut_off_or_not_known_is_refused():
    """A wrong reading would be judged as if it were right."""
    name = struct.pack(">h", 0) + text("app-1")

    with pytest.raises(ValueError, match=r"a record of 10 bytes ends in the middle of a field"):
        internal_topics.position(key(), bytes(10))
    with pytest.raises(ValueError, match=r"'app-1' is in state 9, which is not known"):
        internal_topics.transaction(name, state(0, 9, struct.pack(">i", 0)))
    with pytest.raises(ValueError, match=r"has version 4, which is not that of a transactional id"):
        internal_topics.transaction(struct.pack(">h", 4) + text("app-1"), None)
