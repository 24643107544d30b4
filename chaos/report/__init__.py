"""Reports: everything a person or a machine reads about a run, made from its history and its findings."""
