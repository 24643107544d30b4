"""`chaos audit follow`: a live pipeline is audited as it grows."""
