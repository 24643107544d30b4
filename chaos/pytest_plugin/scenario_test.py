"""The one test of a scenarios file; pytest collects it, through `chaos.pytest_plugin.plugin`, under the name of that file."""

from chaos.pytest_plugin.play import Stage


def test_scenario(scenario: str, chaos_stage: Stage) -> None:
    """Break the system as the scenario says, and prove from the logs what came of it."""
    __tracebackhide__ = True
    chaos_stage.play(scenario).settle()
