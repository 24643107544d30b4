"""Which keys are known at a place of the file, asked of the grammar itself: for "did you mean"."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


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
        return get_args(_plain(annotation))[0]
    for model in models:
        if part in _fields(model):
            return _fields(model)[part]
    return next((model for model in models if part in get_args(model.model_fields["kind"].annotation)), annotation)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation allows."""
    plain = _plain(annotation)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return [plain]
    return [model for member in get_args(plain) for model in _models(member)] if get_origin(plain) in (Union, UnionType) else []


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
