"""Pages for a browser: one for each run, one for each session. Each is one file that needs no network and nothing beside it."""
