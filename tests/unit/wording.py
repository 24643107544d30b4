"""What is wrong with a file, as tests ask for it: places and codes. The texts go to a snapshot beside the test.

So a message can be reworded without a change of any test: `pytest --snapshot-update`, and a look at the difference.
"""

import re
from collections.abc import Iterable, Mapping

from chaos.grammar.base import Message, WrongValueError

_LINE = re.compile(r"(?P<file>\S+?\.ya?ml:)?(?P<place>\d+:\d+|[\w.,: -]*?): (?P<text>.+) \[(?P<code>[a-z0-9-]+)\]")

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


def keep(text: str, hidden: Mapping[str, str] | None = None) -> None:
    """Keep a text for the snapshot of the test."""
    for here, instead in (hidden or {}).items():
        text = text.replace(here, instead)
    told.append(text)


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
