"""Requests that are written by hand: lengths as KIP-482 wants them, and the errors of their answers."""

import struct

import pytest

from chaos.cluster.leadership import _count, _election_error, _reassignment_error, _text


@pytest.mark.parametrize(
    ("count", "encoded"), [(0, b"\x01"), (1, b"\x02"), (126, b"\x7f"), (127, b"\x80\x01"), (300, b"\xad\x02")]
)
def test_a_length_is_one_more_as_a_varint(count, encoded):
    """Names of topics may be longer than one byte can say: runs name them after their folders."""
    assert _count(count) == encoded


@pytest.mark.parametrize("topic", ["a", "datasink-" + "x" * 200])
@pytest.mark.parametrize("code", [0, 39])
def test_the_error_of_the_partition_is_found_behind_the_name(topic, code):
    """INVALID_REPLICA_ASSIGNMENT is 39."""
    partitions = b"\x02" + struct.pack(">ih", 2, code) + b"\x00\x00"
    answer = (
        struct.pack(">i", 7) + b"\x00" + struct.pack(">ih", 0, 0) + b"\x00" + b"\x02" + _text(topic) + partitions + b"\x00\x00"
    )

    assert _reassignment_error(answer, topic) == code


def test_an_error_of_the_whole_request_comes_first():
    """CLUSTER_AUTHORIZATION_FAILED is 31; then there is a message, and nothing else is looked at."""
    assert _reassignment_error(struct.pack(">i", 7) + b"\x00" + struct.pack(">ih", 0, 31) + b"\x03no\x01\x00", "a") == 31


@pytest.mark.parametrize(("whole", "of_partition", "said"), [(0, 0, 0), (0, 84, 84), (41, 0, 41)])
def test_the_error_of_an_election(whole, of_partition, said):
    """ELECTION_NOT_NEEDED is 84, NOT_CONTROLLER is 41."""
    topic = struct.pack(">h", 4) + b"sink" + struct.pack(">iihh", 1, 2, of_partition, -1)
    answer = struct.pack(">iihi", 7, 0, whole, 1) + topic

    assert _election_error(answer, 4) == said


def test_an_election_that_nothing_came_of_has_no_topics():
    """An answer may be empty when there was nothing to do."""
    assert _election_error(struct.pack(">iihi", 7, 0, 0, 0), 4) == 0
