"""What is under test: pipelines from Kafka to Kafka, and the loader that fills their source."""
