"""Expectations: the rows that a sink must hold, as its user defines them."""
