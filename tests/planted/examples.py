"""The planted logs of the gate; the night judges all of them (``make planted-nightly``).

Of logs that are made by chance, each test has a few, because each costs some Spark jobs; ``PLANTED_EXAMPLES=1000`` for more.

They are the same each time, so the gate makes few of them, and the night a hundred.

A log that fails is shown as it was made: it is small, and to shrink it would take hundreds of audits.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

EXAMPLES = settings(
    max_examples=int(os.environ.get("PLANTED_EXAMPLES", "5")),
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def nightly(*values: object) -> list[object]:
    """Values of a parameter that are another size or form of those that the gate tries."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]
