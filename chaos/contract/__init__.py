"""The contract with a pipeline: what a run tells it, and how it is started. Kinds of pipelines: `chaos.scenario.pipelines`."""
