"""The foundation of all other packages: time, errors, files, signals, and the history of a run."""
