"""Nothing is needed here: the plugin of this project collects `scenarios.yaml` by itself."""
