"""Accelerators: they find what `chaos.matching` defines, to the letter, and may be left out. None of them defines anything."""
