"""Was every record consumed by exactly one committed transaction? Told from Kafka's logs, without a model."""
