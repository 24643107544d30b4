"""Between pytest and a run: options, collection, one item for each scenario."""
