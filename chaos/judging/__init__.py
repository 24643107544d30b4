"""From what was landed to findings and a verdict."""
