"""The records of Kafka's internal topics; their bytes are those that Kafka's own classes make of them (4.3)."""

import struct

import pytest

from chaos.cluster import internal_topics
from chaos.cluster.internal_topics import CommittedPosition, TransactionState
from tests.unit.wording import raised

KEY = "0001000762696c6c696e6700066f726465727300000002"
POSITIONS = [
    "0000000000000000002900046e6f7465000001a1ee565e00",
    "0001000000000000002900046e6f7465000001a1ee565e00ffffffffffffffff",
    "0002000000000000002900046e6f7465000001a1ee565e00",
    "000300000000000000290000000700046e6f7465000001a1ee565e00",
    "0004000000000000002900000007056e6f7465000001a1ee565e0000",
]
"""Position 41 of partition 2 of orders, by the group billing, with metadata: versions 0 to 4."""
NAME = "000000056170702d31"
TRANSACTIONS = [
    (
        "00000000000000000fa000050000ea6002000000020006746f74616c730000000200000000000000020006616c61726d730000000100000001"
        "000001a1ee566184000001a1ee565e64"
    ),
    (
        "00010000000000000fa000050000ea60020307746f74616c730300000000000000020007616c61726d73020000000100"
        "000001a1ee566184000001a1ee565e640200080000000000000f9f02020002"
    ),
]
"""A transaction of app-1, versions 0 and 1; the second has a producer id of before, and the version of the client."""


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


@pytest.mark.parametrize("value", POSITIONS, ids=range(5))
@pytest.mark.parametrize("key", [KEY, KEY.replace("0001", "0000", 1)])
def test_a_position_of_any_version(key, value):
    found = internal_topics.position(bytes.fromhex(key), bytes.fromhex(value))

    assert found == CommittedPosition("billing", "orders", 2, 41, 1_795_000_000_000)


def test_a_position_that_was_removed_has_no_value():
    assert internal_topics.position(bytes.fromhex(KEY), None) == CommittedPosition("billing", "orders", 2, None, -1)


@pytest.mark.parametrize("version", [2, 3, 8, 14])
def test_records_of_groups_and_members_say_nothing_of_positions(version):
    assert internal_topics.position(struct.pack(">h", version) + text("billing"), b"\x00\x03whatever") is None


@pytest.mark.parametrize("value", TRANSACTIONS, ids=range(2))
def test_a_transaction_of_either_version(value):
    found = internal_topics.transaction(bytes.fromhex(NAME), bytes.fromhex(value))

    named = (("alarms", 1), ("totals", 0), ("totals", 2))
    assert found == TransactionState("app-1", 4000, 5, "PrepareCommit", named, 1_795_000_000_100, 1_795_000_000_900)


def state(version, status, partitions):
    """Version, producer id and epoch, timeout, status, partitions, updated, started."""
    head = struct.pack(">hqhib", version, 4000, 5, 60_000, status)
    return head + partitions + struct.pack(">qq", 1_795_000_000_900, 1_795_000_000_100)


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

    with raised(ValueError, "10 bytes"):
        internal_topics.position(bytes.fromhex(KEY), bytes(10))
    with raised(ValueError, "'app-1'", "state 9"):
        internal_topics.transaction(name, state(0, 9, struct.pack(">i", 0)))
    with raised(ValueError, "version 4"):
        internal_topics.transaction(struct.pack(">h", 4) + text("app-1"), None)
