import pytest

from chaos.faults.checkpoint import CrashBeforeCommit, DamageCheckpoint
from chaos.faults.kafka_state import DeleteGroupOffsets, HangingTransaction
from chaos.faults.spark_daemons import CrashMaster, CrashWorker
from chaos.faults.spark_executors import PauseExecutor
from chaos.faults.spark_python_workers import CrashPythonWorker, ZombieExecutor
from chaos.grammar.base import WrongValueError
from chaos.grammar.targets import ExecutorTarget, WorkerTarget, executor_target, worker_target
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import HEAD, SQUARE, STOCK, errors_in_fault, errors_of, head, read
from tests.unit.wording import code_of, keep

DECLARED = """\
faults:
      - {kind: crash_python_worker, when: {after: 1s}}
      - {kind: pause_executor, target: executor(2), when: {after: 1s}, for: 14s}
      - {kind: zombie_executor, target: executor(all), when: {request: Produce, nth: 9}, for: 3s}
      - {kind: crash_worker, target: worker-2, when: {after: 1s}}
      - {kind: crash_master, state: lost, when: {after: 1s}}
      - {kind: damage_checkpoint, what: older_copy, restore_after: 4s, when: {progress: 20%}}
      - {kind: damage_checkpoint, what: offsets_torn, repair: batch_removed, when: {progress: 20%}}
      - {kind: crash_before_commit, when: {progress: 20%}}
      - {kind: delete_group_offsets, repair: seeded, when: {after: 1s}}
      - {kind: hanging_transaction, partition: 2, for: 5s, when: {after: 1s}}
"""


def test_every_fault_is_read_into_a_value_of_its_own() -> None:
    """With the defaults that the documentation names."""
    faults = read(DECLARED).scenarios[0].faults

    kinds = (CrashPythonWorker, PauseExecutor, ZombieExecutor, CrashWorker, CrashMaster, DamageCheckpoint, DamageCheckpoint)
    assert [type(fault) for fault in faults] == [
        *kinds,
        CrashBeforeCommit,
        DeleteGroupOffsets,
        HangingTransaction,
    ]
    python, pause, _, worker, master, older, torn, _, _, hanging = faults
    assert (python.target, pause.target, worker.target) == (
        ExecutorTarget("busiest"),
        ExecutorTarget("on", 2),
        WorkerTarget("number", 2),
    )
    assert (worker.restart_after_s, master.state, older.restore_after_s, older.damage) == (2.0, "lost", 4.0, "older_copy")
    assert (torn.repair, hanging.transaction_timeout_s, hanging.end) == ("batch_removed", 600.0, "aborted")


def test_a_plan_tells_what_will_be_done() -> None:
    """The sentence that `chaos plan` prints names target, time and what is repaired."""
    lines = describe(plan(read(DECLARED).scenarios[0], 1))

    wanted = [
        ("1 s", "crash_python_worker", "executor(busiest)"),
        ("1 s", "pause_executor", "executor(2)", "14 s"),
        ("Produce 9", "zombie_executor", "executor(all)", "3 s"),
        ("1 s", "crash_worker", "worker-2", "2 s"),
        ("1 s", "crash_master", "lost", "2 s"),
        ("20 %", "73 %", "damage_checkpoint", "older_copy", "4 s", "1 s"),
        ("20 %", "10 %", "damage_checkpoint", "offsets_torn", "removed", "1 s"),
        ("20 %", "1 %", "crash_before_commit", "1 s"),
        ("1 s", "delete_group_offsets", "put back", "1 s"),
        ("1 s", "hanging_transaction", "partition 2", "5 s", "aborted"),
    ]
    for line, names in zip(lines, wanted, strict=True):
        keep(line)
        assert [name for name in names if name not in line] == []


def test_a_schedule_is_read_back_as_it_was_written() -> None:
    """`schedule.json` is what `chaos judge` plays again; a field's alias must not get lost on the way."""
    schedule = plan(read(DECLARED).scenarios[0], 7)

    assert from_json(to_json(schedule)) == schedule


