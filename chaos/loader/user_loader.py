"""The process that runs a user's own loader, and keeps the ledger from the lines that it prints (docs/adapters.md).

    {"sent": 7}                                 before the record is handed to the client
    {"ok": 7, "partition": 2, "offset": 118}    acknowledged at this place; the offset is null if the client does not know it
    {"fail": 7, "error": "…"}                   refused for good; the record is not in the log

The ledger is CSV ``id,outcome,partition,offset,name,error``: ids number the sent records, the name is the loader's own, and an
outcome is one of those in `chaos.loader.plain`. The ledger is moved into place when the loader has ended, and only if every
line was understood: with half a ledger, true records would look like records that nobody sent.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, TextIO

from chaos.common.errors import one_line
from chaos.common.messages import say
from chaos.common.signals import die_with_parent
from chaos.contract.variables import of_program

COLUMNS = ("id", "outcome", "partition", "offset", "name", "error")
SHAPES: Mapping[str, str] = {
    "sent": '{"sent": ID}',
    "ok": '{"ok": ID, "partition": P, "offset": O}, with null for an offset that the client does not know',
    "fail": '{"fail": ID, "error": "why"}',
}
_KEYS = {"sent": {"sent"}, "ok": {"ok", "partition", "offset"}, "fail": {"fail", "error"}}
_STOP_WITHIN_S = 5
_Name = tuple[str, str]


class StatementError(Exception):
    """A line is not a valid statement of a loader; the message has its number, its text, and the expected form."""


class Ledger:
    """Ledger of a user's loader, built from its lines.

    Attributes:
        sent: records that the loader has sent.
        refused: records that were refused for good.
    """

    def __init__(self, into: TextIO, partitions: int, records: int) -> None:
        """Begin the ledger with its header.

        Args:
            records: the number of records that are declared, and may be sent.
        """
        self._out = csv.writer(into, lineterminator="\n")
        self._partitions = partitions
        self._records = records
        self._open: dict[_Name, int] = {}
        self.sent = 0
        self.refused = 0
        self._out.writerow(COLUMNS)

    def read(self, lines: Iterable[bytes]) -> None:
        """Record every line. A killed loader may leave half a line at the end, which is ignored.

        Raises:
            StatementError: a line is not a valid statement of a loader.
        """
        for number, text in enumerate(lines, start=1):
            if text.strip():
                line = _Line(number, text)
                if line.said is None and not text.endswith(b"\n"):
                    return
                self._take(line)

    def close(self) -> None:
        """Record the outcome of records without an answer as unknown."""
        for (_, name), id_ in self._open.items():
            self._out.writerow((id_, "unknown", "", "", one_line(name), ""))

    def _take(self, line: "_Line") -> None:
        line.must_be_known()
        name = line.name()
        if line.word == "sent":
            self._begin(line, name)
            return
        if name not in self._open:
            line.refuse(f'the line {{"sent": {json.dumps(name[1])}}} before it, and one answer for each record')
        if line.word == "ok":
            place, error = line.place(self._partitions), ""
        else:
            place, error = ("", ""), line.error()
            self.refused += 1
        self._out.writerow((self._open.pop(name), line.word, *place, one_line(name[1]), one_line(error)))

    def _begin(self, line: "_Line", name: _Name) -> None:
        if name in self._open:
            line.refuse(f"an ID that is unique among unanswered records: {name[1]!r} was sent before, and has no answer yet")
        if self.sent == self._records:
            line.refuse(f"at most the {self._records} records that the workload declares; declare as many as the loader sends")
        self._open[name] = self.sent
        self.sent += 1


class _Line:
    """One line of a loader, with its number.

    Attributes:
        said: the object; None if the line is not JSON.
        word: its first key.
    """

    def __init__(self, number: int, text: bytes) -> None:
        self._number, self._text = number, text
        try:
            self.said: Any = json.loads(text)
        except (ValueError, RecursionError):
            self.said = None
        self.word = next(iter(self.said), "") if isinstance(self.said, dict) else ""

    def must_be_known(self) -> None:
        if self.word not in SHAPES:
            self.refuse(f"one of {', '.join(SHAPES.values())}; a loader prints everything else to standard error")
        if not self.said.keys() <= {*_KEYS[self.word], "by"}:
            self.refuse(SHAPES[self.word])

    def name(self) -> _Name:
        """Return the client, if there are several, and its own name of the record."""
        by, name = self.said.get("by", ""), self.said[self.word]
        if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in (by, name)):
            self.refuse(f"a text or a number as ID: {SHAPES[self.word]}")
        return str(by), str(name)

    def place(self, partitions: int) -> tuple[str, str]:
        partition, offset = self.said.get("partition"), self.said.get("offset", -1)
        if not _is_number(partition) or (offset is not None and not _is_number(offset)):
            self.refuse(SHAPES["ok"])
        if partition >= partitions:
            self.refuse(f"a partition of the topic, from 0 to {partitions - 1}")
        return str(partition), "" if offset is None else str(offset)

    def error(self) -> str:
        error = self.said.get("error", "")
        if not isinstance(error, str):
            self.refuse(SHAPES["fail"])
        return str(error)

    def refuse(self, expected: str) -> NoReturn:
        text = one_line(self._text.decode(errors="replace"), 120)
        raise StatementError(f"line {self._number} of the loader's output is not understood: {text}; expected {expected}")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# the process ------------------------------------------------------------------------------------------------------------


class _TookTooLong(Exception):  # noqa: N818 - not an error of this process
    """The loader did not stop in time, and is killed; processes that it started may still hold its output open."""


def command(words: Sequence[str], records: int, partitions: int, ledger: Path, folder: str = "") -> tuple[str, ...]:
    """Return the command of the process that runs the loader's command.

    Args:
        folder: the folder in which the loader runs; "" for that of the process.
    """
    given = {"--words": json.dumps(words), "--records": records, "--partitions": partitions, "--ledger": ledger}
    given |= {"--folder": folder} if folder else {}
    return (sys.executable, "-m", __name__, *(word for option, value in given.items() for word in (option, str(value))))


def main() -> None:
    """Run the loader to its end, or until SIGTERM, which is passed on; exit like the loader, whose last lines end the log."""
    parser = argparse.ArgumentParser(description="run a loader, and keep its ledger")
    for name, kind in (("words", json.loads), ("records", int), ("partitions", int), ("ledger", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--folder")
    asked = parser.parse_args()
    under_way = asked.ledger.with_suffix(".part")
    with under_way.open("w", encoding="utf-8", newline="") as into:
        ledger = Ledger(into, asked.partitions, asked.records)
        code = _run(asked.words, asked.folder, ledger.read)
        ledger.close()
    under_way.replace(asked.ledger)
    refused = {"refused": ledger.refused} if ledger.refused else {}
    say("loaded", records=ledger.sent, **refused, **({"failed": True} if code else {}))
    if code < 0:
        sys.exit(f"the loader was killed by {signal.Signals(-code).name}")
    sys.exit(code)


def _run(words: Sequence[str], folder: str | None, read: Callable[[IO[bytes]], None]) -> int:
    """Run the loader, and return its exit code; 0 if it was stopped by SIGTERM."""
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=of_program(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        sys.exit(f"the loader cannot be started: {error}")
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        process.terminate()
        signal.alarm(_STOP_WITHIN_S)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, _give_up)
    try:
        read(process.stdout)
        code = process.wait()
    except StatementError as error:
        sys.exit(str(error))
    except _TookTooLong:
        code = 0
    finally:
        signal.alarm(0)
        process.kill()
    return 0 if told else code


def _give_up(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TookTooLong


if __name__ == "__main__":
    main()
