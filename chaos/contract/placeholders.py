"""Placeholders in the words of a command: ``{source}`` is replaced, ``{{source}}`` becomes ``{source}``, other braces stay.

The names of topics are placeholders too, and may have further characters: ``{page-views.v1}`` is replaced if a topic has this
name, and stays as it is otherwise.
"""

import re
from collections.abc import Collection, Mapping

from chaos.contract.base import Topics

MEANINGS: Mapping[str, str] = {
    "bootstrap": "the bootstrap servers, at the listener of this client",
    "source": "the first topic that it reads; for a loader, the one that it fills",
    "sink": "the topic that it writes; for a table its path or name",
    "partition": "a partition of the source: one copy of the command, or one transactional id, for each",
    "checkpoint": "where the query must keep its checkpoint",
    "folder": "the folder for the files of this run",
    "project": "the folder of the scenarios file",
    "prefix": "the beginning of every name on a cluster that others use; empty on a cluster of the run's own",
    "suffix": "the end of this run's topic names",
    "records": "the number of records to send",
    "rate": "records per second",
    "seed": "a number that follows from the seed of the run",
    "instance": "1, and the number of each further instance that the fault ``scale`` starts",
    "python": "the Python that runs this framework; with packages of PyPI, that of their environment",
    "java": "the Java that runs the system",
    "kafka_tools": "the class path of Kafka's own programs and of Kafka Streams, in the version that ``chaos parts`` prints",
    "packages": "the class path of the pipeline's ``packages``, or the folder that they are in",
}
"""Placeholder -> its meaning; each kind of pipeline lists the ones that it has."""
RESERVED = frozenset(MEANINGS) - {"records", "rate", "seed"}
"""Names that no topic may have, since a pipeline may have these placeholders; the three left out belong to loaders alone."""

_WORD = re.compile(r"\{\{(?P<literal>[A-Za-z0-9._-]+)\}\}|\{(?P<name>[A-Za-z0-9._-]+)\}")
_CERTAIN = re.compile(r"[a-z_]+")  # such a word in braces is a placeholder, or a mistake


def of_topics(topics: Topics) -> dict[str, str]:
    """Return the values that are known before the system runs."""
    names = {"source": topics.sources[0].name, "sink": topics.sink}
    return {**topics.names, **names, "prefix": topics.prefix, "suffix": topics.suffix}


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text, in order, with those that need a topic of that name."""
    return tuple(match["name"] for match in _WORD.finditer(text) if match["name"])


def check(text: str, known: Collection[str]) -> None:
    """Check every placeholder in a text.

    Args:
        known: the placeholders that exist here.

    Raises:
        ValueError: one is unknown; the message names it and the known ones.
    """
    unknown = [name for name in names_in(text) if name not in known and _CERTAIN.fullmatch(name)]
    if unknown:
        there = ", ".join(f"{{{name}}}" for name in known)
        raise ValueError(
            f"{{{unknown[0]}}} in {text!r} is not a placeholder; use one of {there}, or {{{{word}}}} for a literal {{word}}"
        )


def by_partition(texts: tuple[str, ...], values: Mapping[str, str], partitions: int) -> tuple[str, ...]:
    """Replace placeholders in the texts, ``{partition}`` by the place of each; a single text stands for all partitions."""
    each = texts * partitions if len(texts) == 1 else texts
    return tuple(substituted(text, {**values, "partition": str(number)}) for number, text in enumerate(each))


def alone(text: str) -> str:
    """Return the name of the placeholder that is this whole text; "" for any other text."""
    match = _WORD.fullmatch(text)
    name = match["name"] if match else None
    return name if name and _CERTAIN.fullmatch(name) else ""


def spelled(value: object) -> str:
    """Return a value in YAML's spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def partly_substituted(text: str, values: Mapping[str, str]) -> str:
    """Replace these placeholders, and leave all others as they are, ``{{word}}`` too."""
    return _WORD.sub(lambda match: values.get(match["name"] or "", match[0]), text)


def substituted(text: str, values: Mapping[str, str]) -> str:
    """Replace all placeholders of the text.

    Raises:
        ValueError: one of them has no value here.
    """

    def value(match: re.Match[str]) -> str:
        name = match["literal"] or match["name"]
        if name not in values and not _CERTAIN.fullmatch(name):
            return match[0]
        if match["literal"]:
            return f"{{{name}}}"
        if name not in values:
            raise ValueError(f"{{{name}}} in {text!r} has no value here")
        return values[name]

    return _WORD.sub(value, text)
