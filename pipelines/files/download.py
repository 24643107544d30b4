"""One file: downloaded over HTTP, and parsed row by row while it comes.

A file is CSV (``.csv``, with a header) or JSON lines (``.jsonl``), and its rows have three fields: ``transaction``, ``account``
and ``amount``, a whole number. The file is not kept: the rows go into an open transaction, which is aborted if a later row
shows that the file is wrong.

A cut connection looks like the end of a file, and half a row like a wrong row. So the bytes are compared with the announced
length (``Content-Length``, or the last chunk), and an answer without a length is refused: half of it would look whole.

There are two kinds of errors. `TryAgainError`: the server, the network or the name failed now, but may work the next time.
`BadFileError`: this file will not become better; its text names the URL and, if known, the row.
"""

import csv
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pipelines.transactional.delivery import RowsError

FIELDS = ("transaction", "account", "amount")
_CONNECTIONS: Mapping[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
_MAY_PASS = frozenset({408, 425, 429})
_OK = 200
_OF_SERVERS = 500
_BLOCK_BYTES = 65_536
_LINE_BYTES = 1_048_576  # no broker takes a larger record, unless it is told to
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_ANYWHERE = -1  # the client's partitioner chooses one, by the key

Row = tuple[int, bytes | None, bytes]
Parser = Callable[[Iterator[str]], Iterator[Mapping[str, Any]]]


class TryAgainError(RowsError):
    """The file cannot be downloaded now."""


class BadFileError(RowsError):
    """The file cannot be processed, however often it is tried."""


class StoppedError(RowsError):
    """The pipeline was told to stop, in the middle of a file."""


@dataclass(frozen=True, slots=True)
class Web:
    """The settings for requests of files.

    Attributes:
        timeout_s: seconds to wait for an answer, and for each part of one.
        connect_to: host of a URL -> ``host:port`` to connect to in its place, like curl's ``--connect-to``.
        stopped: returns whether the pipeline shall end.
    """

    timeout_s: float
    connect_to: Mapping[str, str] = field(default_factory=dict)
    stopped: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class FileRows:
    """The rows of one file, which is downloaded while they are read.

    Attributes:
        read: number of rows; amount: the sum of their amounts.
        error: the error that ended the download before the end of the file.
    """

    url: str
    web: Web
    read: int = 0
    amount: int = 0
    error: RowsError | None = None

    def __len__(self) -> int:
        return self.read

    def __iter__(self) -> Iterator[Row]:
        """Download and parse.

        Raises:
            RowsError: one of the errors above; it is kept as well.
        """
        try:
            yield from self._rows()
        except RowsError as error:
            self.error = error
            raise

    def _rows(self) -> Iterator[Row]:
        split = _parsed_url(self.url)
        parser = _parser_of(split, self.url)
        connection = self._connection(split)
        try:
            with closing(_asked(connection, split)) as response:
                self._check(response)
                for fields in self._parsed(parser, self._lines(response)):
                    self.read += 1
                    yield self._row(fields)
        except socket.gaierror as error:
            raise TryAgainError(f"{self.url}: its host {split.hostname} does not resolve: {error.strerror}") from error
        except (OSError, HTTPException) as error:
            what = str(error) or type(error).__name__
            raise TryAgainError(f"{self.url}: after {self.read} rows: {what}") from error
        finally:
            connection.close()

    def _connection(self, split: SplitResult) -> HTTPConnection:
        host = str(split.hostname)
        to_host, _, to_port = self.web.connect_to.get(host, "").rpartition(":")
        if to_host:
            return _CONNECTIONS[split.scheme](to_host, int(to_port), timeout=self.web.timeout_s)
        return _CONNECTIONS[split.scheme](host, split.port, timeout=self.web.timeout_s)

    def _check(self, response: HTTPResponse) -> None:
        """Refuse an answer that is not a file.

        Raises:
            RowsError: it is not a file, or not now.
        """
        if response.status >= _OF_SERVERS or response.status in _MAY_PASS:
            raise TryAgainError(f"{self.url}: the server answered {response.status} {response.reason}")
        if response.status != _OK:
            raise BadFileError(f"{self.url}: the server answered {response.status} {response.reason}")
        if response.length is None and not response.chunked:
            raise BadFileError(f"{self.url}: the server does not announce the file's length, so half of it would look whole")

    def _lines(self, response: HTTPResponse) -> Iterator[str]:
        for number, line in enumerate(self._received(response), 1):
            if self.web.stopped():
                raise StoppedError(f"{self.url}: told to stop after {self.read} rows")
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                raise BadFileError(f"{self.url}, line {number}: it is not UTF-8: {error.reason}") from error

    def _received(self, response: HTTPResponse) -> Iterator[bytes]:
        """Yield whole lines, as they come; a last one without its end only if the file has ended as announced.

        The response's own lines hide that the last chunk is missing (`http.client`, Python 3.11).
        """
        rest = b""
        while block := response.read1(_BLOCK_BYTES):
            *whole, rest = (rest + block).split(b"\n")
            yield from (line + b"\n" for line in whole)
            if len(rest) > _LINE_BYTES:
                raise BadFileError(f"{self.url}, row {self.read + 1}: it is longer than {_LINE_BYTES} bytes")
        if response.length:
            raise TryAgainError(f"{self.url}: cut off after {self.read} rows, {response.length} bytes are missing")
        if rest:
            yield rest

    def _parsed(self, parser: Parser, lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
        try:
            yield from parser(lines)
        except (csv.Error, ValueError) as error:
            raise BadFileError(f"{self.url}, row {self.read + 1}: {error}") from error

    def _row(self, fields: Mapping[str, Any]) -> Row:
        """Convert a row to a record.

        Raises:
            BadFileError: it is not a valid row.
        """
        try:
            transaction, account, amount = (fields[name] for name in FIELDS)
            if not isinstance(transaction, str) or not isinstance(account, str) or not transaction or not account:
                raise ValueError("transaction and account must be non-empty texts")  # noqa: TRY301
            number = _whole(amount)
        except KeyError as error:
            raise BadFileError(f"{self.url}, row {self.read}: it lacks {error.args[0]}") from error
        except ValueError as error:
            raise BadFileError(f"{self.url}, row {self.read}: {error}") from error
        self.amount += number
        value = dict(zip(FIELDS, (transaction, account, number), strict=True))
        return _ANYWHERE, transaction.encode(), _json(value)


@dataclass(frozen=True, slots=True)
class Summary:
    """One record about a file, which can be read after the rows of the file."""

    of: FileRows

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Row]:
        yield _ANYWHERE, self.of.url.encode(), _json({"rows": self.of.read, "amount": self.of.amount})


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _asked(connection: HTTPConnection, split: SplitResult) -> HTTPResponse:
    target = (split.path or "/") + (f"?{split.query}" if split.query else "")
    connection.request("GET", target, headers={"Host": split.netloc, "Connection": "close"})
    return connection.getresponse()


def _parsed_url(url: str) -> SplitResult:
    try:
        split = urlsplit(url)
        has_place = split.scheme in _CONNECTIONS and bool(split.hostname) and split.port != 0
    except ValueError as error:
        raise BadFileError(f"{url!r} is not a URL: {error}") from error
    if not has_place or not url.isascii() or not url.isprintable() or " " in url:
        raise BadFileError(f"{url!r} is not a URL of a file; write http://HOST/PATH.csv, or .jsonl")
    return split


def _parser_of(split: SplitResult, url: str) -> Parser:
    ending = PurePosixPath(split.path).suffix
    if ending not in _PARSERS:
        raise BadFileError(f"{url}: files of this kind are not supported; use one of {', '.join(_PARSERS)}")
    return _PARSERS[ending]


def _csv(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    reader = csv.reader(lines, strict=True)
    header = next(reader, None)
    if header is not None and tuple(header) != FIELDS:
        raise ValueError(f"the header is {','.join(header)}, not {','.join(FIELDS)}")
    for fields in reader:
        if len(fields) != len(FIELDS):
            raise ValueError(f"it has {len(fields)} fields, not {len(FIELDS)}")
        yield dict(zip(FIELDS, fields, strict=True))


def _json_lines(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"it is not an object: {line.strip()}")  # noqa: TRY004 - a ValueError, as json's own
        yield row


_PARSERS: Mapping[str, Parser] = {".csv": _csv, ".jsonl": _json_lines}


def _whole(amount: Any) -> int:
    if isinstance(amount, str) and _WHOLE_NUMBER.fullmatch(amount):  # `int` takes spaces and 1_000, too
        return int(amount)
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise ValueError(f"the amount is not a whole number: {json.dumps(amount)}")  # noqa: TRY004 - reported as a bad row
    return amount
