"""A fault that an existing system does not allow is refused when the file is read, with its place and the reason."""

from pathlib import Path

import pytest

from chaos.external import declaration
from chaos.scenario import load as load_module
from chaos.scenario import support
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import HEAD, SQUARE, STOCK, TOPICS, head, loaded, read
from tests.unit.wording import codes_of, mistakes_in

ROOT = Path(__file__).parents[3]
LEAST = "version: 1\nbootstrap: [kafka-1:9092]\nprefix: chaos-a-\n"
HERE = 'spark: {master: "spark://a:7077", executors: here}'
ELSEWHERE = 'spark: {master: "spark://a:7077"}'
TLS = "tls: {ca: ca.pem}"
APPLICATION = '{kind: command, run: [app], group: "{prefix}g"}'
NOW = "when: {after: 1s}"


def found(scenario: Scenario, *lines: str) -> list[str]:
    """The codes of what is wrong with it, on a system with these lines in its declaration."""
    system = declaration.load_text(LEAST + "".join(f"{line}\n" for line in lines), Path("external.yaml"))
    return codes_of(message for _, message in support.impossible_outside(scenario, system, ()))


def of_fault(fault: str, *lines: str, pipeline: str = SQUARE) -> list[str]:
    """The refusals of a scenario with one fault."""
    return found(loaded(f"{head(pipeline)}    faults: [{{{fault}}}]\n").scenarios[0], *lines)


@pytest.mark.parametrize(
    "fault",
    [
        f"kind: crash_pipeline, {NOW}",
        f"kind: pause_pipeline, for: 1s, {NOW}",
        f"kind: zombie_pipeline, for: 1s, {NOW}",
        f"kind: damage_checkpoint, what: lost, {NOW}",
        f'kind: cut_link, link: "spark->*", for: 1s, {NOW}',
        f'kind: throttle_link, link: "pipeline->leader(datasource, 0)", rate: 9KB/s, for: 1s, {NOW}',
        "kind: delay_request, for: 1s, when: {request: Fetch, nth: 3}",
    ],
)
def test_what_is_possible_is_let_pass(fault: str) -> None:
    """Our own process and its checkpoint, and the connections of Spark's JVMs."""
    assert of_fault(fault) == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (f"kind: kill_broker, target: any, {NOW}", "no-kill-hook"),
        (
            f"kind: pause_broker, target: any, for: 1s, {NOW}",
            "no-pause-hook",
        ),
        (f"kind: terminate_broker, target: any, {NOW}", "not-offered-outside"),
        (
            f"kind: log_dir_full, target: any, {NOW}",
            "not-offered-outside",
        ),
        (
            f"kind: partition_network, shape: isolate, target: any, for: 1s, {NOW}",
            "not-offered-outside",
        ),
        (f"kind: crash_master, {NOW}", "not-offered-outside"),
        (f"kind: hanging_transaction, for: 1s, {NOW}", "not-offered-outside"),
        (f"kind: crash_executor, {NOW}", "no-executor-beside-driver"),
        (f"kind: crash_python_worker, {NOW}", "no-python-processes"),
        (f'kind: cut_link, link: "loader->*", for: 1s, {NOW}', "link-of-librdkafka"),
        (f'kind: cut_link, link: "broker-1->broker-2", for: 1s, {NOW}', "link-beyond-jvms"),
        (f'kind: cut_link, link: "*->broker-2", for: 1s, {NOW}', "link-beyond-jvms"),
        (
            f'kind: cut_link, link: "spark->leader(datasink, 0)", for: 1s, {NOW}',
            "link-of-python-sink",
        ),
        (f'kind: cut_link, link: "spark->controller", for: 1s, {NOW}', "controller-outside"),
        ("kind: delay_request, for: 1s, when: {request: EndTxn}", "request-of-python-sink"),
    ],
)
def test_everything_else_is_refused(fault: str, reason: str) -> None:
    """A fault that cannot bite is never skipped, and never run in vain."""
    assert of_fault(fault)[0] == reason


def test_a_hook_makes_a_fault_possible() -> None:
    """A declared command can kill a broker."""
    kill, pause = f"kind: kill_broker, target: any, {NOW}", f"kind: pause_broker, target: any, for: 1s, {NOW}"

    assert of_fault(kill, "hooks: {kill: 'kill {id}'}") == []
    assert of_fault(pause, "hooks: {kill: 'kill {id}'}") != []
    assert of_fault(pause, "hooks: {pause: a, resume: b}") == []


def test_executors_can_be_killed_where_we_can_signal_them() -> None:
    """Those of a cluster on this machine; none by the number of its worker."""
    crash = f"kind: crash_executor, {NOW}"

    assert of_fault(crash, HERE) == []
    assert of_fault(crash, ELSEWHERE) == ["executors-elsewhere"]
    assert of_fault(f"kind: crash_executor, target: executor(2), {NOW}", HERE) == ["numbered-worker-outside"]


