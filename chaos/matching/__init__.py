"""Which row of a log answers which record that it must hold: the definition, and in `fast` what finds the same sooner."""
