"""What a process under test is told of a run, and what it becomes. Kinds of pipelines: `chaos.scenario.pipelines`."""
