"""Duplicates, gaps, ordering and values of a large log in one scan of it, as `chaos audit` asks for them."""
