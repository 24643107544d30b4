"""Functions that a declaration names: from the user's own modules, or from installed packages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from chaos.common.plugins import called_wrongly
from chaos.grammar.base import Message, Problem, WrongValueError, did_you_mean, shown
from chaos.scenario.texts import Written

FOLDER_WITHOUT_PYTHON = Message("folder-without-python", "folder is for the module of python; leave folder out")


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
    """Refuse a function that no installed package has added, or that cannot be called with these arguments.

    Args:
        kind: the kind of function, which is also its key.
        there: the functions that packages have added.
        given: the number of positional arguments; ``with`` has the arguments by name.
    """
    if name not in there:
        known = f"there are: {', '.join(there)}" if there else "no installed package adds one"
        yield (kind,), Message("no-such-function", f"there is no {kind} {shown(name)}{did_you_mean(name, there)}; {known}")
    elif wrong := called_wrongly(name, there[name], given, arguments):
        yield (("with",) if arguments else (kind,)), Message("called-wrongly", wrong)
