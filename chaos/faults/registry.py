"""Every fault that can be declared: all classes with a ``kind`` in the modules of this package; none has to be registered."""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Union, get_args

from pydantic import Field

from chaos import faults
from chaos.faults.base import FaultBase


def _declared(parent: type[FaultBase]) -> Iterator[tuple[str, str, type[FaultBase]]]:
    """Module, kind and class of each; a base has no kind, and a class of a test is not of this package."""
    for fault in parent.__subclasses__():
        module, kinds = fault.__module__, get_args(fault.model_fields["kind"].annotation)
        if module.startswith(f"{faults.__name__}.") and kinds:
            yield module, kinds[0], fault
        yield from _declared(fault)


for _module in pkgutil.iter_modules(faults.__path__, f"{faults.__name__}."):
    import_module(_module.name)

FAULTS: Mapping[str, type[FaultBase]] = {
    kind: fault for _, kind, fault in sorted(_declared(FaultBase), key=lambda declared: declared[:2])
}
"""``kind`` -> class, by module and kind."""

if TYPE_CHECKING:
    Fault = FaultBase
else:
    Fault = Annotated[Union[tuple(FAULTS.values())], Field(discriminator="kind")]  # noqa: UP007 - known at run time only
