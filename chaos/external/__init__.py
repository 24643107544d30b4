"""A cluster that is already there: how it is declared, found and broken."""
