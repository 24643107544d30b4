"""Declarations: the grammar of `scenarios.yaml`, its errors, and the schedule that a seed makes of a scenario."""
