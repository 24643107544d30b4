"""The orders and the expected rows: Avro byte by byte, so that job and model share no library's mistakes.

Orders are as order.avsc has them, large ones as large.avsc has them. Half of the orders are of one customer, as in many a shop,
and one is so large that a broker refuses it for good: it is no gap, because its loader is told that it failed.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

REGIONS = ("north", "south", "west")
SMALLEST = 100
_MORE = 128
"""The bit of a byte that says that another one follows, in a number of Avro."""


def skewed(seed: int, customers: int = 97, poison_at: int = 2000) -> Iterator[dict[str, Any]]:
    """Orders without an end, the same for the same seed."""
    rng, order = Random(seed), 0  # noqa: S311 - this is not a secret
    while True:
        key = f"customer-{min(int(rng.paretovariate(1)), customers)}"
        large = order == poison_at
        yield {"key": key, "value": bytes(3_000_000) if large else _long(order) + _long(order * 7 % 300)}
        order += 1


def large(sources: Mapping[str, DataFrame], spark: SparkSession) -> DataFrame:  # noqa: ARG001 - each such function is given it
    """The rows that the sink must hold, each with the place of its order."""
    made = F.udf(_made, "binary")
    orders = sources["orders"].select("key", made("key", "value").alias("value"), "partition", "offset")
    return orders.where("value IS NOT NULL")


def _made(key: str, value: str) -> bytes | None:
    """A large order with its region; None for a small one."""
    payload = bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    order, rest = _read_long(payload)
    amount, _ = _read_long(rest)
    region = REGIONS[int(key.removeprefix("customer-")) % 3].encode()
    return _long(order) + _long(amount) + _long(len(region)) + region if amount >= SMALLEST else None


def _long(number: int) -> bytes:
    """Avro's long: zigzag, then 7 bits at a time."""
    return _varint(number << 1)


def _read_long(payload: bytes) -> tuple[int, bytes]:
    size = next(place for place, byte in enumerate(payload, 1) if byte < _MORE)
    return sum((byte & 127) << 7 * place for place, byte in enumerate(payload[:size])) >> 1, payload[size:]


def _varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | _MORE]) + _varint(rest) if rest else bytes([head])
