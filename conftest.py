"""What a project that uses the framework writes: nothing. The plugin collects `scenarios.yaml` by itself."""
