"""An existing cluster: its declaration, how it is found, and how clients log in."""
