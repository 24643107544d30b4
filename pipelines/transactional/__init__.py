"""A plain consume-transform-produce application, without Spark."""
