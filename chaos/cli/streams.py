"""Standard output and standard error that never raise, so that neither decides the exit code of a command.

A closed pipe (`chaos … | head -1`), a full disk, or an encoding that lacks a character would raise in the middle of a command.
Python exits with 1 then, which means INVALID here, or with 120 when it flushes the rest. Instead, text that cannot be written
is dropped, and the command ends with its own code. Only a successful command whose output was lost to a full disk gets another
one: `Output.code`.
"""

import errno
import io
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_DESCRIPTORS = (0, 1, 2)
_NOBODY_READS = frozenset({errno.EPIPE, errno.EBADF})
LOST = 2


class _Stream(io.RawIOBase):
    """Write to a file descriptor, and drop everything after the first failure.

    Attributes:
        failure: why the descriptor could not be written to; None as long as it could.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.failure: OSError | None = None

    def write(self, content: "ReadableBuffer", /) -> int:
        size = memoryview(content).nbytes
        if self.failure is not None:
            return size
        try:
            return os.write(self._descriptor, content)
        except OSError as error:
            self.failure = error
            return size

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


@dataclass(frozen=True, slots=True)
class Output:
    """The standard output of a command."""

    stream: _Stream

    def code(self, code: int) -> int:
        """Return the exit code of a command that ended with `code`; call it last.

        A closed pipe is no failure: its reader has what it wanted. Output that was lost otherwise, to a full disk for example,
        turns success into `LOST`; a failure keeps its own code.
        """
        sys.stdout.flush()
        failure = self.stream.failure
        if failure is not None and failure.errno not in _NOBODY_READS:
            sys.stderr.write(f"chaos: standard output cannot be written: {failure.strerror}\n")
            code = code or LOST
        sys.stderr.flush()
        return code


def guard() -> Output:
    """Make ``sys.stdout`` and ``sys.stderr`` raise no OSError and no UnicodeEncodeError.

    A character that their encoding lacks is written as its escape. A standard stream that the caller closed becomes /dev/null;
    otherwise the next opened file or socket would take its descriptor, and get the printed text.
    """
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
    standard, errors = _Stream(1), _Stream(2)
    sys.stdout = _text(standard, sys.stdout, by_line=standard.isatty())
    sys.stderr = _text(errors, sys.stderr, by_line=True)
    return Output(standard)


def _text(stream: _Stream, before: TextIO | None, *, by_line: bool) -> io.TextIOWrapper:
    """Return a text stream in the encoding of the one before it, which may have been closed."""
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(stream), encoding, "backslashreplace", line_buffering=by_line)
