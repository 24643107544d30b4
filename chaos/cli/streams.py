"""Standard output and standard error that a command can always write to, so that neither decides how it ends.

A reader that is gone (`chaos … | head -1`), a full disk, or an encoding that lacks a character would raise in the middle of the
command. Python ends with 1 then, which means INVALID here, or with 120 when it flushes what is left. Instead, what cannot be
written is dropped, and the command ends with its own code. Only a command that ended well although its output was lost to a
full disk ends with another one: `Output.code`.
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
    """Writes to a file descriptor, and drops what comes after the first failure.

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
        """The exit code of a command that ended with `code`; call it last.

        A reader that went away has what it wanted. Output that was lost otherwise, to a full disk for example, turns success
        into `LOST`; a failure keeps its own code.
        """
        sys.stdout.flush()
        failure = self.stream.failure
        if failure is not None and failure.errno not in _NOBODY_READS:
            sys.stderr.write(f"chaos: standard output cannot be written: {failure.strerror}\n")
            code = code or LOST
        sys.stderr.flush()
        return code


def guard() -> Output:
    """From now on ``sys.stdout`` and ``sys.stderr`` raise no OSError and no UnicodeEncodeError.

    A character that their encoding lacks is written as its escape. A standard stream that was closed by the caller
    becomes /dev/null, or the next file or socket that is opened would take its descriptor, and get what is printed.
    """
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free, which is this one
    standard, errors = _Stream(1), _Stream(2)
    sys.stdout = _text(standard, sys.stdout, by_line=standard.isatty())
    sys.stderr = _text(errors, sys.stderr, by_line=True)
    return Output(standard)


def _text(stream: _Stream, before: TextIO | None, *, by_line: bool) -> io.TextIOWrapper:
    """A text stream in the encoding of the one before it, which may have been closed."""
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(stream), encoding, "backslashreplace", line_buffering=by_line)
