"""What declarations are made of: units, targets, triggers; and how a mistake in a declaration is reported."""
