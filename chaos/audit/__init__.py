"""What `chaos audit` does: judge topics or folders that no run of ours has filled."""
