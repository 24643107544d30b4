"""Functions that a declaration names: those of the user's own modules, and those of installed packages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from chaos.common.plugins import called_wrongly
from chaos.grammar.base import Message, Problem, WrongValueError, did_you_mean, shown
from chaos.scenario.texts import Written

FOLDER_WITHOUT_PYTHON = Message("folder-without-python", "folder is where a module of python is looked for; leave it out")


def _names_a_function(name: str) -> str:
    module, _, function = name.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise WrongValueError(
            "not-a-function", f"{shown(name)} does not name a function; write module:function, e.g. shop.testing:orders"
        )
    return name


FunctionName = Annotated[Written, AfterValidator(_names_a_function)]


def of_function(
    kind: str, name: str, there: Mapping[str, Callable[..., Any]], given: int, arguments: Mapping[str, Any]
) -> Iterator[Problem]:
    """Why no installed package has added a function of this name, or why it cannot be called so.

    Args:
        kind: what such a function is called, which is also its key.
        there: the functions that were added.
        given: how many arguments it always gets, before those by name, which stand in ``with``.
    """
    if name not in there:
        known = f"there are: {', '.join(there)}" if there else "no package that is installed has added any"
        yield (kind,), Message("no-such-function", f"there is no {kind} {shown(name)}{did_you_mean(name, there)}; {known}")
    elif wrong := called_wrongly(name, there[name], given, arguments):
        yield (("with",) if arguments else (kind,)), Message("called-wrongly", wrong)
