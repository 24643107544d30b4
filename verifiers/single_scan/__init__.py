"""Duplicates, gaps, ordering and values of a large log in one scan of it, as `chaos audit topics` asks for them."""
