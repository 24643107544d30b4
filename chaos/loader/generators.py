"""Generators of rows from other packages (docs/plugins.md): functions that take a number, the seed, and yield rows.

An entry point of the group ``chaos.generators`` names the function; scenarios files use the entry point's name. ``with`` gives
the function further arguments.
"""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from chaos.common.plugins import UnfitError, installed

Generator = Callable[..., Iterable[Any]]


def _made(name: str, thing: Any) -> Generator:  # noqa: ARG001 - a function need not be called as its entry point is
    """Return the function that an entry point names.

    Raises:
        UnfitError: it is not a function, or takes no seed.
    """
    if not callable(thing):
        raise UnfitError("this is not a function; name one that takes a number, the seed, and yields rows")
    try:
        signature(thing).bind_partial(0)
    except (TypeError, ValueError):
        raise UnfitError("it takes no seed; make its first argument the seed, a number: def rows(seed): …") from None
    return thing  # type: ignore[no-any-return]


def spoken(name: str) -> str:
    """Name a generator and its package, for messages."""
    return f"{name} of {PLUGINS.origins[name]}"


PLUGINS = installed("chaos.generators", (), _made)
