"""A file server whose faults are in the URLs: a URL determines the answer, so that a model can compute the right rows.

    http://…/17.csv?rows=40                 40 rows: 17-1 to 17-40; .jsonl gives them as JSON lines
    http://…/17.csv?rows=40&first=500       the first answer is 500, the next are well
    http://…/17.csv?rows=40&first=cut       the first answer is cut off in the middle of a row
    http://…/17.csv?rows=40&first=changed   as cut, and its rows have other amounts than those of the next answers
    http://…/17.csv?rows=40&first=lines     the first answer is cut off after a whole row: it looks like a file
    http://…/17.csv?rows=40&always=404      every answer has this status
    http://…/17.csv?rows=40&broken=3        row 3 lacks its amount
    http://…/17.csv?rows=40&pause=50ms      so long between two rows

It counts the requests for each URL, to know the first one; so it is started anew for each run.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from threading import Event, Lock
from typing import cast
from urllib.parse import parse_qsl, urlsplit

from pipelines.files.download import FIELDS

MOST_ROWS = 10_000_000
_FIRST = ("500", "cut", "changed", "lines")
_CHUNK_ROWS = 1000
_LONG_ROWS = 10_000  # a longer file is sent in chunks, because its length is not known at once
_DURATION = re.compile(r"(\d+)ms")


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer that a URL requests.

    Attributes:
        name: the file's name, without its ending; ending: ``.csv`` or ``.jsonl``.
        always: the status of every answer; 200 for a file.
        broken: the number of the row that lacks its amount; 0 for none.
    """

    name: str
    ending: str
    rows: int
    first: str = ""
    always: int = 200
    broken: int = 0
    pause_ms: int = 0


def asked(target: str) -> Asked:
    """Parse a URL.

    Raises:
        ValueError: it requests no known answer.
    """
    split = urlsplit(target)
    path, query = PurePosixPath(split.path), dict(parse_qsl(split.query, strict_parsing=bool(split.query)))
    if path.suffix not in _WRITERS:
        raise ValueError(f"{split.path} is not a file; use one of {', '.join(_WRITERS)}")
    pause = _DURATION.fullmatch(query.get("pause", "0ms"))
    found = Asked(
        path.stem,
        path.suffix,
        int(query.get("rows", "0")),
        query.get("first", ""),
        int(query.get("always", "200")),
        int(query.get("broken", "0")),
        int(pause[1]) if pause else -1,
    )
    if not 0 <= found.rows <= MOST_ROWS or found.first not in ("", *_FIRST) or found.pause_ms < 0:
        raise ValueError(f"{target} requests no known answer")
    return found


def lines(of: Asked, *, changed: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file."""
    write = _WRITERS[of.ending]
    if of.ending == ".csv":
        yield (",".join(FIELDS) + "\n").encode()
    for number in range(1, of.rows + 1):
        row: dict[str, str | int] = {
            "transaction": f"{of.name}-{number}",
            "account": f"account-{number % 97}",
            "amount": number * 7 % 1000 + changed,
        }
        if number == of.broken:
            del row["amount"]
        yield write(row)


def _csv(row: Mapping[str, str | int]) -> bytes:
    return (",".join(map(str, row.values())) + "\n").encode()


def _json_line(row: Mapping[str, str | int]) -> bytes:
    return (json.dumps(row) + "\n").encode()


_WRITERS = {".csv": _csv, ".jsonl": _json_line}


class FileServer(ThreadingHTTPServer):
    """The server; `serve_forever` runs it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        """Listen; port 0 is any that is free."""
        super().__init__((host, port), _Handler)
        self._lock = Lock()
        self._requests: Counter[str] = Counter()

    def is_first(self, target: str) -> bool:
        """Count a request; return whether it was the first for this URL."""
        with self._lock:
            self._requests[target] += 1
            return self._requests[target] == 1

    def requests(self, target: str) -> int:
        """Number of requests for this URL."""
        with self._lock:
            return self._requests[target]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class _Handler(BaseHTTPRequestHandler):
    """One request; its connection ends with it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_first = cast("FileServer", self.server).is_first(self.path)
        try:
            of = asked(self.path)
        except ValueError as error:
            self.send_error(404, str(error))
            return
        first = of.first if is_first else ""
        if first == "500" or of.always != 200:  # noqa: PLR2004 - the status of a file
            self.send_error(of.always if of.always != 200 else 500)  # noqa: PLR2004
            return
        try:
            self._send(of, first)
        except OSError:
            return  # the client has gone

    def _send(self, of: Asked, first: str) -> None:
        changed, is_long = first == "changed", not first and of.rows > _LONG_ROWS
        self.send_response(200)
        if is_long:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(sum(map(len, lines(of, changed=changed)))))
        self.send_header("Connection", "close")
        self.end_headers()
        framed = _chunk if is_long else bytes
        until = of.rows // 2 if first else of.rows
        head, chunk = int(of.ending == ".csv"), list[bytes]()
        for number, line in enumerate(lines(of, changed=changed), 1 - head):
            if first and number > until:
                self.wfile.write(b"".join(chunk) + (line[: len(line) // 2] if first != "lines" else b""))
                return
            chunk.append(line)
            if of.pause_ms or len(chunk) >= _CHUNK_ROWS:
                self.wfile.write(framed(b"".join(chunk)))
                chunk.clear()
            if of.pause_ms:
                Event().wait(of.pause_ms / 1000)
        if chunk:
            self.wfile.write(framed(b"".join(chunk)))
        if is_long:
            self.wfile.write(_chunk(b""))

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as http.server calls it
        """Write one line for each request, to be read beside the log of the pipeline."""
        super().log_message(format, *arguments)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="a server of files, whose faults are in the URLs")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    host, _, port = parser.parse_args().listen.rpartition(":")
    FileServer(host, int(port)).serve_forever()


if __name__ == "__main__":
    main()
