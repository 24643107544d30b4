"""A declaration that stands in a file: its text, its values, and its mistakes as ``file:line:col: what``."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chaos.common.errors import ScenarioError
from chaos.grammar.error_messages import Mistake
from chaos.grammar.yaml_source import SyntaxProblem, parse, place_of


def read(path: Path) -> str:
    """The text of a file.

    Raises:
        ScenarioError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def tree_of(text: str, path: Path, nothing: str) -> Mapping[str, Any]:
    """A text as values.

    Args:
        nothing: what to say of one that declares nothing.

    Raises:
        ScenarioError: it is no YAML, or no mapping.
    """
    try:
        tree = parse(text)
    except SyntaxProblem as error:
        raise ScenarioError(f"{path}:{error.place}: {error}") from None
    if not isinstance(tree, Mapping):
        raise ScenarioError(f"{path}:1:1: {nothing}")
    return tree


def wrong_at(mistakes: Iterable[Mistake], tree: Any, path: Path) -> ScenarioError:
    """One line for each mistake, in the order of the file."""
    placed = {(place_of(tree, found.location, at_key=found.at_key), found.message) for found in mistakes}
    return ScenarioError("\n".join(f"{path}:{place}: {message}" for place, message in sorted(placed)))
