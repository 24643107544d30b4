"""Groups of KIP-848, byte by byte: ConsumerGroupDescribe as Kafka's schema has it."""

import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socket import create_server

import pytest
from confluent_kafka import KafkaException

from chaos.cluster.members import Member, Members, of_consumer_protocol

API, VERSIONS, NOT_FOUND, LOADING = 69, 18, 69, 14
TOPIC_ID = bytes(range(16))


def compact(text):
    """A text of KIP-482."""
    return bytes([len(text) + 1]) + text.encode()


def versions(*known):
    """An answer to ApiVersions v0: error, keys[api, lowest, highest]."""
    return struct.pack(">ihi", 7, 0, len(known)) + b"".join(struct.pack(">hhh", api, 0, 1) for api in known)


def member(name, instance, topics):
    """Ids, rack, epoch, client id, host, names[], regex, assignment, target assignment, tags."""
    places = bytes([len(topics) + 1])
    places += b"".join(TOPIC_ID + compact(topic) + b"\x02" + struct.pack(">i", 0) + b"\x00" for topic in topics) + b"\x00"
    ids = compact(name) + (compact(instance) if instance else b"\x00") + b"\x00"
    return (
        ids + struct.pack(">i", 3) + compact("c") + compact("/h") + b"\x02" + compact("orders") + b"\x00" + 2 * places + b"\x00"
    )


def described(state, *members, code=0):
    """An answer to ConsumerGroupDescribe v0: throttle time, groups[error, message, id, state, epochs, assignor, …]."""
    group = struct.pack(">h", code) + b"\x00" + compact("g") + compact(state) + struct.pack(">ii", 5, 5) + compact("uniform")
    group += bytes([len(members) + 1]) + b"".join(members) + struct.pack(">i", -(2**31)) + b"\x00"
    return struct.pack(">i", 7) + b"\x00" + struct.pack(">i", 0) + b"\x02" + group + b"\x00"


@contextmanager
def coordinator(*answers):
    """It gives these answers on one connection, and closes it; yields its address and a future of the requests."""

    def serve():
        connection, _ = server.accept()
        asked = []
        with connection, connection.makefile("rb") as stream:
            for answer in answers:
                asked.append(stream.read(struct.unpack(">i", stream.read(4))[0]))
                connection.sendall(struct.pack(">i", len(answer)) + answer)
        return asked

    with create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(5)
        yield server.getsockname(), pool.submit(serve)


@pytest.mark.parametrize(("state", "stable"), [("Stable", True), ("Reconciling", False)])
def test_members_are_told_with_their_topics(state, stable):
    """One of them is static."""
    answer = described(state, member("m-1", None, ["orders", "other"]), member("m-2", "two", []))
    with coordinator(versions(VERSIONS, API), answer) as (address, asked):
        found = of_consumer_protocol(address, {}, "g", 5)

    assert found == Members(
        stable, (Member("m-1", None, "c", frozenset({"orders", "other"})), Member("m-2", "two", "c", frozenset()))
    )
    request = struct.pack(">hhih", API, 0, 7, 5) + b"chaos" + b"\x00" + b"\x02" + compact("g") + b"\x00" + b"\x00"
    assert asked.result()[1] == request


def test_a_broker_that_has_no_such_groups_is_not_asked_for_them():
    """Before 3.7 it would close the connection."""
    with coordinator(versions(VERSIONS)) as (address, _):
        assert of_consumer_protocol(address, {}, "g", 5) == Members()


def test_a_group_that_does_not_exist_has_no_members():
    with coordinator(versions(API), described("", code=NOT_FOUND)) as (address, _):
        assert of_consumer_protocol(address, {}, "g", 5) == Members()


@pytest.mark.parametrize("answers", [(), (versions(API),), (versions(API), described("", code=LOADING))])
def test_a_coordinator_that_does_not_answer_is_an_error(answers):
    """Whatever it does: it closes the connection at once or later, or it is loading its groups."""
    with coordinator(*answers) as (address, _), pytest.raises(KafkaException):
        of_consumer_protocol(address, {}, "g", 5)
