"""How long a run waits."""

from tests.unit.engine.played import run_plan


def test_a_recovery_is_looked_for_as_long_as_it_may_take(tmp_path):
    """However early a run gives up otherwise."""
    limits = [
        run_plan(tmp_path, gives_up_after="70s"),
        run_plan(tmp_path, gives_up_after="70s", recovery_slo="70s"),
        run_plan(tmp_path, recovery_slo="300s"),
        run_plan(tmp_path),
    ]

    assert [plan.recovers_within_s for plan in limits] == [70, 71, 330, 180]
