"""Orders of customers of whom a few order most, as in any shop."""

from collections.abc import Iterator
from json import dumps
from random import Random


def skewed(seed: int, customers: int = 97) -> Iterator[dict[str, str]]:
    """Orders without an end, the same for the same seed; half of them are those of one customer."""
    if customers < 1:
        raise ValueError(f"there must be a customer, not {customers}")
    rng, order = Random(seed), 0
    while True:
        yield {"key": f"customer-{min(int(rng.paretovariate(1)), customers)}", "value": dumps({"order": order})}
        order += 1
