"""`chaos demo`: two scenarios, one VALID and one INVALID, explained while they run."""
