"""`chaos demo`: run two scenarios, one VALID and one INVALID, and explain them."""
