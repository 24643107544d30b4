"""Runtimes: where the processes of the system run, on this machine or in Docker containers, behind one interface."""
