"""Which partition of an internal topic belongs to a name, as Kafka computes it."""

from collections.abc import Iterator


def java_hash(text: str) -> int:
    """``Utils.abs(text.hashCode)``, by which Kafka finds the partition of a transactional.id (TransactionStateManager)."""
    value = 0
    for unit in _utf16(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def _utf16(text: str) -> Iterator[int]:
    data = text.encode("utf-16-be")
    return (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
