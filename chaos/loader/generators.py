"""Generators of rows that other packages add (docs/plugins.md): functions that are given a number, the seed, and yield rows.

The entry point of the group ``chaos.generators`` names the function, and its name stands in scenarios files. Further arguments
of the function are those that ``with`` gives it.
"""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from chaos.common.plugins import UnfitError, installed

Generator = Callable[..., Iterable[Any]]


def _made(name: str, thing: Any) -> Generator:  # noqa: ARG001 - a function need not be called as its entry point is
    """The function that an entry point names.

    Raises:
        UnfitError: it is none, or cannot be given a seed.
    """
    if not callable(thing):
        raise UnfitError("this is not a function; name one that is given a number, the seed, and yields rows")
    try:
        signature(thing).bind_partial(0)
    except (TypeError, ValueError):
        raise UnfitError("it takes no seed; let its first argument be one, a number: def rows(seed): …") from None
    return thing  # type: ignore[no-any-return]


def spoken(name: str) -> str:
    """A generator as people are told of it, with its package."""
    return f"{name} of {PLUGINS.origins[name]}"


PLUGINS = installed("chaos.generators", (), _made)
