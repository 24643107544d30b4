"""Statements and commits of programs, as evidence.

Statements of reads are judged against the source; those of transactions against the sink. Only the needed ones are landed:
`atomicity` leaves decisions to `outcomes`, and reports itself that one is undecided if that verifier does not run.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from chaos.cluster.kafka import Kafka
from chaos.common.events import LOADER, PIPELINE
from chaos.engine.run_plan import RunPlan
from chaos.judging import statements

Looks = Callable[[], Iterable[tuple[Any, ...]]]
Makers = Mapping[str, Looks]
"""View -> the function that makes its rows."""


def about_source(plan: RunPlan, kafka: Kafka, topic: str) -> Makers:
    """Make the views of statements about a filled topic: by the pipeline that read it or, without one, by its loader."""
    if plan.pipeline is None:
        return _told(plan, LOADER)
    asked = plan.scenario.verify
    read = partial(statements.deliveries, statements.logs(plan.folder, PIPELINE), topic)
    of_reader: Makers = {"deliveries": read} if "deliveries" in asked else {}
    commits = partial(kafka.committed, plan.group, topic)
    return {**of_reader, "commits": commits} if plan.group and "commits" in asked else of_reader


def about_sink(plan: RunPlan, kafka: Kafka, looks: Looks | None) -> Makers:
    """Make the views of the pipeline's statements about its output, and of the looks at that during the run."""
    if looks is None:
        return _told(plan, PIPELINE)
    return {**_told(plan, PIPELINE), "looks": looks, "reached": partial(kafka.reached, plan.group, plan.topics.filled)}


def _told(plan: RunPlan, writer: str) -> Makers:
    told = partial(statements.told, statements.logs(plan.folder, writer))
    return {"told": told} if "outcomes" in plan.scenario.verify else {}
