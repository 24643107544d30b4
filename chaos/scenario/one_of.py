"""A mapping whose key decides its kind: ``{parquet: PATH}``, ``{sql: SELECT …}``.

A kind is one class, and its only required key names it. The mapping is first read with the keys of all kinds, and then by its
class, so that errors describe the mapping as it is written: a misspelt key, two kinds at once, a key of another kind.
"""

from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

from chaos.grammar.base import Declared, Message, WrongValueError
from chaos.scenario.docstrings import meaning


class KindByKey(Declared):
    """Base class of kinds."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {}
    """Further key of this kind -> the message if it is beside a kind that has no such key."""

    @classmethod
    def key(cls) -> str:
        """Return the required key; "" for a class that several kinds share."""
        return next((name for name, field in cls.model_fields.items() if field.is_required()), "")

    @property
    def kind(self) -> str:
        return self.key()


class OneOf:
    """Marks the union of kinds.

    Attributes:
        whole: the class with the keys of all kinds.
    """

    def __init__(self, kinds: tuple[type[KindByKey], ...], name: str, about: str, wrong: tuple[str, str]) -> None:
        """Create the class `whole`.

        Args:
            name: the name of the class in schemas.
            about: a description of such a mapping.
            wrong: the code of the error for a mapping of no kind, or of several, and the beginning of its text.
        """
        self._kinds = {kind.key(): kind for kind in kinds}
        self._misplaced = {key: message for kind in kinds for key, message in kind.MISPLACED.items()}
        self._wrong = wrong
        self.whole = _with_all_keys(kinds, name, f"{about}: one of {_listed([f'``{key}``' for key in self._kinds])}.")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(self.whole.__pydantic_core_schema__)

    def _read(self, value: Any) -> KindByKey:
        if isinstance(value, KindByKey):
            return value
        whole, fields = self.whole.model_validate(value), self.whole.model_fields
        default = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
        given = {field.alias or name for name, field in fields.items() if getattr(whole, name) != default[name]}
        named = [key for key in self._kinds if key in given]
        if len(named) != 1:
            code, begins = self._wrong
            found = f"this has {' and '.join(named)}" if named else "this has none of them"
            raise WrongValueError(code, f"{begins} {_listed(list(self._kinds))}, but {found}; write one of them")
        kind = self._kinds[named[0]]
        own = {field.alias or name for name, field in kind.model_fields.items()}
        for key, message in self._misplaced.items():
            if key in given and key not in own:
                raise WrongValueError(message.code, message)
        return kind.model_validate({key: value[key] for key in own if key in value})


def _listed(keys: list[str]) -> str:
    return f"{', '.join(keys[:-1])} and {keys[-1]}"


def _with_all_keys(kinds: tuple[type[KindByKey], ...], name: str, about: str) -> type[Declared]:
    """Create a class with the keys of all kinds; keys that name a kind come first."""
    naming = {kind.key(): copy(kind.model_fields[kind.key()]) for kind in kinds}
    for field in naming.values():
        field.description = None  # the key gets it; this is only its value
    fields: dict[str, Any] = {key: (Annotated[field.annotation, field] | None, None) for key, field in naming.items()}
    texts: dict[str, str] = {}
    for kind in kinds:
        texts = {key: meaning(kind, key) for key in kind.model_fields} | texts
        fields |= {key: (field.annotation, copy(field)) for key, field in kind.model_fields.items() if key not in fields}
    whole = create_model(name, __base__=Declared, __doc__=about, **fields)
    for key, field in whole.model_fields.items():
        field.description = texts[key]
    return whole
