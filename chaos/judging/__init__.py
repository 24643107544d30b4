"""Land a run's logs, judge them, and decide the verdict."""
