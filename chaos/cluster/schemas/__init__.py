"""Messages of Kafka's protocol that kafka-python does not have, in the form of Kafka's own schemas."""