def test_links_need_executors_that_reach_our_proxies() -> None:
    """They listen on loopback addresses."""
    cut = f'kind: cut_link, link: "spark->*", for: 1s, {NOW}'

    assert of_fault(cut, HERE) == []
    assert of_fault(cut, ELSEWHERE) == ["jvms-elsewhere"]


def test_only_jvms_can_be_led_through_a_proxy() -> None:
    """The plain application is librdkafka through and through; the stock sink writes from the JVM."""
    cut = f'kind: cut_link, link: "pipeline->leader(datasink, 0)", for: 1s, {NOW}'

    assert of_fault(cut, pipeline=STOCK) == []
    assert of_fault(cut, pipeline=APPLICATION)[0] == "link-of-librdkafka"
    assert of_fault("kind: lose_request, when: {request: Produce}", pipeline=STOCK) == []


def test_what_is_encrypted_cannot_be_told_apart() -> None:
    """Whole connections can be broken under TLS, single requests cannot, and what is probed in plain text cannot either."""
    assert of_fault(f'kind: cut_link, link: "spark->*", for: 1s, {NOW}', TLS) == []
    assert of_fault("kind: delay_request, for: 1s, when: {request: Fetch}", TLS) == ["request-under-tls"]
    assert of_fault(f'kind: reset_link, link: "spark->*", for: 1s, {NOW}', TLS)[0] == "no-plain-connections"
    for name in ("atomicity", "hanging"):
        scenario = read(f"expect: {{{name}: invalid}}").scenarios[0]
        assert found(scenario, TLS) == ["expected-not-asked-outside"]
        assert found(scenario) == []
    plain, secured = (declaration.load_text(LEAST + text, Path("external.yaml")) for text in ("", f"{TLS}\n"))
    (scenario,) = read().scenarios
    assert set(support.for_external(scenario, plain).leave_out) == {"commits", "precedence"}
    assert set(support.for_external(scenario, secured).leave_out) == {"commits", "precedence", "atomicity", "hanging"}


def test_internal_topics_of_others_are_not_read() -> None:
    """A control that expects what they would tell is refused."""
    (scenario,) = read("expect: {commits: invalid}").scenarios

    assert found(scenario) == ["expected-not-asked-outside"]


@pytest.mark.parametrize(("group", "is_right"), [("copier-{suffix}", False), ("{prefix}copier-{suffix}", True)])
def test_a_command_puts_the_prefix_before_its_names(group: str, is_right: bool) -> None:  # noqa: FBT001
    """The names of an unknown command cannot be changed from outside."""
    pipeline = f'{{kind: command, run: [a], group: "{group}", transactional_ids: ["{group}"]}}'
    scenario = loaded(head(pipeline)).scenarios[0]

    said = found(scenario)

    assert (said == []) == is_right
    assert is_right or set(said) == {"name-without-prefix"}


@pytest.mark.parametrize(("name", "is_right"), [("copier", False), ("{sink}-square", True)])
def test_a_job_puts_the_prefix_before_its_names(name: str, is_right: bool) -> None:  # noqa: FBT001
    """Those of the run's topics begin with it."""
    pipeline = SQUARE.replace("{sink}-square", name).replace("python_workers", f"transactional_ids: ['{name}'], python_workers")
    scenario = loaded(head(pipeline)).scenarios[0]

    assert len(found(scenario)) == (0 if is_right else 2)


def test_a_job_with_a_stock_sink_sends_what_that_sends() -> None:
    """It reads and writes; requests for a group are not among what it sends."""
    assert of_fault("kind: delay_request, for: 1s, when: {request: Produce}", pipeline=STOCK) == []
    assert of_fault("kind: delay_request, for: 1s, when: {request: JoinGroup}", pipeline=STOCK) == ["request-of-transactions"]


def test_only_what_was_selected_is_refused_with_its_place(tmp_path: Path) -> None:
    """Scenarios that were not selected may have faults that this system does not allow."""
    path = tmp_path / "scenarios.yaml"
    second = f"  - name: b\n    title: B\n    pipeline: {SQUARE}\n    faults:\n      - {{kind: crash_master, {NOW}}}\n"
    path.write_text(HEAD + second + TOPICS, encoding="utf-8")
    file, system = load(path), declaration.load_text(LEAST, Path("external.yaml"))

    assert load_module.refused(file, ["a"], system) is None
    refused = load_module.refused(file, ["a", "b"], system)
    assert str(refused).startswith(f"{path}:10:16: b: ")
    assert mistakes_in(refused) == [("10:16", "not-offered-outside")]


def test_the_examples_can_be_run_on_the_example() -> None:
    """The examples for users are not refused."""
    folder = ROOT / "examples" / "external"
    file = load(folder / "scenarios.yaml")

    assert (
        load_module.refused(file, [scenario.name for scenario in file.scenarios], declaration.load(folder / "external.yaml"))
        is None
    )
