"""What must hold: verifiers that read landed Parquet and nothing else."""
