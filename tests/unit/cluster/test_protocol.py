"""Requests, answers and record batches byte by byte, as Kafka's protocol guide and its message format 2 lay them out."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from chaos.cluster import protocol
from chaos.cluster.protocol import Batch, parse_batches
from tests.unit.wording import keep, raised

LONG = "datasink-" + "x" * 200


@contextmanager
def broker(answer):
    """A broker that gives one answer; yields its address and a future of the request, both without their sizes."""

    def serve():
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            request = stream.read(struct.unpack(">i", stream.read(4))[0])
            connection.sendall(struct.pack(">i", len(answer)) + answer)
            return request

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(5)
        yield server.getsockname(), pool.submit(serve)


def header(api, version, *, flexible=False):
    """The header of a request: correlation 7, client id ``chaos``; a flexible one ends with its tags."""
    return struct.pack(">hhih", api, version, 7, 5) + b"chaos" + b"\x00" * flexible


def compact(text):
    """A text of KIP-482: its length plus one as an unsigned varint, then its bytes."""
    size = len(text) + 1
    return (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + text.encode()


def elections(whole, *results):
    """An answer to ElectLeaders v1: throttle time, error, topics[name, partitions[index, error, message]]."""
    partitions = b"".join(struct.pack(">ihh", 2, code, -1) for code in results)
    topic = struct.pack(">h", 4) + b"sink" + struct.pack(">i", len(results)) + partitions
    return struct.pack(">iihi", 7, 0, whole, bool(results)) + topic * bool(results)


def reassignments(topic, code, whole=0, message=b"\x00"):
    """An answer to AlterPartitionReassignments v0: throttle time, error, message, topics[name, partitions[index, error, …]]."""
    partitions = b"\x02" + struct.pack(">ih", 2, code) + b"\x00\x00"
    topics = b"\x02" + compact(topic) + partitions + b"\x00"
    return struct.pack(">i", 7) + b"\x00" + struct.pack(">ih", 0, whole) + message + topics + b"\x00"


def quorum(whole=0, code=0, leader=3):
    """An answer to DescribeQuorum v0: error, topics[name, partitions[index, error, leader, epoch, high watermark, …]]."""
    partition = struct.pack(">ihiiq", 0, code, leader, 1, 122) + b"\x01\x01\x00"
    topics = b"\x02" + compact("__cluster_metadata") + b"\x02" + partition + b"\x00"
    return struct.pack(">i", 7) + b"\x00" + struct.pack(">h", whole) + topics + b"\x00"


@pytest.mark.parametrize(("unclean", "kind"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("topic", ["sink", LONG])
def test_an_election_is_asked_for(topic, unclean, kind):
    """KIP-460, v1: election type, topics[name, partitions], time limit."""
    with broker(elections(0, 0)) as (address, request):
        assert protocol.elect_leader(address, topic, 2, unclean=unclean) == ""

    name = struct.pack(">h", len(topic)) + topic.encode()
    assert request.result() == header(43, 1) + struct.pack(">bi", kind, 1) + name + struct.pack(">iii", 1, 2, 10_000)


@pytest.mark.parametrize(
    ("whole", "of_partition", "said"),
    [
        (0, 84, "ELECTION_NOT_NEEDED (84): Leader election not needed for topic partition."),
        (41, 0, "NOT_CONTROLLER (41): This is not the correct controller for this cluster."),
        (0, 9999, "UNKNOWN (9999): "),
    ],
)
def test_the_error_of_an_election(whole, of_partition, said):
    """The error of the request or the partition has name and number; that of a newer broker has its number only."""
    with broker(elections(whole, of_partition)) as (address, _):
        assert protocol.elect_leader(address, "sink", 2, unclean=False).startswith(said)


def test_an_election_without_results_was_not_refused():
    """An answer may be empty when there was nothing to do."""
    with broker(elections(0)) as (address, _):
        assert protocol.elect_leader(address, "sink", 2, unclean=False) == ""


@pytest.mark.parametrize("topic", ["a", "x" * 126, "x" * 127, LONG])
def test_a_reassignment_is_asked_for(topic):
    """KIP-455, v0. Names of topics may be longer than one byte can say: runs name them after their folders."""
    with broker(reassignments(topic, 0)) as (address, request):
        assert protocol.reassign(address, topic, 2, [3, 1]) == ""

    wanted = struct.pack(">i", 2) + b"\x03" + struct.pack(">ii", 3, 1) + b"\x00"
    body = struct.pack(">i", 10_000) + b"\x02" + compact(topic) + b"\x02" + wanted + b"\x00" + b"\x00"
    assert request.result() == header(45, 0, flexible=True) + body


@pytest.mark.parametrize("topic", ["a", LONG])
def test_the_error_of_a_reassigned_partition_is_found_behind_the_name(topic):
    """The broker's own message is missing here, so the description of the error is given."""
    with broker(reassignments(topic, 39)) as (address, _):
        assert protocol.reassign(address, topic, 2, [9]).startswith("INVALID_REPLICATION_ASSIGNMENT (39): ")


