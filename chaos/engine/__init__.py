"""The engine: one run, from its phases down to its processes and triggers."""
