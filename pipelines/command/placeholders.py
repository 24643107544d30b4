"""Placeholders in the words of a user's command; `pipelines.command.pipeline` says what they stand for."""

import re
from collections.abc import Mapping

PLACEHOLDERS = ("bootstrap", "source", "sink", "folder", "prefix", "suffix", "java", "kafka_tools", "partition")
_WORD = re.compile(r"\{\{(?P<literal>[a-z_]+)\}\}|\{(?P<name>[a-z_]+)\}")


def placeholders(text: str) -> tuple[str, ...]:
    """The names in a text, in order."""
    return tuple(match["name"] for match in _WORD.finditer(text) if match["name"])


def check(text: str) -> None:
    """Look at every placeholder.

    Raises:
        ValueError: one is unknown; the message names it and those that there are.
    """
    unknown = [name for name in placeholders(text) if name not in PLACEHOLDERS]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(
            f"{{{unknown[0]}}} in {text!r} is no placeholder; there are {known}, and {{{{word}}}} for a literal one"
        )


def substituted(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders replaced.

    Raises:
        ValueError: one of them has no value here.
    """

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        if match["name"] not in values:
            raise ValueError(f"{{{match['name']}}} in {text!r} has no value here")
        return values[match["name"]]

    return _WORD.sub(value, text)
