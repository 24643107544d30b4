"""Files over real HTTP on loopback: what comes of each answer of a server."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from pipelines.files.download import BadFileError, FileRows, StoppedError, TryAgainError, Web
from pipelines.files.server import FileServer
from tests.unit.wording import raised

WITHIN_S = 5.0


@pytest.fixture(scope="module")
def files() -> Iterator[str]:
    """A server of files, and its address."""
    with FileServer("127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server that answers whatever is asked with these bytes, one answer for each connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(answer)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(WITHIN_S)


def rows(address: str, path: str) -> FileRows:
    return FileRows(f"http://files{path}", Web(WITHIN_S, {"files": address}))


def body(text: str, length: int | None = None) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text) if length is None else length}\r\n\r\n{text}".encode()


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_row_becomes_a_record_with_its_transaction_as_key(files: str, ending: str) -> None:
    """Both kinds of file give the same records, and the client chooses their partitions."""
    first, *others = list(rows(files, f"/17.{ending}?rows=40"))

    assert first == (-1, b"17-1", b'{"transaction":"17-1","account":"account-1","amount":7}')
    assert len(others) == 39
    assert others[-1][1] == b"17-40"


@pytest.mark.parametrize("path", ["/e.csv?rows=0", "/e.jsonl?rows=0"])
def test_an_empty_file_has_no_records(files: str, path: str) -> None:
    """It is a file all the same, and its position can be committed."""
    assert list(rows(files, path)) == []


def test_a_big_file_is_read_while_it_comes(files: str) -> None:
    """The first row is there long before the last; nothing is kept but how many there were."""
    file = rows(files, "/big.csv?rows=100000")
    reading = iter(file)
    next(reading)

    assert len(file) == 1
    assert sum(1 for _ in reading) == 99_999
    assert len(file) == 100_000


def test_a_file_of_any_length_begins_at_once(files: str) -> None:
    """The server does not make all of it to know its length: a client would give up, and try again for ever."""
    reading = iter(rows(files, "/long.jsonl?rows=10000000"))

    assert next(reading)[1] == b"long-1"


def test_the_header_of_a_request_names_the_host_of_the_url() -> None:
    """`connect_to` changes where the connection goes, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(10_000))
                connection.sendall(body(""))

        thread = Thread(target=serve, daemon=True)
        thread.start()
        list(rows(f"127.0.0.1:{listener.getsockname()[1]}", "/a.csv?rows=1"))
        thread.join(WITHIN_S)

    assert seen[0].startswith(b"GET /a.csv?rows=1 HTTP/1.1\r\n")
    assert b"\r\nHost: files\r\n" in seen[0]


@pytest.mark.parametrize("first", ["500", "cut", "lines", "changed"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_what_may_pass_is_tried_again_and_is_well_then(files: str, first: str, ending: str) -> None:
    """Half a file never counts as one, wherever it was cut; the second answer is another body, and the one that counts."""
    path = f"/{first}.{ending}?rows=40&first={first}"
    cut = rows(files, path)
    with pytest.raises(TryAgainError, match="http://files/"):
        list(cut)

    assert cut.read == (0 if first == "500" else 20)
    whole = list(rows(files, path))
    assert len(whole) == 40
    assert json.loads(whole[0][2])["amount"] == 7


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/a.csv?rows=9&always=404", (": ", "404 Not Found")),
        ("/a.csv?rows=9&broken=3", (", row 3: ", "2 fields")),
        ("/a.jsonl?rows=9&broken=3", (", row 3: ", "amount")),
        ("/a.xml", (": ", ".csv, .jsonl")),
    ],
)
def test_a_file_that_will_not_become_better_is_bad(files: str, path: str, names: tuple[str, str]) -> None:
    """The error names the URL, the row, and what is wrong with it."""
    place, what = names
    with raised(BadFileError, f"http://files{path}{place}", what):
        list(rows(files, path))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("transaction,amount\n", ("row 1: ", " transaction,amount, "), id="another header"),
        pytest.param("transaction,account,amount\na,b,much\n", ("row 1: ", "amount", '"much"'), id="no number"),
        pytest.param("transaction,account,amount\na,b,1_000\n", ("row 1: ", "amount", '"1_000"'), id="a number of Python"),
        pytest.param(
            "transaction,account,amount\na,b,1\na," + "b" * 1_200_000, ("row 2: ", "1048576 bytes"), id="a row too long"
        ),
        pytest.param("transaction,account,amount\na,b,1\n,b,2\n", ("row 2: ", "transaction"), id="an empty field"),
        pytest.param('transaction,account,amount\n"a,b,1\n', ("row 1: ", "unexpected end"), id="an open quote"),
    ],
)
def test_rows_that_do_not_parse_are_named(text: str, names: tuple[str, ...]) -> None:
    """Also the first and the last row of a file."""
    with answering(body(text)) as address, raised(BadFileError, *names):
        list(rows(address, "/a.csv"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("[1]\n", ("row 1: ", "[1]"), id="a list"),
        pytest.param('{"transaction": "a", "account": "b", "amount": 1.5}\n', ("row 1: ", "amount", ": 1.5"), id="a fraction"),
        pytest.param('{"transaction": "a"\n', ("row 1: ",), id="half an object"),
    ],
)
def test_lines_that_are_no_rows_are_named(text: str, names: tuple[str, ...]) -> None:
    """A number with a fraction is not rounded."""
    with answering(body(text)) as address, raised(BadFileError, *names):
        list(rows(address, "/a.jsonl"))


