"""What is under test, as the framework sees it: the contract with any pipeline, and what a command becomes."""
