"""The runtime whose processes are containers."""
