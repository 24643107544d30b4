"""One Spark application as its own REST API tells it (``/api/v1``, monitoring.html): executors, and the tasks they lost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import requests

_LOST = "ExecutorLostFailure"
_ASK_S = 15.0  # the first answer of a driver takes seconds


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """What the driver knows of one executor.

    Attributes:
        active: False once the driver has removed it.
        active_tasks: tasks that run there now.
    """

    id: str
    active: bool
    active_tasks: int


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
        return {state.id: state for state in map(_state, self._ask("allexecutors")) if state.id != "driver"}

    def lost_tasks(self, executors: Collection[str]) -> int:
        """Tasks that failed because one of these executors died (``ExecutorLostFailure``).

        An executor's own count of failed tasks does not have them when its removal is noticed first (``AppStatusListener``).

        Raises:
            requests.RequestException: the driver does not answer.
        """
        stages = self._ask("stages?details=true&taskStatus=failed")
        tasks = [task for stage in stages for task in (stage.get("tasks") or {}).values()]
        return sum(task["executorId"] in executors and task.get("errorMessage", "").startswith(_LOST) for task in tasks)

    def _ask(self, what: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/applications/{self.id}/{what}", timeout=_ASK_S)
        answer.raise_for_status()
        return answer.json()


def _state(executor: Mapping[str, Any]) -> ExecutorState:
    return ExecutorState(executor["id"], executor["isActive"], executor["activeTasks"])
