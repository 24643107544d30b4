"""A connection of our own says how it ended, against a listener that ends it in each of these ways."""

import socket
import struct
from contextlib import contextmanager
from threading import Thread

import pytest

from chaos.cluster import protocol

ANSWER = struct.pack(">i", 96) + b"a" * 96


@contextmanager
def listening(serve):
    """An address where each connection is given to `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
    thread.join(120)


def requests(connection):
    """Whole requests, one at a time."""
    rest = b""
    while piece := connection.recv(65536):
        rest += piece
        while len(rest) >= 4 and len(rest) >= 4 + struct.unpack_from(">i", rest)[0]:
            size = 4 + struct.unpack_from(">i", rest)[0]
            yield rest[:size]
            rest = rest[size:]


def answers_all(connection):
    """As a broker does."""
    for _ in requests(connection):
        connection.sendall(ANSWER)


@pytest.mark.parametrize("size", [1, 14, 5000, 32_014, 32_015, 100_000])
def test_an_upload_sends_at_least_what_is_asked_for(size):
    """In as many requests as it takes, all of them answered."""
    with listening(answers_all) as address:
        seen = protocol.upload(address, size, within_s=120)

    assert seen.end == "answered"
    assert size <= seen.sent <= size + 32_014
    assert seen.received == 100 * -(-size // 32_014)


def test_a_download_waits_for_at_least_what_is_asked_for():
    """How long an answer is, it learns from the first."""
    with listening(answers_all) as address:
        seen = protocol.download(address, 950, within_s=120)

    assert (seen.end, seen.received) == ("answered", 1000)


def test_a_connection_that_is_closed_in_the_middle_of_an_answer():
    """The bytes that came before count."""
    with listening(lambda connection: [connection.sendall(ANSWER[:40]) for _ in [next(requests(connection))]]) as address:
        seen = protocol.download(address, 1, within_s=120)

    assert (seen.end, seen.received) == ("closed", 40)


def test_a_connection_that_is_reset():
    """Not closed: the two are told apart."""

    def resets(connection):
        next(requests(connection))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with listening(resets) as address:
        assert protocol.upload(address, 1, within_s=120).end == "reset"


def test_a_connection_on_which_nothing_comes():
    """It is given up after its time."""
    with listening(lambda connection: [connection.recv(1000) for _ in range(2)]) as address:
        seen = protocol.upload(address, 1, within_s=0.2)

    assert seen.end == "silent"
    assert seen.took_s >= 0.2


def test_nobody_listens():
    """Then there was no connection that could be reset."""
    with listening(answers_all) as address:
        pass

    assert protocol.upload(address, 1, within_s=120).end == "closed"
