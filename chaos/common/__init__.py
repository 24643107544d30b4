"""What everything else stands on: time, errors, files, signals, and the history of a run."""
