"""The pytest plugin: options, collection, one item for each scenario."""
