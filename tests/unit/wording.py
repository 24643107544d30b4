"""The mistakes of a file, as tests compare them: places and codes. The texts go to a snapshot beside the test.

So a message can be reworded without a change of any test: `pytest --snapshot-update`, and a look at the difference.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TypeVar

import pytest

from chaos.grammar.base import Message, WrongValueError

_Error = TypeVar("_Error", bound=BaseException)

_LINE = re.compile(r"(?P<file>\S+?\.ya?ml:)?(?P<place>\d+:\d+|[\w.,: -]*?): (?P<text>.+) \[(?P<code>[a-z0-9-]+)\]")

_WAITED = re.compile(r"waited \d[\d.]* s")

told: list[str] = []
"""The texts of the test that runs now; `tests/unit/conftest.py` compares them with its snapshot at its end."""


def mistakes_in(error: object, hidden: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Place and code of each line of an error; its text is kept for the snapshot of the test.

    Args:
        hidden: what the text has in it that is not the same everywhere, and what the snapshot has instead.
    """
    keep(str(error), hidden)
    lines = [_LINE.fullmatch(line) for line in str(error).splitlines()]
    assert lines, "an error says something"
    assert all(lines), f"each line is `file:line:col: message [code]`: {error}"
    return [(line["place"], line["code"]) for line in lines if line]


@contextmanager
def raised(
    kind: type[_Error], *names: object, hidden: Mapping[str, str] | None = None
) -> Generator[pytest.ExceptionInfo[_Error], None, None]:
    """Expect an error; its text is kept for the snapshot of the test.

    Args:
        names: what the text must name, whatever its words are: a file, a number, an option.
        hidden: what the text has in it that is not the same everywhere, and what the snapshot has instead.
    """
    with pytest.raises(kind) as caught:
        yield caught
    named(str(caught.value), *names, hidden=hidden)


def named(text: str, *names: object, hidden: Mapping[str, str] | None = None) -> str:
    """Keep a text, and require that it names these: a file, a number, an option; return it as it was."""
    missing = [str(name) for name in names if str(name) not in text]
    assert not missing, f"{missing} not in: {text}"
    return keep(text, hidden)


def keep(text: str, hidden: Mapping[str, str] | None = None) -> str:
    """Keep a text for the snapshot of the test, and return it as it was; how long was waited is not kept."""
    kept = _WAITED.sub("waited <time>", text)
    for here, instead in (hidden or {}).items():
        kept = kept.replace(here, instead)
    told.append(kept)
    return text


def code_of(error: WrongValueError) -> str:
    """The code of a value that is refused; the text is kept for the snapshot of the test."""
    keep(str(error))
    return error.code


def codes_of(messages: Iterable[Message]) -> list[str]:
    """The codes of messages; their texts are kept for the snapshot of the test."""
    found = list(messages)
    for message in found:
        keep(message)
    return [message.code for message in found]
