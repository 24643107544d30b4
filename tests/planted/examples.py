"""How many logs are made by chance for a test: few, each costs some Spark jobs; ``PLANTED_EXAMPLES=1000`` for more.

They are the same each time, so the gate makes few of them, and the night a hundred (``make planted-nightly``).

A log that fails is shown as it was made: it is small, and to shrink it would take hundreds of audits.
"""

import os

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = settings(
    max_examples=int(os.environ.get("PLANTED_EXAMPLES", "8")),
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
