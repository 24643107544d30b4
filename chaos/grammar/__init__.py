"""Building blocks of declarations: units, targets, triggers, and mistakes with their place."""
