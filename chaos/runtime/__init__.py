"""Where the system runs: on local processes today; containers and a foreign cluster share the same interface."""
