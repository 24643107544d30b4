"""Any command that copies from topic to topic."""
