"""Statements: lines of JSON in which programs report what their Kafka clients told them (docs/adapters.md).

    {"begin": 7, "ids": ["a", "b"]}                          a transaction begins
    {"told": "committed", "transaction": 7, "ids": [...]}    how it ended, as far as the client knows
    {"got": [["orders", 0, 41], ["orders", 0, 42]]}          records that the consumer handed to the application
    {"start": ["orders", 0, 41]}                             from here the consumer reads on purpose

Every line may have ``"by": NAME``, the client within the process. A line is a statement if its first key is one of the four
words, whatever the spaces around it, and if the program was declared to make such statements; all other lines are the
program's own. A process that was killed leaves half a line: it is the last of its log, or the next line reports the end.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from chaos.common.errors import InconclusiveError, one_line

STARTED_AGAIN = b"--- started again ---\n"
"""The line in a log between a process and its successor."""

_OF_TRANSACTIONS = re.compile(rb'[ \t]*\{[ \t]*"(begin|told)"')
_OF_DELIVERIES = re.compile(rb'[ \t]*\{[ \t]*"(got|start)"')
_COPY_ENDED = b'{"supervisor": "ended"'  # `chaos.contract.supervisor` writes it
_TOLD = ("committed", "aborted", "unknown")

_SHAPES = {
    "begin": '{"begin": T}, with "ids": [...] if they are known, and "by": NAME if the process has several clients',
    "told": '{"told": "committed", "aborted" or "unknown", "transaction": T}, with "ids": [...] unless its begin had them',
    "got": '{"got": [TOPIC, PARTITION, OFFSET]}, or a list of such places',
    "start": '{"start": [TOPIC, PARTITION, OFFSET]}, with null for an offset that the client chooses, or a list of such places',
}


class ReportedOutcome(NamedTuple):
    """A row of `evidence.TOLD`."""

    transaction: str
    told: str
    id: str | None


class Delivery(NamedTuple):
    """A row of `evidence.DELIVERIES`."""

    instance: str
    seq: int
    event: str
    partition: int
    offset: int | None


def logs(folder: Path, name: str) -> list[Path]:
    """Return the logs of all instances of a process of a run: its own, and those of instances that took over."""
    return sorted((folder / "logs").glob(f"{name}*.log"), key=lambda log: log.stem)


def told(of: Iterable[Path]) -> Iterator[ReportedOutcome]:
    """Yield the outcome of every transaction that these logs begin.

    Raises:
        InconclusiveError: a statement is not one; the message names file and line.
    """
    for log in of:
        open_: dict[tuple[str, str], _Transaction] = {}
        for line in _statements(log, _OF_TRANSACTIONS):
            if line is None:  # the process has ended, so no more outcomes of its transactions come
                yield from (row for one in open_.values() for row in one.rows())
                open_.clear()
            else:
                yield from _told(line, open_)
        yield from (row for one in open_.values() for row in one.rows())


def deliveries(of: Iterable[Path], topic: str) -> Iterator[Delivery]:
    """Yield the deliveries of this topic; those of others are left out.

    Raises:
        InconclusiveError: a statement is not one; the message names file and line.
    """
    for log in of:
        seqs = count()
        for line in _statements(log, _OF_DELIVERIES):
            if line is not None:
                for at, partition, offset in line.places():
                    if at == topic:
                        yield Delivery(line.client, next(seqs), line.word, partition, offset)


# transactions --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Transaction:
    """One transaction, and how many earlier ones used its name (after restarts)."""

    name: str
    ids: list[str]
    told: str = ""
    before: int = 0

    def rows(self) -> Iterator[ReportedOutcome]:
        """Yield rows of unknown outcome, unless its outcome was reported: then its rows are out already."""
        if not self.told:
            yield from self.end("unknown", [])

    def end(self, told: str, ids: list[str]) -> Iterator[ReportedOutcome]:
        name = f"{self.name} (again {self.before})" if self.before else self.name
        known = ids or self.ids
        yield from (ReportedOutcome(name, told, id_) for id_ in known) if known else (ReportedOutcome(name, told, None),)
        self.told, self.ids = told, []


def _told(line: "_Line", known: dict[tuple[str, str], _Transaction]) -> Iterator[ReportedOutcome]:
    """Yield the rows of the transaction that this line ends: the one it names, or the open one before a begin."""
    said = line.said
    line.must(said.keys() <= {line.word, "by", "ids", *(("transaction",) if line.word == "told" else ())})
    name = said.get("begin" if line.word == "begin" else "transaction")
    line.must(_is_name(name))
    place, ids = (line.client, str(name)), line.ids()
    before = known.get(place)
    if line.word == "begin":
        yield from before.rows() if before else ()
        known[place] = _Transaction(f"{line.client} {name}", ids, before=before.before + 1 if before else 0)
        return
    line.must(said["told"] in _TOLD)
    if before is None:
        line.refuse(f'an earlier line that begins transaction {name}: {{"begin": {json.dumps(name)}}}')
    if before.told:
        line.refuse(f'one outcome for each transaction; if several clients have a transaction {name}, add "by": NAME')
    yield from before.end(said["told"], ids)


# lines ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """One statement, and its place.

    Attributes:
        start: number of its process's start, from 1.
        said: the object; None if it is not readable JSON.
    """

    log: Path
    number: int
    text: bytes
    word: str
    start: int
    said: Any

    @property
    def client(self) -> str:
        """The process, the number of its start if it is not the first, and its client if it is named."""
        by = self.said.get("by", "")
        self.must(_is_name(by))
        again = f" start {self.start}" if self.start > 1 else ""
        return f"{self.log.stem}{again} {by}".rstrip()

    def ids(self) -> list[str]:
        ids = self.said.get("ids", [])
        self.must(isinstance(ids, list) and all(_is_name(id_) for id_ in ids))
        return [str(id_) for id_ in ids]

    def places(self) -> list[tuple[str, int, int | None]]:
        """Topic, partition and offset."""
        self.must(self.said.keys() <= {self.word, "by"})
        found = self.said[self.word]
        self.must(isinstance(found, list))
        places = [found] if found and not isinstance(found[0], list) else found
        self.must(all(_is_place(place, open_end=self.word == "start") for place in places))
        return [(topic, partition, offset) for topic, partition, offset in places]

    def must(self, right: object) -> None:
        if not right:
            self.refuse(_SHAPES[self.word])

    def refuse(self, expected: str) -> NoReturn:
        said = one_line(self.text.decode(errors="replace"), 120)
        raise InconclusiveError(
            f"{self.log}:{self.number}: {said}: this line is not a valid statement; expected {expected} (docs/adapters.md)"
        )


def _statements(log: Path, pattern: re.Pattern[bytes]) -> Iterator[_Line | None]:
    """Yield the statements of a log; None where its process has ended and another one begins."""
    start = 1
    half: _Line | None = None
    with log.open("rb") as lines:
        for number, text in enumerate(lines, start=1):
            if half is not None:
                half.must(text == STARTED_AGAIN or text.startswith(_COPY_ENDED))
                half = None
            if text == STARTED_AGAIN:
                start += 1
                yield None
            elif found := pattern.match(text):
                line = _Line(log, number, text, found[1].decode(), start, _json_or_none(text))
                if line.said is None:
                    half = line
                else:
                    line.must(isinstance(line.said, dict))
                    yield line
    if half is not None:
        half.must(not half.text.endswith(b"\n"))


def _json_or_none(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_name(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _is_place(value: object, *, open_end: bool) -> bool:
    match value:
        case [str(), int(partition), None]:
            return open_end and partition >= 0
        case [str(), int(partition), int(offset)]:
            return not isinstance(partition, bool) and partition >= 0 and not isinstance(offset, bool) and offset >= 0
        case _:
            return False
