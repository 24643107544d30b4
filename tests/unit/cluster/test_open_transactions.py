"""Which transactions are open, by what leaders and coordinators answer, byte by byte as Kafka's protocol guide lays it out."""

import socket
import struct
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.cluster import protocol
from chaos.cluster.protocol import OpenTransaction
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from tests.unit.cluster.test_protocol import compact, header

PRODUCERS, DESCRIBED, LISTED = 61, 65, 66  # numbers of the requests
ASKED_MS, LONGEST_MS = 1_795_000_000_000, 900_000
NOT_LEADER, LOADING, NOT_FOUND = 6, 14, 105


@contextmanager
def broker(answers, asked):
    """A broker that gives the answers of each request in turn, one on each connection, and notes what it was asked."""

    def serve():
        for _ in range(sum(map(len, answers.values()))):
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                request = stream.read(struct.unpack(">i", stream.read(4))[0])
                asked.append(request)
                answer = struct.pack(">i", 7) + b"\x00" + answers[struct.unpack(">h", request[:2])[0]].pop(0)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(5)
        served = pool.submit(serve)
        yield SimpleNamespace(host="127.0.0.1", port=server.getsockname()[1])
        served.result(10)


def producers(*rows, code=0):
    """DescribeProducers v0 of sink-2: producer id, epoch, last sequence, last timestamp, coordinator epoch, first offset."""
    active = b"".join(struct.pack(">qiiqiq", pid, epoch, 0, last_ms, 0, first) + b"\x00" for pid, epoch, last_ms, first in rows)
    partition = struct.pack(">ih", 2, code) + b"\x00" + bytes([len(rows) + 1]) + active + b"\x00"
    return struct.pack(">i", 0) + b"\x02" + compact("sink") + b"\x02" + partition + b"\x00\x00"


def listing(*rows, code=0):
    """ListTransactions v0: error, unknown filters, transactional id, producer id and state of each."""
    states = b"".join(compact(name) + struct.pack(">q", pid) + compact("Ongoing") + b"\x00" for name, pid in rows)
    return struct.pack(">ih", 0, code) + b"\x01" + bytes([len(rows) + 1]) + states + b"\x00"


def description(name, state, pid=7, epoch=3, partitions=(), topic="sink", code=0):
    """DescribeTransactions v0: error, id, state, timeout (2 s), start, producer id and epoch, topics[name, partitions]."""
    numbers = bytes([len(partitions) + 1]) + b"".join(struct.pack(">i", one) for one in partitions)
    topics = b"\x02" + compact(topic) + numbers + b"\x00" if partitions else b"\x01"
    of_one = struct.pack(">h", code) + compact(name) + compact(state) + struct.pack(">iqqh", 2000, 5, pid, epoch) + topics
    return struct.pack(">i", 0) + b"\x02" + of_one + b"\x00\x00"


@pytest.fixture
def ask(monkeypatch):
    """Ask a cluster of one broker, which leads everything; what was asked, and what was found."""

    def asked_of(answers, leader=1, state_leader=1):
        asked: list[Any] = []

        class Client:
            def __init__(self, _options):
                pass

            def list_topics(self, **_within):
                topics = {
                    name: SimpleNamespace(partitions={number: SimpleNamespace(leader=led_by)})
                    for name, number, led_by in [("sink", 2, leader), ("__transaction_state", 0, state_leader)]
                }
                return SimpleNamespace(brokers={1: serving}, topics=topics)

            def describe_configs(self, resources, **_within):
                future: Future[Any] = Future()
                future.set_result({"transaction.max.timeout.ms": SimpleNamespace(value=str(LONGEST_MS))})
                return dict.fromkeys(resources, future)

        monkeypatch.setattr(protocol, "AdminClient", Client)
        monkeypatch.setattr(clock, "now_ms", lambda: ASKED_MS)
        with broker(answers, asked) as serving:
            return asked, protocol.open_transactions("host:1", "sink", [2])

    return asked_of


OPEN = producers((7, 3, 1000, 12), (8, 0, 1001, -1))
ONE = (2, 7, 3, 12, 1000, ASKED_MS)