def test_an_answer_without_a_length_is_refused() -> None:
    """It ends where the connection ends, and that may be anywhere."""
    answer = b"HTTP/1.1 200 OK\r\n\r\ntransaction,account,amount\n"
    with answering(answer) as address, pytest.raises(BadFileError, match="does not announce the file's length"):
        list(rows(address, "/a.csv"))


@pytest.mark.parametrize(("end", "is_whole"), [(b"0\r\n\r\n", True), (b"", False)])
def test_chunks_count_up_to_the_last(end: bytes, *, is_whole: bool) -> None:
    """The last chunk is empty, and says that the file is whole."""
    text = b"transaction,account,amount\na,b,1\n"
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(text), text) + end
    with answering(answer) as address:
        file = rows(address, "/a.csv")
        if is_whole:
            assert len(list(file)) == 1
        else:
            with pytest.raises(TryAgainError):
                list(file)


def test_text_that_is_not_utf8_is_bad() -> None:
    """The line is named; nothing is replaced."""
    text = b"transaction,account,amount\na,\xff,1\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
    with answering(answer) as address, pytest.raises(BadFileError, match="line 2: it is not UTF-8"):
        list(rows(address, "/a.csv"))


@pytest.mark.parametrize(
    "url", ["", "17.csv", "ftp://files/17.csv", "http:///17.csv", "http://files:x/17.csv", "http://files/1 7.csv", "http://[/"]
)
def test_what_is_no_url_is_bad(url: str) -> None:
    """The text is shown as it is."""
    with pytest.raises(BadFileError) as error:
        list(FileRows(url, Web(WITHIN_S)))

    assert repr(url) in str(error.value)


def test_a_host_that_does_not_resolve_is_named() -> None:
    """It may be the name server's fault, so it is tried again."""
    with pytest.raises(TryAgainError, match=r"http://no-such-host\.invalid/a\.csv: its host no-such-host\.invalid does not"):
        list(FileRows("http://no-such-host.invalid/a.csv", Web(WITHIN_S)))


def test_a_server_that_does_not_listen_is_tried_again() -> None:
    """The address is one where nothing listens: it was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

    with pytest.raises(TryAgainError, match=r"after 0 rows: .*refused"):
        list(rows(address, "/a.csv?rows=1"))


def test_a_server_that_goes_silent_is_given_up_in_time(files: str) -> None:
    """The time between two parts counts, and not that of the whole file."""
    slow = FileRows("http://files/s.csv?rows=3&pause=400ms", Web(0.1, {"files": files}))
    with pytest.raises(TryAgainError, match="timed out"):
        list(slow)

    assert len(list(FileRows("http://files/s.csv?rows=10&pause=40ms", Web(0.3, {"files": files})))) == 10


def test_it_stops_in_the_middle_of_a_file(files: str) -> None:
    """Between two rows, so that the transaction is aborted and not left open."""
    told: list[int] = []
    file = FileRows("http://files/17.csv?rows=40", Web(WITHIN_S, {"files": files}, lambda: bool(told)))
    reading = iter(file)
    for _ in range(10):
        next(reading)
    told.append(1)

    with pytest.raises(StoppedError, match="told to stop after 10 rows"):
        list(reading)
