"""Placeholders in the words of a command: ``{source}`` is replaced, ``{{source}}`` becomes ``{source}``, other braces stay.

The names of topics are placeholders too, and may have characters that others have not: ``{page-views.v1}`` is one where a topic
is called so, and stays as it is where none is.
"""

import re
from collections.abc import Collection, Mapping

from chaos.contract.base import Topics

MEANINGS: Mapping[str, str] = {
    "bootstrap": "the bootstrap servers, at a listener of its own",
    "source": "the first topic that it reads; of a loader, the one that it fills",
    "sink": "the topic that it writes; of a table its path or name",
    "partition": "a partition of the source: one copy of the command, or one transactional id, for each",
    "checkpoint": "where the query must keep its checkpoint",
    "folder": "the folder for the files of this run",
    "project": "the folder of the scenarios file",
    "prefix": "what every name begins with on a cluster that others use; empty on one of our own",
    "suffix": "what the topics of this run end with",
    "records": "how many records are to be sent",
    "rate": "how many of them in a second",
    "seed": "a number that is the same for the same seed of the run",
    "instance": "1, and the number of each further instance that the fault ``scale`` starts",
    "python": "the Python that runs this framework",
    "java": "the Java that runs the system",
    "kafka_tools": "the class path of Kafka's own programs and of Kafka Streams, in the version that ``chaos parts`` prints",
    "packages": "the class path of the pipeline's ``packages``",
}
"""What the placeholders stand for; which kind of pipeline has which is said beside it."""
RESERVED = frozenset(MEANINGS) - {"records", "rate", "seed"}
"""Those that a pipeline of any kind may have, so no topic is called so; the three are of a loader alone."""

_WORD = re.compile(r"\{\{(?P<literal>[A-Za-z0-9._-]+)\}\}|\{(?P<name>[A-Za-z0-9._-]+)\}")
_CERTAIN = re.compile(r"[a-z_]+")  # what looks so is a placeholder, or a mistake


def of_topics(topics: Topics) -> dict[str, str]:
    """What is known of a run before its system is."""
    names = {"source": topics.sources[0].name, "sink": topics.sink}
    return {**topics.names, **names, "prefix": topics.prefix, "suffix": topics.suffix}


def names_in(text: str) -> tuple[str, ...]:
    """The names of the placeholders in a text, in order; also what is one only if a topic is called so."""
    return tuple(match["name"] for match in _WORD.finditer(text) if match["name"])


def check(text: str, known: Collection[str]) -> None:
    """Check every placeholder in a text.

    Args:
        known: the placeholders that there are.

    Raises:
        ValueError: one is unknown; the message names it and the known ones.
    """
    unknown = [name for name in names_in(text) if name not in known and _CERTAIN.fullmatch(name)]
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
    name = match["name"] if match else None
    return name if name and _CERTAIN.fullmatch(name) else ""


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
        name = match["literal"] or match["name"]
        if name not in values and not _CERTAIN.fullmatch(name):
            return match[0]
        if match["literal"]:
            return f"{{{name}}}"
        if name not in values:
            raise ValueError(f"{{{name}}} in {text!r} has no value here")
        return values[name]

    return _WORD.sub(value, text)