@pytest.mark.parametrize(
    ("listed", "described", "said"),
    [
        ([("a", 7)], [description("a", "Ongoing", partitions=(1, 2))], ("a", "Ongoing", 7, 3, 2000, True)),
        ([("a", 7)], [description("a", "Ongoing", partitions=(1, 3))], ("a", "Ongoing", 7, 3, 2000, False)),
        ([("a", 7)], [description("a", "Ongoing", partitions=(2,), topic="x")], ("a", "Ongoing", 7, 3, 2000, False)),
        ([("a", 7)], [description("a", "CompleteCommit", 9, 4)], ("a", "CompleteCommit", 9, 4, 2000, False)),
        ([("a", 7)], [description("a", "", -1, -1, code=NOT_FOUND)], ("a", None, None, None, LONGEST_MS, False)),
        ([], [], (None, None, None, None, LONGEST_MS, False)),
    ],
)
def test_what_is_open_and_what_its_coordinator_says(ask, listed, described, said):
    """A producer without an open transaction is left out; the timeout is the broker's longest where no id is known."""
    _, found = ask({PRODUCERS: [OPEN, OPEN], LISTED: [listing(*listed)], DESCRIBED: described})

    assert found == [OpenTransaction(*ONE, *said)]


def test_what_is_asked(ask):
    """KIP-664, v0 of each: topics[name, partitions]; state filters, producer ids; transactional ids."""
    answers = {PRODUCERS: [OPEN, OPEN], LISTED: [listing(("a", 7))], DESCRIBED: [description("a", "Ongoing")]}
    asked, _ = ask(answers)

    wanted = header(PRODUCERS, 0, flexible=True) + b"\x02" + compact("sink") + b"\x02" + struct.pack(">i", 2) + b"\x00\x00"
    assert asked == [
        wanted,
        header(LISTED, 0, flexible=True) + b"\x01\x02" + struct.pack(">q", 7) + b"\x00",
        header(DESCRIBED, 0, flexible=True) + b"\x02" + compact("a") + b"\x00",
        wanted,
    ]


@pytest.mark.parametrize("after", [producers(), producers((7, 3, 1000, -1)), producers((7, 3, 2000, 14))])
def test_what_ends_while_its_coordinator_is_asked_is_not_open(ask, after):
    """Its coordinator calls it complete by then; the next transaction of its producer was not asked about."""
    answers = {PRODUCERS: [OPEN, after], LISTED: [listing(("a", 7))], DESCRIBED: [description("a", "CompleteCommit")]}

    assert ask(answers)[1] == []


def test_no_coordinator_is_asked_where_nothing_is_open(ask):
    """The transaction that held the last stable offset has ended."""
    asked, found = ask({PRODUCERS: [producers((7, 3, 1000, -1))]})

    assert (len(asked), found) == (1, [])


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({PRODUCERS: [producers(code=NOT_LEADER)]}, r"answered DescribeProducers with NOT_LEADER\S* \(6\)"),
        ({PRODUCERS: [OPEN], LISTED: [listing(code=LOADING)]}, r"answered ListTransactions with \S+ \(14\)"),
        (
            {PRODUCERS: [OPEN], LISTED: [listing(("a", 7))], DESCRIBED: [description("a", "", code=LOADING)]},
            r"answered DescribeTransactions with \S+ \(14\)",
        ),
        ({PRODUCERS: [OPEN[:9]]}, "cannot be decoded"),
    ],
)
def test_an_error_proves_nothing(ask, answers, said):
    """A coordinator that is loading knows no transaction, which must not look like one that is forgotten."""
    with pytest.raises(InconclusiveError, match=f"the open transactions of sink cannot be listed: .*{said}.*; run again"):
        ask(answers)


def test_a_partition_without_a_leader_proves_nothing(ask):
    with pytest.raises(InconclusiveError, match="sink-2 has no leader now"):
        ask({}, leader=-1)


def test_a_coordinator_that_is_nowhere_proves_nothing(ask):
    """Its ids are listed by no broker."""
    with pytest.raises(InconclusiveError, match="a partition of __transaction_state has no leader now"):
        ask({PRODUCERS: [OPEN]}, state_leader=-1)
