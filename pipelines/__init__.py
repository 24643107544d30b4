"""This project's own pipelines from Kafka to Kafka, to be put under test."""
