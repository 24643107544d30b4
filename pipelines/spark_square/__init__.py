"""Spark Structured Streaming with an exactly-once sink."""
