"""Faults, verifiers, generators and sinks that other packages add by entry points (docs/plugins.md).

A group of entry points is one call of `installed`, with a check of its things, and a place in a call of `require`. `require`
refuses a package that cannot be used, not `installed`, so that only those commands fail that need it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from typing import Any, Generic, TypeVar

from chaos.common.errors import PluginError, one_line

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RAISED_BY_MODULES = (  # errors that foreign code may raise while it is imported, or makes an object
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class UnfitError(ValueError):
    """The object of an entry point does not fit its group; the message says what is wrong and how to mend it."""


@dataclass(frozen=True, slots=True)
class Installed(Generic[T]):
    """The things that other packages add to one group.

    Attributes:
        things: name -> thing, in the order of the names.
        origins: name -> its package, with the version.
        problems: a line for each entry point that cannot be used.
    """

    group: str
    things: Mapping[str, T]
    origins: Mapping[str, str]
    problems: tuple[str, ...]

    def used(self, names: Collection[str]) -> dict[str, str]:
        """Select the names that other packages have added, with the package of each."""
        return {name: origin for name, origin in self.origins.items() if name in names}


def installed(group: str, taken: Collection[str], made: Callable[[str, Any], T]) -> Installed[T]:
    """Import everything that the entry points of a group name.

    Args:
        taken: the names of chaos's own things.
        made: makes a thing of its name and the object of its entry point; raises UnfitError if the object does not fit.
    """
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=group):
        found[point.name].append(point)
    things, origins, problems = dict[str, T](), dict[str, str](), list[str]()
    for name, points in sorted(found.items()):
        try:
            things[name] = made(name, _the_only(points, taken).load())
            origins[name] = _origin(points[0])
        except UnfitError as error:
            problems.append(f"{_place(points)}: {error}")
        except _RAISED_BY_MODULES as error:
            why = one_line(f"{type(error).__name__}: {error}")
            problems.append(f"{_place(points)}: it cannot be imported ({why}); mend that package, or uninstall it")
    return Installed(group, things, origins, tuple(problems))


def require(*groups: Installed[Any]) -> None:
    """Refuse to go on with packages that cannot be used: without them a file would mean something else.

    Raises:
        PluginError: one line for each entry point.
    """
    problems = [problem for group in groups for problem in group.problems]
    if problems:
        raise PluginError("\n".join(problems))


def called_wrongly(name: str, function: Callable[..., Any], given: int, arguments: Mapping[str, Any]) -> str:
    """Explain why a function cannot be called with `given` positional arguments and these named ones; "" if it can."""
    takes = signature(function)
    try:
        takes.bind(*range(given), **arguments)
    except TypeError as error:
        return f"{name} has the signature {name}{takes}, and these arguments do not fit it: {error}"
    return ""


def listed(*groups: Installed[Any]) -> str:
    """List each package and its things in one line: ``retention-chaos 1.0: faults trim_log, verifiers retention``.

    Raises:
        PluginError: as `require`.
    """
    require(*groups)
    added: dict[str, list[str]] = defaultdict(list)
    for group in groups:
        for name, origin in group.origins.items():
            added[origin].append(f"{group.group.rpartition('.')[2]} {name}")
    return "; ".join(f"{origin}: {', '.join(things)}" for origin, things in sorted(added.items())) or "none"


def _the_only(points: list[EntryPoint], taken: Collection[str]) -> EntryPoint:
    name = points[0].name
    if not _NAME.fullmatch(name):
        raise UnfitError(f"{name!r} is not a valid name in scenarios files; use lower-case letters, digits and underscores")
    if name in taken:
        raise UnfitError(f"{name!r} is a name of chaos itself; choose another one")
    if len(points) > 1:
        raise UnfitError("two packages use this name; uninstall one of them")
    return points[0]


def _place(points: list[EntryPoint]) -> str:
    origins = " and ".join(sorted(map(_origin, points)))
    return f"{origins}: entry point {points[0].group}: {' and '.join(f'{point.name} = {point.value}' for point in points)}"


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package without a name"
