"""The pipelines under test. They know neither the faults nor the verifiers."""
