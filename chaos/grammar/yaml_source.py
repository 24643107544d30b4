"""Reads YAML into values that keep their line and column, for errors of the form ``file:line:col: message [code]``."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, merge_attrib
from ruamel.yaml.constructor import ConstructorError, DuplicateKeyError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLWarning
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.reader import ReaderError

from chaos.common.errors import ScenarioError
from chaos.grammar.base import Location, Message, Mistake, as_line

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column, both counted from 1."""

    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class SyntaxProblem(Exception):  # noqa: N818 - never leaves this package: `load` turns it into a ScenarioError
    """The text is not YAML."""

    def __init__(self, place: Place, message: Message) -> None:
        super().__init__(message)
        self.place, self.message = place, message


class _Constructor(RoundTripConstructor):
    """Reports values and keys that Python cannot hold (`!!int x`, `? {a: b}`) with their place; leaves dates as texts."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as overridden
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise ConstructorError(None, None, f"this value cannot be read: {error}", node.start_mark) from error

    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        if not isinstance(key_node, ScalarNode):
            raise ConstructorError(None, None, "a key must be a word, not a list or a mapping", key_node.start_mark)
        return bool(super().check_mapping_key(node, key_node, mapping, key, value))

    def construct_text(self, node: ScalarNode) -> str:
        return str(node.value)


_Constructor.add_constructor(_TIMESTAMP, _Constructor.construct_text)


def parse(text: str) -> Any:
    """Read one YAML document.

    Returns:
        Mappings and lists of ruamel.yaml, which know their places; None for an empty text.

    Raises:
        SyntaxProblem: it is not YAML; only the first mistake is reported.
    """
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", YAMLWarning)  # about an anchor that is defined twice, which is allowed here
            return yaml.load(text)
    except MarkedYAMLError as error:
        raise SyntaxProblem(*_explained(error)) from None
    except ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        character = f"U+{ord(text[error.position]):04X}"
        text = f"the character {character} is not allowed in YAML; remove it"
        raise SyntaxProblem(place, Message("bad-character", text)) from None
    except RecursionError:
        raise SyntaxProblem(Place(), Message("nested-too-deeply", "this is nested too deeply")) from None


def place_of(tree: Any, location: Location, *, at_key: bool = False) -> Place:
    """The place of the deepest part of the location that is in the file.

    Args:
        tree: from `parse`.
        location: keys and indices; parts that are not in the tree, such as pydantic's tags of unions, are skipped.
        at_key: whether to return the place of the last key instead of the place of its value.
    """
    node, place = tree, Place()
    for number, part in enumerate(location, start=1):
        if (key := _key(node, part)) is not None:
            place = _below(node, key[0], at_key=at_key and number == len(location))
            node = node[key[0]]
    return place


def copied(node: Any, known: dict[int, Any] | None = None) -> Any:
    """Copy a parsed value with its places and without its comments, which take most of the time of a deep copy.

    Args:
        known: `id` of a node -> its copy, so that an alias stays an alias.
    """
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    whole: Any
    if isinstance(node, CommentedMap):
        whole = known[id(node)] = CommentedMap()
        for key in node:
            whole[key] = copied(node[key], known)
        setattr(whole, merge_attrib, node.merge)
    elif isinstance(node, CommentedSeq):
        whole = known[id(node)] = CommentedSeq()
        whole.extend(copied(inner, known) for inner in node)
    else:
        return node
    marks = node.lc.data
    whole.lc.line, whole.lc.col, whole.lc.data = node.lc.line, node.lc.col, dict(marks) if marks else marks
    return whole


def _key(node: Any, part: str | int) -> tuple[Any] | None:
    """Find the key or index of this part; it is in a tuple because None can be a key."""
    if isinstance(node, CommentedSeq):
        return (part,) if isinstance(part, int) and part < len(node) else None
    if isinstance(node, CommentedMap):
        return next(((key,) for key in node if str(key) == str(part)), None)
    return None


def _below(node: Any, key: Any, *, at_key: bool) -> Place:
    """The place of a key, an element or a value; for a value merged with `<<`, the place at its anchor."""
    owner = next(owner for owner in _owners(node) if key in (owner.lc.data or {}))
    marks = owner.lc.data[key]
    # A missing value has no place of its own.
    line, column = marks[:2] if at_key or isinstance(node, CommentedSeq) or node[key] is None else marks[2:4]
    return Place(line + 1, column + 1)


def _owners(node: Any) -> Iterator[Any]:
    yield node
    for merged in node.merge if isinstance(node, CommentedMap) else ():
        yield from _owners(merged)


def _explained(error: MarkedYAMLError) -> tuple[Place, Message]:
    problem, context = error.problem or "", error.context or ""
    unclosed = "stream end" in problem and error.context_mark
    mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
    place = Place(mark.line + 1, mark.column + 1) if mark else Place()
    if isinstance(error, DuplicateKeyError) and (key := re.match(r'found duplicate key "(.*?)" with', problem)):
        return place, Message("key-twice", f"{key[1]!r} occurs twice; keep one")
    return place, Message("not-yaml", ": ".join(part.splitlines()[0] for part in (context, problem) if part))


def read(path: Path) -> str:
    """Read the text of a file.

    Raises:
        ScenarioError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def tree_of(text: str, path: Path, nothing: Message) -> Mapping[str, Any]:
    """Parse a text that must be a mapping; values as in `parse`.

    Args:
        nothing: the message for a text that is not a mapping, and so declares nothing.

    Raises:
        ScenarioError: the text is not YAML, or not a mapping.
    """
    try:
        tree = parse(text)
    except SyntaxProblem as error:
        raise ScenarioError(as_line(f"{path}:{error.place}", error.message)) from None
    if not isinstance(tree, Mapping):
        raise ScenarioError(as_line(f"{path}:{Place()}", nothing))
    return tree


def wrong_at(mistakes: Iterable[Mistake], tree: Any, path: Path) -> ScenarioError:
    """Return an error with one line for each mistake, in the order of the file."""
    placed = {(place_of(tree, found.location, at_key=found.at_key), found.message) for found in mistakes}
    return ScenarioError("\n".join(as_line(f"{path}:{place}", message) for place, message in sorted(placed)))