@pytest.mark.parametrize("text", ["executor(1)", "executor(4)", "executor(any)"])
def test_an_executor_target_gives_its_text_back(text: str) -> None:
    """Histories show targets as they were declared."""
    assert str(executor_target(text)) == text


@pytest.mark.parametrize("text", ["worker-1", "worker(any)", "worker(all)"])
def test_a_worker_target_gives_its_text_back(text: str) -> None:
    """Spaces do not count."""
    assert str(worker_target(f" {text} ")) == text


@pytest.mark.parametrize("text", ["worker-0", "worker", "worker(2)", "any", 3])
def test_a_target_that_is_not_a_worker_is_refused(text: object) -> None:
    """The message says what could have been written."""
    with pytest.raises(WrongValueError) as refused:
        worker_target(text)
    assert code_of(refused.value) == ("not-a-target" if isinstance(text, str) else "target-not-text")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "{kind: crash_worker, target: worker-3, when: {after: 1s}}",
            ("6:43", "no-such-worker"),
        ),
        (
            "{kind: crash_executor, target: executor(3), when: {after: 1s}}",
            ("6:45", "no-such-worker"),
        ),
        (
            "{kind: damage_checkpoint, what: older_copy, when: {after: 1s}}",
            ("6:14", "copy-not-older"),
        ),
        (
            "{kind: damage_checkpoint, what: lost, restore_after: 2s, when: {after: 1s}}",
            ("6:14", "restore-without-copy"),
        ),
        (
            "{kind: damage_checkpoint, what: lost, repair: batch_removed, when: {after: 1s}}",
            ("6:14", "repair-without-tear"),
        ),
        (
            "{kind: hanging_transaction, for: 1s, transaction_timeout: 20m, when: {after: 1s}}",
            ("6:72", "transaction-too-long"),
        ),
    ],
)
def test_a_mistake_is_shown_where_it_is(fault: str, error: tuple[str, str]) -> None:
    """A worker that is not there, a repair of what needs none, a timeout that the broker refuses."""
    assert errors_in_fault(fault) == [error]


def test_a_worker_that_is_there_because_the_system_is_larger() -> None:
    """The bound follows from what is declared."""
    four = "system: {spark: {workers: 3}}\n"
    fault = "    faults: [{kind: crash_worker, target: worker-4, when: {after: 1s}}]\n"

    assert errors_of(four + HEAD + fault) == [("7:43", "no-such-worker")]


APPLICATION = "{kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}"
ALONE = "none"


@pytest.mark.parametrize(
    ("pipeline", "fault", "error"),
    [
        (
            STOCK,
            "kind: crash_python_worker",
            "no-python-workers",
        ),
        (
            STOCK,
            "kind: crash_before_commit",
            "no-committing-tasks",
        ),
        (
            STOCK,
            "kind: delete_group_offsets",
            "no-group-to-break",
        ),
        (
            SQUARE,
            "kind: rebalance_storm, for: 1s",
            "no-group-members",
        ),
        (APPLICATION, "kind: crash_worker", "no-executors"),
        (
            APPLICATION,
            "kind: damage_checkpoint, what: lost",
            "no-checkpoint",
        ),
        (
            ALONE,
            "kind: hanging_transaction, for: 1s",
            "no-pipeline-to-break",
        ),
        (
            ALONE,
            "kind: rebalance_storm, for: 1s",
            "no-pipeline-to-break",
        ),
    ],
)
def test_a_fault_that_is_not_possible_with_this_pipeline(pipeline: str, fault: str, error: str) -> None:
    """The file is refused when it is read, because a run would prove nothing."""
    text = head(pipeline) + f"    faults: [{{{fault}, when: {{after: 1s}}}}]\n"

    ((_, code),) = errors_of(text)
    assert code == error
