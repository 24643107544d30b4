"""Chaos tests of retention: records that are deleted before somebody has read them."""
