"""One run, from its phases down to the processes and triggers it needs."""
