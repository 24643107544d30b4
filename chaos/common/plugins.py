"""What other packages add to this one, by entry points of their own: faults, verifiers, generators, sinks (docs/plugins.md).

A group of entry points is one call of `installed`, with what a thing of this group must be, and a place in a call of `require`.
A package that cannot be used is told there, and not here, so that only those commands fail that would need it.
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
_RAISED_BY_MODULES = (  # what the code of somebody else may raise while it is imported, or makes an object
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
    """What an entry point names is not what its group asks for; the message says what is wrong and how to mend it."""


@dataclass(frozen=True, slots=True)
class Installed(Generic[T]):
    """What other packages add to one group.

    Attributes:
        things: name -> what stands behind it, in the order of the names.
        origins: name -> the package that it comes from, with its version.
        problems: a line for each entry point that cannot be used.
    """

    group: str
    things: Mapping[str, T]
    origins: Mapping[str, str]
    problems: tuple[str, ...]

    def used(self, names: Collection[str]) -> dict[str, str]:
        """Of these names, those that other packages have added, and the package of each."""
        return {name: origin for name, origin in self.origins.items() if name in names}


def installed(group: str, taken: Collection[str], made: Callable[[str, Any], T]) -> Installed[T]:
    """Import everything that the entry points of a group name.

    Args:
        taken: the names of our own.
        made: what stands behind a name, from the object that its entry point names; raises UnfitError if that will not do.
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
    """Why a function cannot be called with these arguments by name, after as many as are always given; "" if it can."""
    takes = signature(function)
    try:
        takes.bind(*range(given), **arguments)
    except TypeError as error:
        return f"{name} is called as {name}{takes}, and not so: {error}"
    return ""


def listed(*groups: Installed[Any]) -> str:
    """Each package with what it adds, in one line: ``retention-chaos 1.0: faults trim_log, verifiers retention``.

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
        raise UnfitError(f"{name!r} is not a word of scenarios files; write lower-case letters, digits and underscores")
    if name in taken:
        raise UnfitError(f"{name!r} is the name of one of chaos's own; give it another name")
    if len(points) > 1:
        raise UnfitError("two packages have this name for something of theirs; uninstall one of them")
    return points[0]


def _place(points: list[EntryPoint]) -> str:
    origins = " and ".join(sorted(map(_origin, points)))
    return f"{origins}: entry point {points[0].group}: {' and '.join(f'{point.name} = {point.value}' for point in points)}"


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package without a name"
