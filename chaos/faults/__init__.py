"""How the system is broken: one file per family of faults, each fault with its proof and its heal."""
