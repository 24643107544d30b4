"""Accelerators: they find what `chaos.matching` defines, to the letter, and may be left out. None of them defines anything.

``CHAOS_PLAIN=1`` leaves them out: then the definition itself is asked of all rows.
"""

import os

PLAIN = "CHAOS_PLAIN"


def are_off() -> bool:
    """Whether the environment says that no accelerator shall be used."""
    return os.environ.get(PLAIN) == "1"
