"""The verifiers of `chaos audit`: every question answered in one scan of the log."""
