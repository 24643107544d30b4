"""What is declared: the grammar of `scenarios.yaml`, its errors, and the schedule that is made of it with a seed."""
