"""Placeholders in the words of a command: ``{source}`` is replaced, ``{{source}}`` becomes ``{source}``, other braces stay."""

import re
from collections.abc import Collection, Mapping

from chaos.subject.base import Topics

_WORD = re.compile(r"\{\{(?P<literal>[a-z_]+)\}\}|\{(?P<name>[a-z_]+)\}")


def of_topics(topics: Topics) -> dict[str, str]:
    """What is known of a run before its system is."""
    suffix = topics.source.removeprefix(topics.prefix).partition("-")[2]
    return {"source": topics.source, "sink": topics.sink, "prefix": topics.prefix, "suffix": suffix}


def names_in(text: str) -> tuple[str, ...]:
    """The names of the placeholders in a text, in order."""
    return tuple(match["name"] for match in _WORD.finditer(text) if match["name"])


def check(text: str, known: Collection[str]) -> None:
    """Check every placeholder in a text.

    Args:
        known: the placeholders that there are.

    Raises:
        ValueError: one is unknown; the message names it and the known ones.
    """
    unknown = [name for name in names_in(text) if name not in known]
    if unknown:
        there = ", ".join(f"{{{name}}}" for name in known)
        raise ValueError(
            f"{{{unknown[0]}}} in {text!r} is not a placeholder; there are {there}, and {{{{word}}}} for a literal {{word}}"
        )


def by_partition(texts: tuple[str, ...], values: Mapping[str, str], partitions: int) -> tuple[str, ...]:
    """The texts with placeholders replaced, ``{partition}`` by the place of each; a single one stands for all partitions."""
    each = texts * partitions if len(texts) == 1 else texts
    return tuple(substituted(text, {**values, "partition": str(number)}) for number, text in enumerate(each))


def alone(text: str) -> str:
    """The name of the placeholder that is all of this text; "" if it is more than one, or another text."""
    match = _WORD.fullmatch(text)
    return match["name"] or "" if match else ""


def spelled(value: object) -> str:
    """A value of YAML as it is written there."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def partly_substituted(text: str, values: Mapping[str, str]) -> str:
    """The text with these placeholders replaced, and all others left as they are, ``{{word}}`` too."""
    return _WORD.sub(lambda match: values.get(match["name"] or "", match[0]), text)


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
