"""Reports for people and machines about a run, made from its history and its findings."""
