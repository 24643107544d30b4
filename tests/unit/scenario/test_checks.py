import pytest

from tests.unit.scenario.declared import HEAD, STOCK, errors_in, errors_in_fault, errors_of, head, loaded, read


def test_two_scenarios_of_one_name() -> None:
    """The name is the key of Allure's history: two scenarios would share one."""
    again = HEAD.split("scenarios:\n")[1]

    assert errors_of(HEAD + again) == [("6:11", "name-taken")]


def test_two_faults_of_one_name() -> None:
    """A default name counts as well; it is shown at its fault."""
    fault = "{kind: kill_broker, target: any, when: {after: 1s}"

    assert errors_in(f"faults: [{fault}, name: kill_broker-2}}, {fault}}}]") == [("6:88", "fault-name-taken")]


@pytest.mark.parametrize("tag", ["skip", "xfail", "parametrize", "timeout", "chaos", "not"])
def test_a_tag_that_means_something_to_pytest(tag: str) -> None:
    """A scenario tagged skip would never run, and the night would be green."""
    assert errors_in(f"tags: [smoke, {tag}]") == [("6:19", "tag-of-pytest")]


def test_a_verifier_that_is_left_out_though_it_would_not_be_asked() -> None:
    """A loader has no positions."""
    text = head("none") + "    leave_out: {offsets: they differ}\n"
    assert errors_of(text) == [("6:26", "leave-out-not-asked")]


def test_all_verifiers_are_left_out() -> None:
    """Nothing would be judged."""
    every = ", ".join(f"{name}: why" for name in read().scenarios[0].applicable)
    assert errors_in(f"leave_out: {{{every}}}") == [("6:16", "no-verifier-left")]


def test_an_expectation_of_a_verifier_that_does_not_run() -> None:
    """It would never be disappointed."""
    assert errors_in("leave_out: {duplicates: why}", "expect: {gaps: valid, duplicates: invalid}") == [
        ("7:39", "expected-not-asked")
    ]
    assert errors_of(head("none") + "    expect: {offsets: invalid}\n") == [("6:23", "expected-not-asked")]


def test_an_end_of_a_pipeline_that_is_not_there() -> None:
    """The loader alone must not end with an error."""
    assert read("ends: was made anew")
    assert errors_of(head("none") + "    ends: was made anew\n") == [("6:11", "end-without-pipeline")]


def test_a_trigger_that_never_comes() -> None:
    """Sixty seconds after the planned end of the workload (10 s here) is the latest time."""
    assert read("faults: [{kind: kill_broker, target: any, when: {after: 70s}}]")
    assert errors_in_fault("{kind: kill_broker, target: any, when: {after: 70001ms}}") == [("6:61", "trigger-too-late")]


@pytest.mark.parametrize(
    ("fault", "column"),
    [
        ("{kind: pause_broker, target: broker-4, for: 1s, when: {after: 1s}}", 43),
        ("{kind: cut_link, link: 'broker-4->controller', for: 1s, when: {after: 1s}}", 37),
        ("{kind: cut_link, link: '*->broker-4', for: 1s, when: {after: 1s}}", 37),
    ],
)
def test_a_broker_that_is_not_there(fault: str, column: int) -> None:
    """The system says how many there are."""
    assert errors_in_fault(fault) == [(f"6:{column}", "no-such-broker")]


def test_a_broker_that_is_there_because_the_system_is_larger() -> None:
    """The bound follows from what is declared."""
    four = "system: {kafka: {brokers: 4}}\n"
    fault = "    faults: [{kind: kill_broker, target: broker-5, when: {after: 1s}}]\n"

    assert errors_of(four + HEAD + fault) == [("7:42", "no-such-broker")]


@pytest.mark.parametrize(
    ("pipeline", "fault", "error"),
    [
        (
            STOCK,
            "{kind: kill_broker, target: transaction_coordinator, when: {after: 1s}}",
            ("6:42", "no-transaction-coordinator"),
        ),
        (
            "none",
            "{kind: cut_link, link: 'loader->transaction_coordinator', for: 1s, when: {after: 1s}}",
            ("6:37", "no-transaction-coordinator"),
        ),
        (
            "none",
            "{kind: kill_broker, target: 'leader(datasnk, 0)', when: {after: 1s}}",
            ("6:42", "not-a-topic"),
        ),
        (
            "none",
            "{kind: crash_executor, target: executor(any), when: {after: 1s}}",
            ("6:45", "no-executors"),
        ),
        (
            "none",
            "{kind: cut_link, link: 'spark->broker-1', for: 1s, when: {after: 1s}}",
            ("6:37", "no-spark-client"),
        ),
        (
            "{kind: command, run: [app], group: g, session_timeout: 6s}",
            "{kind: pause_pipeline, for: 6s, outlasts: [session_timeout], when: {after: 1s}}",
            ("6:56", "pause-too-short"),
        ),
        (
            "{kind: command, run: [app], group: g, session_timeout: 6s}",
            "{kind: pause_pipeline, for: 9s, outlasts: [transaction_timeout], when: {after: 1s}}",
            ("6:56", "timeout-not-declared"),
        ),
    ],
)
def test_a_fault_that_could_not_bite_this_pipeline(pipeline: str, fault: str, error: tuple[str, str]) -> None:
    """A fault on an unused part cannot break the pipeline, so it is refused before the run."""
    text = head(pipeline) + f"    faults: [{fault}]\n"

    assert errors_of(text) == [error]


def test_scenarios_that_keep_to_the_grammar_are_checked_in_a_file_that_does_not() -> None:
    """One error in the first scenario hides none in the second, and a broker is not missed that may be declared."""
    broken = "system: {kafka: {brokers: many}}\n" + HEAD + "    nonsense: 1\n"
    fault = "    faults: [{kind: kill_broker, target: broker-5, when: {after: 1s}}]\n"
    second = HEAD.split("scenarios:\n")[1].replace("name: a", "name: b") + "    tags: [skip]\n" + fault

    assert errors_of(broken + second) == [
        ("1:27", "not-a-whole-number"),
        ("7:5", "unknown-key"),
        ("11:12", "tag-of-pytest"),
    ]


def test_a_loader_with_transactions_has_a_coordinator() -> None:
    """And it sends what ends them."""
    loader = head("none") + "    workload: {producer: {transaction_records: 5}}\n"
    fault = "    faults: [{kind: kill_broker, target: transaction_coordinator, when: {request: EndTxn}}]\n"

    assert loaded(loader + fault).scenarios[0].pipeline.kind == "none"
