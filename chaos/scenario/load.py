"""YAML -> values; or every error at once, each as `file:line:col: what (did you mean …)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from chaos.errors import ScenarioError
from chaos.scenario import checks
from chaos.scenario.keys import known_keys
from chaos.scenario.model import Scenario, ScenarioFileModel, SystemSpec

Location = tuple[str | int, ...]
_PLAIN = {
    "missing": "{key!r} is missing",
    "int_type": "{value!r} is no whole number",
    "int_from_float": "{value!r} is no whole number",
    "bool_type": "{value!r} is neither true nor false",
    "string_type": "{value!r} is no text",
    "tuple_type": "a list is wanted here",
    "dict_type": "keys and values are wanted here",
    "model_type": "keys and values are wanted here",
    "too_short": "at least one is wanted here",
    "string_too_short": "this must not be empty",
    "union_tag_not_found": "'kind' is missing",
}
_PATTERNS = {
    "name": "lower-case letters, digits and single hyphens, e.g. sink-leader-killed",
    "tags": "a lower-case letter, then letters, digits and underscores, e.g. smoke (a tag becomes a pytest mark)",
}


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A file that is right.

    Attributes:
        path: as it was given.
    """

    path: Path
    system: SystemSpec
    scenarios: tuple[Scenario, ...]

    def scenario(self, name: str) -> Scenario:
        """One of them.

        Raises:
            ScenarioError: there is none of this name.
        """
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        names = [scenario.name for scenario in self.scenarios]
        raise ScenarioError(f"{self.path}: there is no scenario {name!r}{_meant(name, names)}; there are: {', '.join(names)}")


def load(path: Path) -> ScenarioFile:
    """Read a file.

    Raises:
        ScenarioError: it cannot be read, or it is wrong; one line for every error.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    return load_text(text, path)


def load_text(text: str, path: Path) -> ScenarioFile:
    """Read a text that stands, or might stand, in a file."""
    tree = _parse(text, path)
    if not isinstance(tree, Mapping):
        raise ScenarioError(f"{path}:1:1: there is nothing here that could be run; begin with `version: 1` and `scenarios:`")
    try:
        model = ScenarioFileModel.model_validate(tree)
    except ValidationError as error:
        raise _all([(tuple(detail["loc"]), *_sentence(detail)) for detail in error.errors() if not _echo(detail)], tree, path) from None
    wrong = [(location, message, False) for location, message in checks.check(model)]
    if wrong:
        raise _all(wrong, tree, path)
    return ScenarioFile(path, model.system, model.scenarios)


def _parse(text: str, path: Path) -> Any:
    try:
        return YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
        what = str(error.problem or error.context).splitlines()[0]
        raise ScenarioError(f"{path}:{place}: {what}") from None
    except YAMLError as error:
        raise ScenarioError(f"{path}:1:1: {str(error).splitlines()[0]}") from None


def _all(wrong: Sequence[tuple[Location, str, bool]], tree: Any, path: Path) -> ScenarioError:
    places = sorted({(*_place(tree, location, at_key=at_key), message) for location, message, at_key in wrong})
    return ScenarioError("\n".join(f"{path}:{line}:{column}: {message}" for line, column, message in places))


def _echo(detail: ErrorDetails) -> bool:
    """Whether pydantic only repeats another error: a list short of its wrong elements, a mapping that is no word."""
    is_echo = {"too_short": bool(detail["input"]), "literal_error": isinstance(detail["input"], Mapping)}
    return is_echo.get(detail["type"], False)


def _sentence(detail: ErrorDetails) -> tuple[str, bool]:
    """What is wrong, for people; and whether the key, not the value, is the place."""
    kind, location, value = detail["type"], detail["loc"], detail["input"]
    key = location[-1] if location else ""
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{key!r} is not known here{_meant(str(key), known_keys(location[:-1]))}", True
    if kind == "union_tag_invalid":
        tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        return f"there is no kind {context['tag']!r}{_meant(context['tag'], tags)}; there are: {', '.join(tags)}", False
    if kind == "literal_error":
        words = [word.strip(" '") for word in context["expected"].replace(" or ", ", ").split(",")]
        return f"{value!r} is not allowed{_meant(str(value), words)}; allowed: {', '.join(words)}", location[-1] == "[key]"
    if kind == "string_pattern_mismatch":
        named = next((part for part in reversed(location) if part in _PATTERNS), "name")
        return f"{value!r} is no {str(named).removesuffix('s')}: {_PATTERNS[str(named)]}", False
    if kind in _PLAIN:
        return _PLAIN[kind].format(key=key, value=value), False
    return detail["msg"].removeprefix("Value error, "), False


def _place(tree: Any, location: Location, *, at_key: bool) -> tuple[int, int]:
    """Line and column, from 1, of the deepest part of the location that is in the file."""
    node, line, column = tree, 0, 0
    for part in location:
        if isinstance(node, Mapping) and part in node:
            line, column = node.lc.key(part) if at_key and part == location[-1] else node.lc.value(part)
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            line, column = node.lc.item(part)
            node = node[part]
    if isinstance(node, Mapping) and location and location[-1] not in node and "kind" in node and not at_key:
        line, column = _kind_place(node, location, (line, column))
    return line + 1, column + 1


def _kind_place(node: Any, location: Location, otherwise: tuple[int, int]) -> tuple[int, int]:
    """A wrong `kind` is reported by pydantic at its mapping; show the word itself."""
    return node.lc.value("kind") if isinstance(location[-1], int) or location[-1] == "pipeline" else otherwise


def _meant(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""

