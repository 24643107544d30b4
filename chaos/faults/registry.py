"""Every fault that can be declared: all classes in the modules of this package that have a ``kind``. Nothing is registered."""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Union, get_args

from pydantic import Field

from chaos import faults
from chaos.faults.base import FaultBase


def _declared(parent: type[FaultBase]) -> Iterator[type[FaultBase]]:
    for fault in parent.__subclasses__():
        if fault.__module__.startswith(f"{faults.__name__}.") and get_args(fault.model_fields["kind"].annotation):
            yield fault
        yield from _declared(fault)


def _family(fault: type[FaultBase]) -> str:
    return fault.__module__.rpartition(".")[2]


def _kind(fault: type[FaultBase]) -> str:
    return str(get_args(fault.model_fields["kind"].annotation)[0])


for _module in pkgutil.iter_modules(faults.__path__, f"{faults.__name__}."):
    import_module(_module.name)

FAULTS: Mapping[str, type[FaultBase]] = {
    _kind(fault): fault for fault in sorted(_declared(FaultBase), key=lambda fault: (_family(fault), _kind(fault)))
}
"""``kind`` -> class, by module and kind."""

if TYPE_CHECKING:
    Fault = FaultBase
else:
    Fault = Annotated[Union[tuple(FAULTS.values())], Field(discriminator="kind")]  # noqa: UP007 - known at run time only
