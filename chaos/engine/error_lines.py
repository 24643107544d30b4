"""Finding the lines of a program's log that show its error.

The error is rarely the last line: an orderly shutdown, a supervisor or a stack trace follows. There is no standard for logs, so
a line is judged by its looks. There are two kinds: lines that a runtime prints for an uncaught error, and lines that programs
and clients log while they go on, which matter less.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from pathlib import Path

from chaos.common.errors import one_line

_TAIL_BYTES = 65_536
_MOST_CHARACTERS = 300
_SUPERVISED = re.compile(rb'\{"supervisor": "(?P<event>\w+)"')  # printed by `chaos.contract.supervisor`
_ENDED = frozenset({b"ended", b"stopped"})
_LOADED = b'{"event": "loaded"'

_FRAME = re.compile(rb"\s+(at \S+\(|\.\.\. \d+ (more|common frames omitted)$)")
_LOGGED = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN) ")  # Spark's own pattern
_NAMED = re.compile(rb"(Error|Exception)\b")

_TRACEBACK = b"Traceback (most recent call last):"
_UNCAUGHT = re.compile(
    rb"""
      (?:Uncaught\ |Unhandled\ )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt)(?::|$)  # Java, Python
    | (?:[A-Z]\w*)?Error\ \[\w+\]:                                  # Node.js
    | Exception\ in\ thread\ | Caused\ by:\ | Fatal\ Python\ error:
    | panic:\ | fatal\ error:\ | thread\ '.*'.*\ panicked\ at       # Go, Rust
    | terminate\ called\ | (?:\S*:\ )?Segmentation\ fault | \#\ A\ fatal\ error\  # C++, the JVM
    | Unhandled\ exception | UnhandledPromiseRejection | npm\ ERR!
    """,
    re.VERBOSE,
)
_HARMLESS = re.compile(rb"(?i)\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING)\b|^%[4-7]\|")
_GRAVE = re.compile(
    rb"""
      \b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERG|ALERT)\b         # the level of a line, by its usual names
    | ^%[0-3]\|\d                                                   # of librdkafka: %3|1795887001.421|FAIL|rdkafka#1|
    | ["']?(?:level|severity|lvl)["']?\s*[:=]\s*["']?(?i:error|fatal|critical|panic)\b
    | ^(?i:error|fatal)\b\S*:
    """,
    re.VERBOSE,
)
_LEVEL_AT_MOST = 120  # bytes from the start of a line that hold its level


def last_line(log: Path) -> str:
    """Return the last line that is not blank, shortened; "" if there is none, or no log.

    Behind a program's error come its supervisor's report of the end, and Java's stack trace: these lines are skipped if there
    are others. So are Spark's lines while it stops, if an error comes before them.
    """
    lines = [line for line in reversed(_tail(log)) if line.strip()]
    told = [*filterfalse(_says_nothing_of_the_error, lines)] or [*lines[:1], b""]
    error = next(filterfalse(_LOGGED.match, told), b"")
    return _text(error if _NAMED.search(error) else told[0])


def last_errors(log: Path, most: int = 1) -> list[str]:
    """Return the last lines that look like an error, shortened, in their order, each once; empty if none does.

    Before an uncaught error, lines that were only logged are left out.
    """
    lines = _tail(log)
    uncaught = [*_uncaught(lines)]
    found = uncaught or [line for line in lines if _is_grave(line)]
    return [_text(line) for line in dict.fromkeys(reversed(found))][:most][::-1]


def _tail(log: Path) -> list[bytes]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return [line.rstrip(b"\r") for line in file.read().split(b"\n")]


def _uncaught(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of uncaught errors; of a Python traceback the last line, whatever its error is called."""
    in_traceback = False
    for line in lines:
        if line.lstrip(b" |+").startswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and line.strip() and not line.startswith((b" ", b"\t")):
            in_traceback = False
            yield line
        elif not in_traceback and _UNCAUGHT.match(line):
            yield line


def _is_grave(line: bytes) -> bool:
    """Whether its level is that of an error. The first level in a line counts: ``WARN Lost task (an Error)``."""
    head = line[:_LEVEL_AT_MOST]
    grave, harmless = _GRAVE.search(head), _HARMLESS.search(head)
    return grave is not None and (harmless is None or grave.start() <= harmless.start()) and not _is_event(line)


def _is_event(line: bytes) -> bool:
    """Whether the line is a program's report of an event (docs/adapters.md)."""
    if not line.startswith(b'{"event"'):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _says_nothing_of_the_error(line: bytes) -> bool:
    """Whether this reports the end of a program, or a loader's progress, or is a place in the stack of a Java error."""
    supervised = _SUPERVISED.match(line)
    said = supervised is not None and supervised["event"] in _ENDED
    return said or _FRAME.match(line) is not None or line.startswith(_LOADED)


def _text(line: bytes) -> str:
    return one_line(line.decode(errors="replace"), _MOST_CHARACTERS)
