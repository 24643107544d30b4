"""Judge from Kafka's logs, without a model, whether exactly one committed transaction consumed every record."""
