"""Pydantic's errors, reworded for people who write YAML: the value, the problem, and a suggestion."""

import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chaos.grammar.base import WRONG_VALUE, Location, Message, Mistake, WrongValueError, did_you_mean, shown


class Former(NamedTuple):
    """A key of an earlier version.

    Attributes:
        beside: a key that still exists at the same place, and identifies it.
        code, text: the message; the text says what to write instead.
    """

    beside: str
    code: str
    text: str


_FORMER = {
    "verify": Former(
        "leave_out",
        "key-of-version-1",
        "every verifier that applies runs; name those to skip, each with a reason: leave_out: {ordering: why}",
    ),
    "model": Former(
        "expected",
        "model-by-name",
        "without expected, the sink must be a copy of the source; for other values write a query over the source topic: "
        "expected: {sql: 'SELECT key, … AS value, partition, offset FROM TOPIC'}",
    ),
}
"""Key of earlier versions -> what to write instead."""
_RAISED = ("value_error", "assertion_error")
"""Pydantic's types of errors that a validator raised."""


def mistakes(error: ValidationError, root: type[BaseModel]) -> list[Mistake]:
    """Reword all errors, and leave out those that only repeat another one.

    Args:
        root: the model of the whole file.
    """
    return [_mistake(detail, root) for detail in error.errors() if not _is_repeated(detail)]


def _is_repeated(detail: ErrorDetails) -> bool:
    """Whether another error describes the problem inside this value."""
    kind, value = detail["type"], detail["input"]
    return (kind == "literal_error" and isinstance(value, Mapping)) or (kind == "too_short" and bool(value))


def _mistake(detail: ErrorDetails, root: type[BaseModel]) -> Mistake:
    location, value = tuple(detail["loc"]), detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            known = known_keys(location[:-1], root)
            former = _FORMER.get(str(location[-1]))
            instead = former if former and former.beside in known else None
            hint = f"; {instead.text}" if instead else did_you_mean(location[-1], (key for key in known if key != location[-1]))
            code = instead.code if instead else "unknown-key"
            return Mistake(location, Message(code, f"{str(location[-1])!r} is not known here{hint}"), at_key=True)
        case "invalid_key":
            return Mistake(location, Message("not-a-key", f"{str(location[-1])!r} is not a key; keys are words"), at_key=True)
        case "union_tag_invalid":
            kind, kinds = value["kind"], _choices(detail["ctx"]["expected_tags"])
            text = f"there is no kind {shown(kind)}{did_you_mean(kind, kinds)}; there are: {', '.join(kinds)}"
            return Mistake((*location, "kind"), Message("unknown-kind", text))
        case "literal_error":
            return _unknown_choice(location, value, _choices(detail["ctx"]["expected"]))
        case _:
            at_key = location[-1:] == ("[key]",)
            return Mistake(location[:-1] if at_key else location, _reworded(detail), at_key)


def _unknown_choice(location: Location, value: object, known: list[str]) -> Mistake:
    choices = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
    text = f"{shown(value)} is not known here{did_you_mean(value, known)}; write {choices}"
    at_key = location[-1] == "[key]"
    return Mistake(location[:-1] if at_key else location, Message("unknown-choice", text), at_key=at_key)


def _choices(text: str) -> list[str]:
    """The choices that pydantic lists as ``'up', 'down' or 'both'``, or as ``'all' or 1``."""
    return [word or number for word, number in re.findall(r"'([^']*)'|(\d+)", text)]


def _reworded(detail: ErrorDetails) -> Message:
    if message := _MESSAGES.get(detail["type"]):
        return message(detail)
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, WrongValueError):
        return Message(raised.code, str(raised))
    code = WRONG_VALUE if detail["type"] in _RAISED else detail["type"].replace("_", "-")
    return Message(code, detail["msg"].removeprefix("Value error, "))


def _bad_name(detail: ErrorDetails) -> Message:
    value, is_tag = str(detail["input"]), "tags" in detail["loc"]
    separator = "_" if is_tag else "-"
    slug = re.sub(r"[^a-z0-9]+", separator, value.lower()).strip(separator)
    hint = f" (did you mean {slug}?)" if slug and not (is_tag and slug[0].isdigit()) else ""
    if is_tag:
        form = "a lower-case letter, then letters, digits and underscores, as in pytest marks"
        return Message("not-a-tag", f"{shown(value)} is not a valid tag{hint}; write {form}")
    form = "lower-case letters and digits, with single hyphens between them"
    return Message("not-a-name", f"{shown(value)} is not a valid name{hint}; write {form}")


_Reworded = Callable[[ErrorDetails], Message]


def _about_value(code: str, text: str) -> _Reworded:
    return lambda detail: Message(code, f"{shown(detail['input'])} {text}")


def _limit(code: str, which: str, text: str) -> _Reworded:
    return lambda detail: Message(code, f"{shown(detail['input'])} is {text} {detail['ctx'][which]}")


_MAPPING = _about_value("not-a-mapping", "is not a mapping; write keys and values, e.g. {kind: …}")
_STRING = _about_value("not-text", "is not text; write it in quotes")
_WHOLE = _about_value("not-a-whole-number", "is not a whole number")
_MESSAGES: Mapping[str, _Reworded] = {
    "union_tag_not_found": lambda _: Message("missing-kind", "'kind' is missing"),
    "missing": lambda detail: Message("missing-key", f"{str(detail['loc'][-1])!r} is missing"),
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _about_value("beyond-whole-numbers", "is too large"),
    "bool_type": _about_value("not-true-or-false", "is neither true nor false"),
    "string_type": _STRING,
    "string_unicode": _STRING,
    "string_too_short": lambda _: Message("empty-text", "this text must not be empty"),
    "string_pattern_mismatch": _bad_name,
    "tuple_type": _about_value("not-a-list", "is not a list; write [ … ]"),
    "too_short": lambda _: Message("empty-list", "this must not be empty; write at least one"),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "greater_than_equal": _limit("too-small", "ge", "too small; the minimum is"),
    "less_than_equal": _limit("too-large", "le", "too large; the maximum is"),
}


def known_keys(location: Location, root: type[BaseModel]) -> list[str]:
    """Keys that are allowed at a location of pydantic, which contains the tags of discriminated unions."""
    here: Any = root
    for part in location:
        here = _one_step_down(here, part)
    return [key for model in _models(here) for key in _fields(model)]


def _one_step_down(annotation: Any, part: str | int) -> Any:
    """The type of a field, of an element or a value, or of the union's member with this tag."""
    plain = _unannotated(annotation)
    if isinstance(part, int):
        return get_args(plain)[0]
    if get_origin(plain) is dict:
        return get_args(plain)[1]
    models = _models(annotation)
    if member := next((model for model in models if len(models) > 1 and part in _tags(model)), None):
        return member  # first, because a member may have a key with the name of another's tag
    return next((_fields(model)[part] for model in models if part in _fields(model)), annotation)


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """Values of ``kind`` that select this model in a union; none for a model without a kind."""
    kind = model.model_fields.get("kind")
    return get_args(kind.annotation) if kind else ()


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
