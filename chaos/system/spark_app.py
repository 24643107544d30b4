"""One Spark application as its own REST API tells it (``/api/v1``, monitoring.html): executors, and the tasks they lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

_ASK_S = 15.0  # the first answer of a driver takes seconds


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """What the driver knows of one executor.

    Attributes:
        active: False once the driver has removed it.
        active_tasks, failed_tasks: counts; a task that died with its executor is a failed one.
    """

    id: str
    active: bool
    active_tasks: int
    failed_tasks: int


@dataclass(frozen=True, slots=True)
class SparkApp:
    """A running application.

    Attributes:
        id: e.g. ``app-20260101120000-0003``.
        url: of the driver's web page.
    """

    id: str
    url: str

    def executors(self) -> Mapping[str, ExecutorState]:
        """All executors there ever were in this application, by id; the driver itself is left out.

        Raises:
            requests.RequestException: the driver does not answer.
        """
        answer = requests.get(f"{self.url}/api/v1/applications/{self.id}/allexecutors", timeout=_ASK_S)
        answer.raise_for_status()
        return {state.id: state for state in map(_state, answer.json()) if state.id != "driver"}


def _state(executor: Mapping[str, Any]) -> ExecutorState:
    return ExecutorState(executor["id"], executor["isActive"], executor["activeTasks"], executor["failedTasks"])
