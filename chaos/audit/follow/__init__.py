"""`chaos audit follow`: audit a live pipeline as it grows."""
