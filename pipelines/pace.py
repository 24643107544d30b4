"""How fast, and for how long: the one module of the pipelines that asks the time."""

import time


def monotonic_s() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()  # noqa: TID251 - pipelines know nothing of chaos


def due(records: int, rate_per_s: float, elapsed_s: float) -> int:
    """How many of the records should have been sent by now; the first one is due at once."""
    return min(records, int(elapsed_s * rate_per_s) + 1)
