"""Accelerators: they find exactly what `chaos.matching` defines, and may be left out. None of them defines anything.

``CHAOS_PLAIN=1`` switches them off: then the definition itself is applied to all rows.
"""

import os

PLAIN = "CHAOS_PLAIN"


def are_off() -> bool:
    """Whether the environment switches the accelerators off."""
    return os.environ.get(PLAIN) == "1"
