"""As much of JSON Schema 2020-12 as the grammar's schema uses; an unknown keyword is an error, never passed over."""

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
_NOTES = {"type", "$defs", "$schema", "title", "description", "default", "examples", "discriminator", "then", "else"}
_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
}


def problems(value: Any, schema: Schema, root: Schema, path: str = "$") -> Iterator[str]:
    """The errors that an editor's validator would underline, one ``path: keyword`` each."""
    kind = schema.get("type")
    if kind and not isinstance(value, _TYPES[kind]):  # the other keywords are asked of this type only
        yield f"{path}: type"
        return
    for keyword, wanted in schema.items():
        if keyword not in _NOTES:
            yield from _KEYWORDS[keyword](value, wanted, schema, root, path)


def _reference(value: Any, wanted: str, _schema: Schema, root: Schema, path: str) -> Iterator[str]:
    return problems(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, path)


def _properties(value: Any, wanted: Schema, _schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for key, inner in wanted.items():
        if key in value:
            yield from problems(value[key], inner, root, f"{path}.{key}")


def _additional(value: Any, wanted: Any, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for key in set(value) - set(schema.get("properties", {})):
        yield from [f"{path}.{key}: unknown"] if wanted is False else problems(value[key], wanted, root, f"{path}.{key}")


def _names(value: Any, wanted: Schema, _schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for key in value:
        yield from problems(key, wanted, root, f"{path}.{key}")


def _items(value: Any, wanted: Schema, _schema: Schema, root: Schema, path: str) -> Iterator[str]:
    for number, item in enumerate(value):
        yield from problems(item, wanted, root, f"{path}[{number}]")


def _alternatives(value: Any, wanted: list[Schema], _schema: Schema, root: Schema, path: str) -> Iterator[str]:
    answers = [list(problems(value, schema, root, path)) for schema in wanted]
    if all(answers):
        yield f"{path}: none of {len(wanted)}"


def _choice(value: Any, wanted: Schema, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    holds = not list(problems(value, wanted, root, path))
    return problems(value, schema["then" if holds else "else"], root, path)


def _plain(name: str, holds: Callable[[Any, Any], bool]) -> Callable[..., Iterator[str]]:
    def check(value: Any, wanted: Any, _schema: Schema, _root: Schema, path: str) -> Iterator[str]:
        if not holds(value, wanted):
            yield f"{path}: {name}"

    return check


_KEYWORDS: dict[str, Callable[..., Iterator[str]]] = {
    "$ref": _reference,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "anyOf": _alternatives,
    "oneOf": _alternatives,
    "if": _choice,
    "const": _plain("const", lambda value, wanted: value == wanted),
    "enum": _plain("enum", lambda value, wanted: value in wanted),
    "pattern": _plain("pattern", lambda value, wanted: bool(re.search(wanted, value))),
    "required": _plain("required", lambda value, wanted: set(wanted) <= set(value)),
    "minimum": _plain("minimum", lambda value, wanted: value >= wanted),
    "maximum": _plain("maximum", lambda value, wanted: value <= wanted),
    "minItems": _plain("minItems", lambda value, wanted: len(value) >= wanted),
    "minProperties": _plain("minProperties", lambda value, wanted: len(value) >= wanted),
    "minLength": _plain("minLength", lambda value, wanted: len(value) >= wanted),
}