def test_an_error_of_the_whole_request_comes_first():
    """With the message of the broker."""
    with broker(reassignments("a", 39, whole=31, message=b"\x03no")) as (address, _):
        assert protocol.reassign(address, "a", 2, [1]) == "CLUSTER_AUTHORIZATION_FAILED (31): no"


def test_the_quorum_says_who_leads_it():
    """KIP-595, v0."""
    with broker(quorum()) as (address, request):
        assert protocol.quorum_leader(address) == 3

    topic = compact("__cluster_metadata") + b"\x02" + struct.pack(">i", 0) + b"\x00\x00"
    assert request.result() == header(55, 0, flexible=True) + b"\x02" + topic + b"\x00"


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (quorum(whole=31), "CLUSTER_AUTHORIZATION_FAILED (31)"),
        (quorum(code=6), "(error 6)"),
        (quorum(leader=-1), "no leader"),
        (quorum()[:20], "DescribeQuorumRequest"),
    ],
    ids=["not allowed", "an error", "no leader", "cut off"],
)
def test_a_quorum_without_leader_is_no_answer(answer, name):
    """The next broker is asked then."""
    with broker(answer) as (address, _), pytest.raises(ConnectionError) as caught:
        protocol.quorum_leader(address)

    assert name in str(caught.value)
    keep(str(caught.value).partition(": ")[0])  # what comes after it are words of the client


def test_a_ping_is_answered_or_not():
    """Whatever the answer says; a port that is closed refuses."""
    with broker(b"\x00\x00\x00\x07\x00\x00") as (address, request):
        assert protocol.answers(address)
    assert request.result() == header(18, 0)

    assert not protocol.answers(address)
    assert protocol.refused(address)


def batch(first, records, producer=-1, epoch=-1, attributes=0, body=b"", magic=2, timestamp_ms=0):
    """Its bytes; what no reader of headers looks at is zero."""
    tail = struct.pack(">hiqqqhii", attributes, records - 1, 0, timestamp_ms, producer, epoch, 0, records) + body
    return struct.pack(">qiibI", first, 9 + len(tail), 0, magic, 0) + tail


def marker(kind, timestamp_delta=b"\x00"):
    """A control record: length, attributes, timestamp delta, offset delta, length of the key (zigzag), key, value, headers."""
    rest = b"\x00" + timestamp_delta + b"\x00\x08" + struct.pack(">hh", 0, kind) + b"\x0c" + bytes(6) + b"\x00"
    return bytes([2 * len(rest)]) + rest


def test_who_wrote_what():
    """Rows in no transaction, rows in one, and both kinds of marker."""
    rows = batch(5, 3) + batch(8, 2, 7, 4, 0x10)
    data = rows + batch(10, 1, 7, 4, 0x30, marker(1), timestamp_ms=70) + batch(11, 1, 8, 0, 0x30, marker(0))

    assert list(parse_batches(2, data)) == [
        Batch(2, 5, 7, -1, -1, transactional=False, control=None, timestamp_ms=0),
        Batch(2, 8, 9, 7, 4, transactional=True, control=None, timestamp_ms=0),
        Batch(2, 10, 10, 7, 4, transactional=True, control="COMMIT", timestamp_ms=70),
        Batch(2, 11, 11, 8, 0, transactional=True, control="ABORT", timestamp_ms=0),
    ]


def test_a_number_of_several_bytes_before_the_key():
    """Varints have no fixed length."""
    data = batch(0, 1, 7, 0, 0x30, marker(1, timestamp_delta=b"\x80\x81\x01"))

    assert [one.control for one in parse_batches(0, data)] == ["COMMIT"]


@pytest.mark.parametrize("missing", [1, 40, 75])
def test_a_batch_that_was_cut_off_is_left_out(missing):
    """A Fetch ends where its limit falls; the next one begins there again."""
    data = batch(0, 1) + batch(1, 1, body=bytes(20))

    assert [one.first_offset for one in parse_batches(0, data[:-missing])] == [0]


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_is_refused(magic):
    """It has another header, and no transactions."""
    with raised(ValueError, "offset 3", f"format {magic}"):
        list(parse_batches(0, batch(3, 1, magic=magic)))


def test_an_unknown_marker_is_refused():
    """The transaction that it would end is not known."""
    with raised(ValueError, "type 5"):
        list(parse_batches(0, batch(0, 1, 7, 0, 0x30, marker(5))))
