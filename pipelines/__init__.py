"""Pipelines from Kafka to Kafka, to be put under test: this project's own."""
