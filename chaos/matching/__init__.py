"""Match the rows of a log with the records that it must hold: the definition, and faster equivalents in `fast`."""
