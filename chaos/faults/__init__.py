"""How it is broken: one file per family of faults, each with its proof and its heal."""
