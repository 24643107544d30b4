"""How a node handles URLs: attempts, pauses, and files that are refused."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import pytest

from pipelines.files.download import Summary, Web
from pipelines.files.process import FileOptions, Files
from pipelines.files.server import FileServer
from pipelines.messages import ThrottledEvents
from pipelines.transactional.delivery import Batch, BrokenError, RowsError
from pipelines.transactional.options import parsed
from tests.unit.wording import named, raised

PLACE = ("--kafka=link:9092", "--source=in", "--sink=out", "--group=g")


@dataclass
class Record:
    """A URL, as a consumer returns it."""

    of_value: bytes | None
    of_offset: int = 5

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return self.of_offset

    def value(self) -> bytes | None:
        return self.of_value


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer("127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Node:
    """The files of one node, with a clock that only notes pauses."""

    def __init__(self, server: FileServer, **options: Any) -> None:
        self.paused: list[float] = []
        web = Web(5.0, {"files": f"127.0.0.1:{server.server_address[1]}"})
        chosen = FileOptions(**options)
        self.files = Files(3, chosen, ThrottledEvents(), web, self.paused.append)

    def turn(self, url: bytes | None, offset: int = 5) -> tuple[Batch, int | str]:
        """The batch of a URL, with how many rows it has or what ended them."""
        batch = self.files.batch([Record(url, offset)])  # type: ignore[list-item] # a stand-in
        try:
            return batch, len(list(batch.rows))
        except RowsError as error:
            return batch, str(error)


def test_a_url_becomes_the_rows_of_its_file_and_its_position(server: FileServer) -> None:
    """Nothing was asked of the server before the rows are read: the transaction has begun by then."""
    node = Node(server)
    batch = node.files.batch([Record(b"http://files/17.csv?rows=40")])  # type: ignore[list-item] # a stand-in

    assert server.requests("/17.csv?rows=40") == 0
    assert len(list(batch.rows)) == 40
    assert batch.ends == {1: 6}
    assert batch.keys == []


def test_a_file_that_could_not_be_had_is_tried_again_after_a_pause(server: FileServer) -> None:
    """All of it, from its first row on."""
    node = Node(server)

    assert "answered 500" in str(node.turn(b"http://files/17.csv?rows=40&first=500")[1])
    assert node.paused == []
    assert node.turn(b"http://files/17.csv?rows=40&first=500")[1] == 40
    assert node.paused == [0.1]


def test_pauses_double_up_to_their_limit(server: FileServer) -> None:
    """A server that is down is not asked more and more often."""
    node = Node(server, attempts=7)
    for _ in range(7):
        node.turn(b"http://files/17.csv?rows=40&always=503")

    assert node.paused == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(
    ("url", "names", "turns"),
    [
        pytest.param(b"http://files/a.csv?rows=9&broken=3", ("rows=9&broken=3, row 3: ", "2 fields"), 1, id="a bad row"),
        pytest.param(b"http://files/a.csv?always=404", ("http://files/a.csv?always=404: ", "404 Not Found"), 1, id="404"),
        pytest.param(b"17.csv", ("'17.csv'", "http://HOST/PATH.csv"), 1, id="no URL"),
        pytest.param(None, ("''", "http://HOST/PATH.csv"), 1, id="no value"),
        pytest.param(b"http://files/a.csv?always=503", ("?always=503: ", "503 Service Unavailable", "2 attempts"), 2, id="503"),
    ],
)
def test_a_file_that_is_refused_stops_its_node_or_is_skipped(
    server: FileServer, url: bytes | None, names: tuple[str, ...], turns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """As is declared. No record of it is in the batch that moves its position."""
    stops, skips = Node(server, attempts=2), Node(server, attempts=2, bad_file="skip")
    for _ in range(turns):
        stops.turn(url)
        skips.turn(url)

    with raised(BrokenError, *names) as broken:
        stops.turn(url)

    batch, count = skips.turn(url)
    assert (count, batch.ends) == (0, {1: 6})
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said == {"event": "refused", "worker": 3, "url": (url or b"").decode(), "why": str(broken.value)}
    assert skips.turn(b"http://files/17.csv?rows=40", 6)[1] == 40


def test_failures_of_one_file_are_not_those_of_another(server: FileServer) -> None:
    """Also if both have the same URL: they are two records."""
    node = Node(server, attempts=2)
    node.turn(b"http://files/a.csv?always=503", 5)
    node.turn(b"http://files/a.csv?always=503", 6)

    assert node.paused == []


def test_what_kafka_has_refused_is_not_the_fault_of_the_file(server: FileServer) -> None:
    """The transaction of a whole file was aborted: it is downloaded again at once."""
    node = Node(server, attempts=1)
    assert [node.turn(b"http://files/17.csv?rows=40")[1] for _ in range(3)] == [40, 40, 40]

    assert node.paused == []
    assert server.requests("/17.csv?rows=40") == 3


SUMMARY = (-1, b"http://files/17.csv?rows=4", b'{"rows":4,"amount":70}')


def test_a_summary_is_beside_the_rows_and_known_after_them(server: FileServer) -> None:
    """It goes to its own topic, in the transaction of the rows."""
    batch, _ = Node(server, summaries="summaries").turn(b"http://files/17.csv?rows=4")

    assert list(batch.beside) == ["summaries"]
    assert list(batch.beside["summaries"]) == [SUMMARY]
    assert len(batch.beside["summaries"]) == 1
    assert Node(server).turn(b"http://files/17.csv?rows=4")[0].beside == {}


def test_a_summary_apart_is_written_when_the_last_row_was_read(server: FileServer) -> None:
    """And not for a file that breaks off; whether the rows are committed afterwards, it does not know."""
    wrote: list[Summary] = []
    node = Node(server, summaries="summaries", summaries_are="apart")
    node.files.apart = wrote.append

    batch, count = node.turn(b"http://files/17.csv?rows=4")
    assert (count, len(batch.rows), batch.beside) == (4, 4, {})
    assert [list(summary) for summary in wrote] == [[SUMMARY]]
    node.turn(b"http://files/17.csv?rows=4&first=cut", 6)
    assert len(wrote) == 1


def test_the_command_line_has_the_options_of_both() -> None:
    """Durations have a unit there."""
    place, options = parsed(
        (*PLACE, "--bad-file=skip", "--timeout=500ms", "--connect-to=files=127.0.0.1:80", "--workers=2"), kind=FileOptions
    )

    assert place.group == "g"
    assert options == FileOptions(bad_file="skip", timeout_ms=500, connect_to="files=127.0.0.1:80", workers=2)
    assert options.web(Event().is_set).connect_to == {"files": "127.0.0.1:80"}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("--bad-file=burn", ("bad_file ", "stop, skip", "'burn'")),
        ("--summaries-are=late", ("summaries_are ", "included, apart", "'late'")),
        ("--attempts=0", ("attempts ", "1", "0")),
        ("--batch-records=2", ("batch_records ", "1, one file", "2")),
        ("--delivery=at_least_once", ("delivery ", "exactly_once", "'at_least_once'")),
        ("--connect-to=files", ("connect_to ", "HOST=ADDRESS:PORT", "'files'")),
        ("--workers=0", ("workers ", "1 to 9", "0")),
    ],
)
def test_impossible_values_are_refused(word: str, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The last line says what is wrong, and a report shows it."""
    with pytest.raises(SystemExit):
        parsed((*PLACE, word), kind=FileOptions)

    _, _, said = capsys.readouterr().err.splitlines()[-1].partition(": error: ")
    named(said, *names)
