"""What a sink must hold, by what its user says of it."""
