"""The command line: `chaos …`."""
