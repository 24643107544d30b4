"""`chaos audit`: judge topics, or folders of Parquet, that no run of ours has filled."""
