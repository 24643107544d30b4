"""One Spark application as its own REST API tells it (``/api/v1``, monitoring.html): executors, and the tasks they lost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import requests

_LOST = "ExecutorLostFailure"
_PYTHON_GONE = ("Python worker exited unexpectedly", "Python worker failed to connect back", "java.io.EOFException")
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

    def all_tasks_started(self) -> bool:
        """Whether stages run, and no task of them waits for its executor.

        Raises:
            requests.RequestException: the driver does not answer.
        """
        stages = self._ask("stages?status=active")
        return bool(stages) and all(_started(stage) >= stage["numTasks"] for stage in stages)

    def lost_tasks(self, executors: Collection[str]) -> int:
        """Tasks that failed because one of these executors died (``ExecutorLostFailure``).

        An executor's own count of failed tasks does not have them when its removal is noticed first (``AppStatusListener``).

        Raises:
            requests.RequestException: the driver does not answer.
        """
        return sum(error.startswith(_LOST) for error in self._errors(executors))

    def failed_in_python(self, executors: Collection[str]) -> int:
        """Tasks that failed in these executors because their Python worker was gone (``BasePythonRunner``).

        Raises:
            requests.RequestException: the driver does not answer.
        """
        return sum(any(sign in error for sign in _PYTHON_GONE) for error in self._errors(executors))

    def speculates(self) -> bool:
        """Whether slow tasks get a copy (``spark.speculation``).

        Raises:
            requests.RequestException: the driver does not answer.
        """
        return ["spark.speculation", "true"] in self._ask("environment")["sparkProperties"]

    def speculative_tasks(self) -> int:
        """Copies of slow tasks that were started.

        Raises:
            requests.RequestException: the driver does not answer.
        """
        return sum(task["speculative"] for task in self._tasks("stages?details=true"))

    def _errors(self, executors: Collection[str]) -> list[str]:
        failed = self._tasks("stages?details=true&taskStatus=failed")
        return [task.get("errorMessage", "") for task in failed if task["executorId"] in executors]

    def _tasks(self, what: str) -> list[Mapping[str, Any]]:
        return [task for stage in self._ask(what) for task in (stage.get("tasks") or {}).values()]

    def _ask(self, what: str) -> Any:
        answer = requests.get(f"{self.url}/api/v1/applications/{self.id}/{what}", timeout=_ASK_S)
        answer.raise_for_status()
        return answer.json()


def _started(stage: Mapping[str, Any]) -> int:
    return int(stage["numActiveTasks"] + stage["numCompleteTasks"])


def _state(executor: Mapping[str, Any]) -> ExecutorState:
    return ExecutorState(executor["id"], executor["isActive"], executor["activeTasks"])
