"""Judge duplicates, gaps, ordering and values of a large log in one scan, for `chaos audit topics`."""
