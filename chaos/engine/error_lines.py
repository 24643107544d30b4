"""Which lines of a program's log tell its error.

A program rarely ends with it: an orderly shutdown, a supervisor or a stack trace comes after. There is no standard for logs, so
a line is judged by its looks. Two kinds are told apart: what a runtime prints of an error that nobody caught, and what programs
and clients log while they go on, which matters less.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from pathlib import Path

from chaos.common.errors import one_line

_TAIL_BYTES = 65_536
_MOST_CHARACTERS = 300
_SUPERVISED = re.compile(rb'\{"supervisor": "(?P<event>\w+)"')  # of `chaos.contract.supervisor`
_ENDED = frozenset({b"ended", b"stopped"})
_LOADED = b'{"event": "loaded"'

_FRAME = re.compile(rb"\s+(at \S+\(|\.\.\. \d+ (more|common frames omitted)$)")
_LOGGED = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN) ")  # by Spark's own pattern
_NAMED = re.compile(rb"(Error|Exception)\b")

_TRACEBACK = b"Traceback (most recent call last):"
_UNCAUGHT = re.compile(
    rb"""
      (?:Uncaught\ |Unhandled\ )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Interrupt)(?::|$)  # Java, Python
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
_LEVEL_AT_MOST = 120  # bytes from the begin of a line within which its level is


def last_line(log: Path) -> str:
    """The last line that is not blank, shortened; "" if there is none, or no log.

    After a program has told its error, its supervisor tells that it has ended, and Java how it came there: these lines are
    passed over where there is more. So is what Spark logs while it stops, where an error is told before it.
    """
    lines = [line for line in reversed(_tail(log)) if line.strip()]
    told = [*filterfalse(_says_nothing_of_the_error, lines)] or [*lines[:1], b""]
    error = next(filterfalse(_LOGGED.match, told), b"")
    return _text(error if _NAMED.search(error) else told[0])


def last_errors(log: Path, most: int = 1) -> list[str]:
    """The last lines that look like an error, shortened, in their order; no line is there twice. Empty where none does.

    Where an error was not caught, what was only logged before is left out.
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
    """What a runtime prints of an error that nobody caught; of a traceback of Python its last line, whatever that is called."""
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
    """Whether its level is that of an error. Of one that has two, the first is its level: ``WARN Lost task (an Error)``."""
    head = line[:_LEVEL_AT_MOST]
    grave, harmless = _GRAVE.search(head), _HARMLESS.search(head)
    return grave is not None and (harmless is None or grave.start() <= harmless.start()) and not _is_event(line)


def _is_event(line: bytes) -> bool:
    """Whether a program reports with it what it does (docs/adapters.md)."""
    if not line.startswith(b'{"event"'):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _says_nothing_of_the_error(line: bytes) -> bool:
    """Whether this says that a program ended, or how far a loader came, or is a place in the stack of a Java error."""
    supervised = _SUPERVISED.match(line)
    said = supervised is not None and supervised["event"] in _ENDED
    return said or _FRAME.match(line) is not None or line.startswith(_LOADED)


def _text(line: bytes) -> str:
    return one_line(line.decode(errors="replace"), _MOST_CHARACTERS)
