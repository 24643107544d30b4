"""Every fault that can be declared: all classes with a ``kind`` in the modules of this package, and those of other packages.

Ours need no registration; entry points name the others (docs/plugins.md).
"""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic import Field

from chaos import faults
from chaos.common.plugins import UnfitError, installed
from chaos.faults.base import FaultBase


def _declared(parent: type[FaultBase]) -> Iterator[tuple[str, str, type[FaultBase]]]:
    """Yield module, kind and class of each fault; a base has no kind, and a class of a test is not of this package."""
    for fault in parent.__subclasses__():
        module, kinds = fault.__module__, get_args(fault.model_fields["kind"].annotation)
        if module.startswith(f"{faults.__name__}.") and kinds:
            yield module, kinds[0], fault
        yield from _declared(fault)


def _fault(kind: str, thing: Any) -> type[FaultBase]:
    """Check the class that an entry point names.

    Raises:
        UnfitError: it is not a fault.
    """
    if not (isinstance(thing, type) and issubclass(thing, FaultBase)):
        raise UnfitError("this is not a fault; name a subclass of chaos.faults.base.FaultBase")
    if get_args(thing.model_fields["kind"].annotation) != (kind,):
        raise UnfitError(f'{thing.__name__} has another kind; write kind: Literal["{kind}"]')
    if not hasattr(thing, "needs"):
        raise UnfitError(f"{thing.__name__} has no `needs`; write needs = frozenset({{Capability.…}})")
    return thing


for _module in pkgutil.iter_modules(faults.__path__, f"{faults.__name__}."):
    import_module(_module.name)

_OURS = {kind: fault for _, kind, fault in sorted(_declared(FaultBase), key=lambda declared: declared[:2])}
PLUGINS = installed("chaos.faults", _OURS, _fault)
FAULTS: Mapping[str, type[FaultBase]] = {**_OURS, **PLUGINS.things}
"""``kind`` -> class: ours by module and kind, then those of other packages."""

if TYPE_CHECKING:
    Fault = FaultBase
else:
    Fault = Annotated[Union[tuple(FAULTS.values())], Field(discriminator="kind")]  # noqa: UP007 - known at run time only
