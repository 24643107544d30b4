"""The fixture `chaos`: a scenario as a test in Python, for what YAML cannot say (docs/python.md).

    def test_leader_dies(chaos):
        chaos.start("square", Workload(records=16000, rate="4000/s"))
        with chaos.fault(KillBroker(target="leader(squares, 0)")):
            ...                                                         # the fault is in force, and its proof was taken
        report = chaos.judge()
        assert report.valid, report

The test becomes a `Scenario`, so its run directory, its reports and `chaos judge` are those of a scenario in YAML.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from chaos.cluster.system import System
from chaos.common.errors import MisuseError
from chaos.contract.base import Topics
from chaos.engine.session import OpenRun, Outcome, Session
from chaos.faults.base import FaultBase
from chaos.pytest_plugin import named_pipeline, scenario_item
from chaos.pytest_plugin.results import Injected, Judged
from chaos.pytest_plugin.scenario_item import replay_of, uncaptured
from chaos.report.terminal import Live
from chaos.scenario.draft import Draft
from chaos.scenario.model import Isolation
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.system import SystemSpec
from chaos.scenario.topics import TopicSpec
from chaos.scenario.workload import Workload

_TWICE = "chaos.start was called twice, but a test is one run; write another test for the other run"
_NOT_STARTED = "chaos.{what} was called before chaos.start, so there is nothing to break or to judge"
_OVER = "chaos.{what} was called after the end of the run; call it before chaos.judge"
_NOT_JUDGED = (
    "the test ended without chaos.judge(), so nothing was judged; "
    "end it with `report = chaos.judge()` and `assert report.valid, report`"
)
_NEVER_STARTED = (
    "the test uses the fixture `chaos` but never called chaos.start, so nothing was judged; "
    "begin it with chaos.start(PIPELINE, WORKLOAD)"
)


class Chaos:
    """One run of one test."""

    def __init__(self, session: Session, item: pytest.Item, *, is_last: bool = False) -> None:
        """Prepare a run; only `start` starts anything.

        Args:
            is_last: whether it is the last test of the session.
        """
        self._session = session
        self._item = item
        self._is_last = is_last
        self._draft: Draft | None = None
        self._run: OpenRun | None = None
        self._outcome: Outcome | None = None
        self._judged: Judged | None = None
        self._shown = ExitStack()

    def start(
        self,
        pipeline: str | Pipeline | Mapping[str, Any],
        workload: Workload | Mapping[str, Any] | None = None,
        *,
        topics: Mapping[str, TopicSpec | Mapping[str, Any] | None] | None = None,
        system: SystemSpec | None = None,
        recovery_slo: str = "60s",
        isolation: Isolation = "read_committed",
        unsafe: bool = False,
    ) -> None:
        """Start the system, the pipeline and the loader, and return when output flows.

        Args:
            pipeline: a name from `scenarios.yaml`, ``"none"``, or a declaration, whose paths are relative to the test's folder.
            workload: as in YAML.
            topics: as in YAML; by default those of `scenarios.yaml`.
            system: by default that of `scenarios.yaml`.
            recovery_slo, isolation, unsafe: the keys of a scenario.

        Raises:
            ScenarioError: an argument is wrong; nothing was started.
            MisuseError: this test has a run already.
            InconclusiveError: no output flows; the run has ended and was reported.
        """
        __tracebackhide__ = True
        if self._draft is not None:
            raise MisuseError(_TWICE)
        declared, spec, there = named_pipeline.declared(self._item, pipeline, system)
        keys: dict[str, Any] = {"recovery_slo": recovery_slo, "isolation": isolation, "unsafe": unsafe}
        keys |= {"name": self._name(), "title": self._title(), "pipeline": declared}
        keys |= {"topics": there if topics is None else topics}
        keys |= {} if workload is None else {"workload": workload}
        self._draft = Draft(named_pipeline.ground(self._item, spec), **keys)
        self._begin(self._draft, spec)

    def fault(self, fault: FaultBase | Mapping[str, Any]) -> AbstractContextManager[Injected]:
        """Break something: ``with chaos.fault(KillBroker(target="any")) as injected: …``.

        When the block begins, the fault waits for its trigger, is injected, and its proof is taken. Without `when` it does not
        wait; requests (``when={"request": "EndTxn", "nth": 3}``) are counted from the begin of the block. At the end of the
        block the fault is healed, though not before its own duration (``for_``, ``restart_after``) is over; if the block ends
        with an error, it is healed at once. Blocks may be nested.

        Args:
            fault: an instance of its class, or its keys as in YAML.

        Raises:
            ScenarioError: the fault is wrong, or impossible with this pipeline or system; nothing was injected.
            MisuseError: no run is in progress.
            InconclusiveError: the pipeline has ended; raised in the ``with``.
        """
        __tracebackhide__ = True
        draft, run = self._under_way("fault")
        added = draft.add(fault, run.flowing_s)
        run.declare(draft.scenario)  # also if the block is never entered: then the fault is missing, and the run UNKNOWN
        return self._in_force(added.name, run)

    def judge(self, *, expect: Any = None, leave_out: Mapping[str, str] | None = None) -> Judged:
        """Heal, drain, observe and judge; return the outcome of the run, which is over then.

        Args:
            expect: as in YAML, e.g. ``{"duplicates": {"duplicate": 1}}`` for a control; ``valid`` by default.
            leave_out: verifier -> why it is left out.

        Raises:
            ScenarioError: an argument is wrong.
            MisuseError: no run is in progress.
            ChaosError, KafkaException: the run did not reach its end; it was reported.
        """
        __tracebackhide__ = True
        draft, run = self._under_way("judge")
        run.declare(draft.complete(expect, leave_out))
        outcome = self._end(run)
        outcome.require_end()
        self._judged = Judged(outcome.report)
        return self._judged

    def wait_until(self, condition: Callable[[], object], *, within_s: float, reason: str) -> None:
        """Wait until the condition holds, or the pipeline ends.

        Raises:
            DeadlineError: the condition did not hold in time; the message has the reason.
            InconclusiveError: the pipeline has ended.
        """
        self._under_way("wait_until")[1].wait_until(condition, within_s=within_s, reason=reason)

    @property
    def committed(self) -> int:
        """Number of output records that a read_committed reader can see now."""
        return self._under_way("committed")[1].committed

    @property
    def system(self) -> System:
        """The system under test: its brokers, Spark, links."""
        return self._under_way("system")[1].system

    @property
    def topics(self) -> Topics:
        """Names of the topics in this run: source and sink, and in `names` all topics by their names in the file."""
        return self._under_way("topics")[1].plan.topics

    # called by the plugin -------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End and report the run of a test that ended with an error; raise an error that explains more, if there is one."""
        __tracebackhide__ = True
        if self._run is None:
            self._shown.close()
            if self._judged is not None and self._outcome is not None and _is_about(error, self._judged):
                self._outcome.settle()  # fails like a scenario: in Allure, UNKNOWN is "broken" and not "failed"
            return
        outcome = self._end(self._run, error)
        if outcome.error is None:  # the test's error only made the run inconclusive, so it was judged all the same
            outcome.settle()
        elif outcome.error is not error:
            raise outcome.error from error
        self._item.add_report_section("call", "chaos", Judged(outcome.report))

    def require_judged(self) -> None:
        """Raise if a test that ended without an error proved nothing."""
        __tracebackhide__ = True
        if self._run is not None:
            self._end(self._run, MisuseError(_NOT_JUDGED))
            raise MisuseError(_NOT_JUDGED)
        if self._judged is None or self._outcome is None:
            raise MisuseError(_NEVER_STARTED)
        if not self._judged.is_looked_at:
            self._outcome.settle()

    def close(self) -> None:
        """End the run that an interrupted test left."""
        with self._shown:
            if self._run is not None:
                self._end(self._run, MisuseError(_NOT_JUDGED))

    # -------------------------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        """Name the test like a scenario: ``test_leader_dies[spark]`` is ``leader-dies-spark``."""
        return re.sub(r"[^a-z0-9]+", "-", self._item.name.removeprefix("test_").lower()).strip("-") or "test"

    def _title(self) -> str:
        """Return the first line of the test's docstring, or its name in words."""
        text = (getattr(getattr(self._item, "function", None), "__doc__", "") or "").strip()
        return text.partition("\n")[0] or self._name().replace("-", " ")

    def _begin(self, draft: Draft, spec: SystemSpec) -> None:
        __tracebackhide__ = True
        config = self._item.config
        self._shown.enter_context(uncaptured(config))
        live = self._shown.enter_context(Live(draft.scenario.name))
        replay = replay_of(self._item.nodeid, self._session, config)
        self._run = self._session.open(draft.scenario, spec, replay, live)
        if not self._run.begin():
            self._end(self._run).settle()

    def _under_way(self, what: str) -> tuple[Draft, OpenRun]:
        __tracebackhide__ = True
        if self._draft is not None and self._run is not None:
            return self._draft, self._run
        raise MisuseError((_NOT_STARTED if self._outcome is None else _OVER).format(what=what))

    @contextmanager
    def _in_force(self, name: str, run: OpenRun) -> Iterator[Injected]:
        __tracebackhide__ = True
        self._under_way("fault")
        heal = partial(self._heal, name, run)
        run.inject(name)
        try:
            yield Injected(name, run.history)
        except BaseException:
            heal(at_once=True)
            raise
        heal(at_once=False)

    def _heal(self, name: str, run: OpenRun, *, at_once: bool) -> None:
        if self._run is run:  # not if the run was judged within the block, which heals everything
            run.heal(name, at_once=at_once)

    def _end(self, run: OpenRun, error: BaseException | None = None) -> Outcome:
        self._run = None
        with self._shown:
            self._outcome = outcome = run.end(error)
        scenario_item.report(outcome, self._session, self._item.config, is_last=self._is_last)
        return outcome


def opened(request: pytest.FixtureRequest, session: Session) -> Iterator[Chaos]:
    """Yield the value of the fixture `chaos`."""
    chaos = Chaos(session, request.node, is_last=request.session.items[-1] is request.node)
    yield chaos
    chaos.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End the run of a test with the test, while pytest and Allure still accept reports about it."""
    __tracebackhide__ = True
    chaos = pyfuncitem.funcargs.get("chaos")
    if not isinstance(chaos, Chaos):
        return (yield)
    try:
        result = yield
    except BaseException as error:
        chaos.fail(error)
        raise
    chaos.require_judged()
    return result


def _is_about(error: BaseException, judged: Judged) -> bool:
    return isinstance(error, AssertionError) and judged.partition("\n")[0] in str(error)
