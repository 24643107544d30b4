"""The plan of a twin: a scenario's workload and pipeline without its faults."""

from dataclasses import replace

from chaos.cluster.system import System
from chaos.common.errors import InconclusiveError
from chaos.engine.pipelines import topics_of
from chaos.engine.run_plan import RunPlan, table_of
from chaos.expectation.definitions import TWIN
from chaos.expectation.ways import TheTwin
from chaos.judging.judge import WITHOUT_EXPECTED
from chaos.scenario.plan import plan as schedule_of
from chaos.scenario.verifiers import PROGRESS, TRANSACTIONS

_ASKED = WITHOUT_EXPECTED | {"ledger", PROGRESS, TRANSACTIONS}
_NOT_ASKED = "this run is the twin: its output is the expectation"


def without_faults(plan: RunPlan, system: System, number: int) -> RunPlan:
    """Return the plan of this workload and pipeline without faults, with its own topics and folder."""
    place = plan.folder / TWIN / f"{plan.folder.name}-without-faults-{number}"
    place.mkdir(parents=True)
    unbroken = {"faults": (), "random": None, "expect": "valid", "ends": None}
    of_rows = (name for name in plan.scenario.verify if name not in _ASKED)
    scenario = plan.scenario.model_copy(update=unbroken).without(of_rows, _NOT_ASKED)
    topics = topics_of(scenario, system.kafka.cluster.prefix, place.name)
    table = table_of(plan.pipeline, system, plan.client, topics, place)
    return replace(
        plan,
        scenario=scenario,
        schedule=schedule_of(scenario, plan.schedule.seed),
        folder=place,
        topics=topics,
        table=table,
        way=TheTwin(),
    )


def refused(why: str) -> InconclusiveError:
    """Return the error of a scenario whose twin cannot be made."""
    return InconclusiveError(f"pipeline, expected, same_as: {why}")
