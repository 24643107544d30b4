"""Chaos engineering for Kafka and Spark pipelines: faults, triggers, the nemesis, the runner and its reports."""
