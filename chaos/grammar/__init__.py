"""The words that declarations are made of, and how mistakes in them are told."""
