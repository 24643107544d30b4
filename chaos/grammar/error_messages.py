"""What pydantic found, told to people who write YAML: the value, what is wrong with it, and the key that was perhaps meant."""

import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chaos.grammar.base import Location, Mistake, did_you_mean, shown


def mistakes(error: ValidationError, root: type[BaseModel]) -> list[Mistake]:
    """All errors in words; those that only repeat another one are left out.

    Args:
        root: the model of the whole file.
    """
    return [found for detail in error.errors() if (found := _mistake(detail, root))]


def _mistake(detail: ErrorDetails, root: type[BaseModel]) -> Mistake | None:
    kind, location, value = detail["type"], tuple(detail["loc"]), detail["input"]
    match kind:
        case "extra_forbidden":
            hint = did_you_mean(location[-1], (key for key in known_keys(location[:-1], root) if key != location[-1]))
            return Mistake(location, f"{str(location[-1])!r} is not known here{hint}", at_key=True)
        case "invalid_key":
            return Mistake(location, f"{str(location[-1])!r} is no key; keys are words", at_key=True)
        case "union_tag_invalid" | "union_tag_not_found":
            return _kind(location, detail)
        case "literal_error":
            return None if isinstance(value, Mapping) else _word(location, detail)
        case "too_short" if value:
            return None
        case _:
            return Mistake(location, _plain(detail))


def _kind(location: Location, detail: ErrorDetails) -> Mistake:
    if detail["type"] == "union_tag_not_found":
        return Mistake(location, "'kind' is missing")
    found, known = detail["input"]["kind"], _words(detail["ctx"]["expected_tags"])
    message = f"there is no kind {shown(found)}{did_you_mean(found, known)}; there are: {', '.join(known)}"
    return Mistake((*location, "kind"), message)


def _word(location: Location, detail: ErrorDetails) -> Mistake:
    known, value = _words(detail["ctx"]["expected"]), detail["input"]
    at_key = location[-1] == "[key]"
    message = f"{shown(value)} is not known here{did_you_mean(value, known)}; write {_either(known)}"
    return Mistake(location[:-1] if at_key else location, message, at_key=at_key)


def _either(known: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))


def _words(text: str) -> list[str]:
    """What pydantic lists: ``'up', 'down' or 'both'``, ``'all' or 1``."""
    return [word or number for word, number in re.findall(r"'([^']*)'|(\d+)", text)]


def _plain(detail: ErrorDetails) -> str:
    sentence = _SENTENCES.get(detail["type"])
    return sentence(detail) if sentence else detail["msg"].removeprefix("Value error, ")


def _pattern(detail: ErrorDetails) -> str:
    value, tag = str(detail["input"]), "tags" in detail["loc"]
    separator = "_" if tag else "-"
    slug = re.sub(r"[^a-z0-9]+", separator, value.lower()).strip(separator)
    hint = f" (did you mean {slug}?)" if slug and not (tag and slug[0].isdigit()) else ""
    if tag:
        return f"{shown(value)} is no tag{hint}: a lower-case letter, then letters, digits and underscores, as in pytest marks"
    return f"{shown(value)} is no name{hint}: lower-case letters and digits, with single hyphens between them"


def _about_value(text: str) -> Callable[[ErrorDetails], str]:
    return lambda detail: f"{shown(detail['input'])} {text}"


def _limit(which: str, text: str) -> Callable[[ErrorDetails], str]:
    return lambda detail: f"{shown(detail['input'])} is {text} {detail['ctx'][which]}"


_MAPPING = _about_value("is no mapping; write keys and values, e.g. {kind: …}")
_WHOLE = _about_value("is no whole number")
_SENTENCES: Mapping[str, Callable[[ErrorDetails], str]] = {
    "missing": lambda detail: f"{str(detail['loc'][-1])!r} is missing",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _about_value("is too large"),
    "bool_type": _about_value("is neither true nor false"),
    "string_type": _about_value("is no text; write it in quotes"),
    "string_unicode": _about_value("is no text; write it in quotes"),
    "string_too_short": lambda _: "this text must not be empty",
    "string_pattern_mismatch": _pattern,
    "tuple_type": _about_value("is no list; write [ … ]"),
    "too_short": lambda _: "at least one is wanted here",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "greater_than_equal": _limit("ge", "too small; the least is"),
    "less_than_equal": _limit("le", "too large; the most is"),
}


def known_keys(location: tuple[str | int, ...], root: type[BaseModel]) -> list[str]:
    """The keys that may stand at a location, as pydantic gives it (with the tags of discriminated unions in it).

    Args:
        root: the model of the whole file.
    """
    here: Any = root
    for part in location:
        here = _below(here, part)
    return [key for model in _models(here) for key in _fields(model)]


def _below(annotation: Any, part: str | int) -> Any:
    """The type one step further down: of a field, of an element, or of the union's member with this tag."""
    models = _models(annotation)
    if isinstance(part, int):
        return get_args(_unannotated(annotation))[0]
    for model in models:
        if part in _fields(model):
            return _fields(model)[part]
    return next((model for model in models if part in get_args(model.model_fields["kind"].annotation)), annotation)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation allows."""
    plain = _unannotated(annotation)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return [plain]
    return [model for member in get_args(plain) for model in _models(member)] if get_origin(plain) in (Union, UnionType) else []


def _unannotated(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
