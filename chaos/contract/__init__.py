"""What a pipeline is told of a run, and how it is started. Kinds of pipelines: `chaos.scenario.pipelines`."""
