"""The faults: one file per family, each fault with its proof and its heal."""
