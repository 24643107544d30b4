"""Addresses of tables: ``KIND:PLACE``, and for formats with versions ``KIND:PLACE@VERSION``.

A kind is one class in one file here, and a line below.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from chaos.audit.logs import AuditUsageError
from chaos.audit.tables.addresses.base import Address, Reading
from chaos.audit.tables.addresses.delta import DeltaAddress
from chaos.audit.tables.addresses.iceberg import IcebergAddress
from chaos.audit.tables.addresses.jdbc import JdbcAddress
from chaos.audit.tables.addresses.parquet import ParquetAddress
from chaos.audit.tables.addresses.topic import TopicAddress
from chaos.audit.where import Where

KINDS: Mapping[str, type[Address]] = {
    kind.KIND: kind for kind in (ParquetAddress, DeltaAddress, IcebergAddress, JdbcAddress, TopicAddress)
}

__all__ = ["KINDS", "Address", "Reading", "parse"]


def parse(option: str, text: str, where: Where) -> Address:
    """Read an address.

    Args:
        option: ``--source`` or ``--sink``, for messages.
        where: how the cluster of a topic is reached.

    Raises:
        AuditUsageError: it has no kind that is known, or is not of the form of its kind.
    """
    kind, colon, place = text.partition(":")
    if not colon or kind not in KINDS:
        raise AuditUsageError(f"{option} {text}: {_meant(text)}; addresses are {', '.join(one.FORM for one in KINDS.values())}")
    return KINDS[kind](option, str(Path(place).expanduser()) if place.startswith("~/") else place, where)


def _meant(text: str) -> str:
    """Guess which address was meant."""
    kind, colon, place = text.partition(":")
    near = get_close_matches(kind.lower(), KINDS, n=1)
    if colon and near:
        return f"did you mean {near[0]}:{place}?"
    if colon and "#" in place:
        return f"did you mean jdbc:{text}?"
    if colon and kind != "file" and not place.startswith("//"):
        return f"there is no kind {kind}"
    local = Path(text.removeprefix("file:"))
    kind = DeltaAddress.KIND if (local / "_delta_log").is_dir() else ParquetAddress.KIND
    return f"an address begins with its kind; did you mean {kind}:{text}?"
