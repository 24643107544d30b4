import pytest

from chaos.faults.broker_processes import KillBroker, PauseBroker
from chaos.faults.links import BlackholeLink, CutLink, DelayLink
from chaos.faults.spark_executors import CrashExecutor
from chaos.grammar.triggers import After, Progress
from tests.unit.scenario.declared import errors_in_fault, read

DECLARED = """\
faults:
      - {kind: cut_link, link: "broker-*<->controller", when: {after: 400ms}, for: 6s}
      - {kind: blackhole_link, link: "spark->broker-1", stream: up, when: {progress: 40%}, for: 4s}
      - {kind: delay_link, link: "spark->*", latency: 400ms, jitter: 50ms, when: {after: 1s}, for: 8s}
      - {kind: kill_broker, target: "leader(datasink, 0)", when: {progress: 30%}}
      - {kind: pause_broker, target: controller, when: {after: 2s}, for: 10s}
      - {kind: crash_executor, when: {progress: 30%}}
"""


def test_every_kind_of_fault_is_read_into_a_value_of_its_own() -> None:
    """Seconds, percents and defaults, whatever units the file is written in."""
    cut, blackhole, delay, kill, pause, crash = read(DECLARED).scenarios[0].faults

    assert isinstance(cut, CutLink)
    assert (str(cut.link), cut.for_s, cut.when) == ("broker-*<->controller", 6.0, After(after="400ms"))
    assert isinstance(blackhole, BlackholeLink)
    assert (blackhole.stream, blackhole.when) == ("up", Progress(progress="40%"))
    assert isinstance(delay, DelayLink)
    assert (delay.latency_s, delay.jitter_s, delay.stream, delay.for_s) == (0.4, 0.05, "both", 8.0)
    assert isinstance(kill, KillBroker)
    assert (str(kill.target), kill.restart_after_s) == ("leader(datasink, 0)", 3.0)
    assert isinstance(pause, PauseBroker)
    assert (str(pause.target), pause.for_s) == ("controller", 10.0)
    assert isinstance(crash, CrashExecutor)
    assert str(crash.target) == "executor(busiest)"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("{kind: kill_broker, target: any}", ("6:14", "missing-key")),
        ("{kind: kill_broker, when: {after: 5s}}", ("6:14", "missing-key")),
        ("{kind: cut_link, link: '*->*', when: {after: 5s}}", ("6:14", "missing-key")),
        (
            "{kind: kill_brokr, target: any, when: {after: 5s}}",
            ("6:21", "unknown-kind"),
        ),
        (
            "{kind: kill_broker, target: any, when: {after: 5s, progress: 4%}}",
            ("6:53", "two-triggers"),
        ),
        (
            "{kind: kill_broker, target: any, when: {after: 5s, request: EndTxn}}",
            ("6:53", "two-triggers"),
        ),
        ("{kind: kill_broker, target: any, when: 5s}", ("6:53", "not-a-trigger")),
        ("{kind: kill_broker, target: any, when: {}}", ("6:53", "not-a-trigger")),
        (
            "{kind: kill_broker, target: any, when: {aftr: 5s}}",
            ("6:53", "unknown-trigger"),
        ),
        ("{kind: kill_broker, target: any, when: {nth: 2}}", ("6:53", "unknown-trigger")),
        ("{kind: kill_broker, target: any, when: {after: 5s, nth: 2}}", ("6:65", "unknown-key")),
        (
            "{kind: kill_broker, target: any, when: {after: 5}}",
            ("6:61", "not-a-duration"),
        ),
        (
            "{kind: kill_broker, target: any, when: {progress: 100%}}",
            ("6:64", "not-a-share"),
        ),
        (
            "{kind: kill_broker, target: any, when: {after: 1s}, restart-after: 3s}",
            ("6:66", "unknown-key"),
        ),
        (
            "{kind: cut_link, link: 'spark<->broker-1', when: {after: 1s}, for: 1s}",
            ("6:37", "client-both-ways"),
        ),
        (
            "{kind: blackhole_link, link: '*->*', stream: upstream, when: {after: 1s}, for: 1s}",
            ("6:59", "unknown-choice"),
        ),
        (
            "{kind: delay_link, link: '*->*', latency: 100ms, jitter: 100ms, when: {after: 1s}, for: 1s}",
            (("6:71", "jitter-too-large")),
        ),
        (
            "{kind: pause_broker, target: any, when: {after: 1s}, for: 0s}",
            ("6:72", "zero-duration"),
        ),
        (
            "{kind: crash_executor, target: executor(an), when: {after: 1s}}",
            ("6:45", "not-a-target"),
        ),
    ],
)
def test_a_mistake_in_a_fault_is_shown_where_it_is(fault: str, error: tuple[str, str]) -> None:
    """A missing key is shown at its fault, a wrong word at itself."""
    assert errors_in_fault(fault) == [error]


def test_a_target_that_yaml_cut_in_two_is_explained() -> None:
    """Within braces an unquoted comma ends the value: YAML sees two keys."""
    assert errors_in_fault("{kind: kill_broker, target: leader(datasink, 0), when: {after: 5s}}") == [
        ("6:42", "unclosed-target"),
        ("6:59", "unknown-key"),
    ]
