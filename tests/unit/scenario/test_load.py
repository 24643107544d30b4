import json
from pathlib import Path
from typing import get_args

import pytest

from chaos.common.errors import ScenarioError
from chaos.install import spark_versions
from chaos.scenario.load import load
from chaos.scenario.model import Scenario, VerifierName
from tests.unit.scenario.declared import ANY_FILE, HEAD, SQUARE, STOCK, TOPICS, errors_in, errors_of, head, loaded, read
from tests.unit.wording import mistakes_in


def test_what_is_not_declared_has_a_default() -> None:
    """The shortest scenario is complete: no faults, all verifiers, everything must be valid."""
    file = read()

    (scenario,) = file.scenarios
    assert (file.system.kafka.brokers, file.system.spark.workers) == (3, 2)
    assert (scenario.workload.records, scenario.workload.rate_per_s) == (30_000, 3000.0)
    assert (scenario.tags, scenario.faults, scenario.is_control) == ((), (), False)
    assert scenario.expected == dict.fromkeys(scenario.applicable, "valid")


def test_a_control_must_be_caught_by_the_verifiers_it_names() -> None:
    """The verifiers that are not named must be satisfied."""
    (scenario,) = read("leave_out: {ordering: it is not judged here}", "expect: {duplicates: invalid, gaps: valid}").scenarios

    assert scenario.is_control
    assert scenario.expected == {
        name: "invalid" if name == "duplicates" else "valid" for name in scenario.applicable if name != "ordering"
    }


def test_a_run_of_an_earlier_version_is_asked_what_it_was_asked_then() -> None:
    """Its evidence lacks what other verifiers need."""
    (scenario,) = read("leave_out: {values: why}").scenarios
    earlier = json.loads(scenario.to_run()) | {"verify": ["gaps"]}
    del earlier["leave_out"]

    again = Scenario.of_run(json.dumps(earlier))

    assert again.verify == ("gaps",)
    assert set(again.leave_out) == {*scenario.applicable} - {"gaps"}


def test_faults_without_names_are_counted_by_kind() -> None:
    """The names stand in the history; they do not change when a fault of another kind is added."""
    kill, crash = "kind: kill_broker, target: any, when: {after: 1s}", "kind: crash_executor, when: {after: 1s}"
    (scenario,) = read(f"faults: [{{{kill}}}, {{{crash}}}, {{name: second, {kill}}}, {{{kill}}}]").scenarios

    assert [fault.name for fault in scenario.faults] == ["kill_broker-1", "crash_executor-1", "second", "kill_broker-3"]


def test_a_scenario_is_found_by_name() -> None:
    """A wrong name on a command line is answered like a wrong word in the file."""
    file = read()

    assert file.scenario("a") is file.scenarios[0]
    with pytest.raises(ScenarioError, match=r"^scenarios.yaml: there is no scenario 'aa' \(did you mean a\?\); there are: a$"):
        file.scenario("aa")


def test_all_errors_are_told_at_once_in_the_order_of_the_file() -> None:
    """Grammar and meaning are checked together, so that a file need not be mended one error at a time."""
    text = HEAD + "    leave_out: {gap: why}\n  - name: B!\n    titel: B\n    pipeline: {kind: spark_submt}\n"

    assert errors_of(text) == [
        ("6:17", "unknown-choice"),
        ("7:5", "missing-key"),
        ("7:11", "not-a-name"),
        ("8:5", "unknown-key"),
        ("9:22", "unknown-kind"),
    ]


def test_the_file_is_named_as_it_was_given(tmp_path: Path) -> None:
    """An editor can jump to the place."""
    path = tmp_path / "mine.yaml"
    path.write_text("version: 3\n", encoding="utf-8")

    with pytest.raises(ScenarioError) as raised:
        load(path)
    assert [line.partition(": ")[0] for line in str(raised.value).splitlines()] == [f"{path}:1:1", f"{path}:1:10"]
    assert mistakes_in(raised.value) == [("1:1", "missing-key"), ("1:10", "unknown-version")]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """No traceback for a typing error in a path."""
    with pytest.raises(
        ScenarioError, match=f"^{tmp_path}/none.yaml: cannot be read: No such file or directory; check the path$"
    ):
        load(tmp_path / "none.yaml")


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    """Latin-1 is not guessed at."""
    path = tmp_path / "latin.yaml"
    path.write_bytes("title: é".encode("latin-1"))

    with pytest.raises(ScenarioError, match=r"latin.yaml: is not UTF-8 \(byte 7\); save it as UTF-8$"):
        load(path)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Some editors write one."""
    path = tmp_path / "bom.yaml"
    path.write_text(HEAD + TOPICS, encoding="utf-8-sig")

    assert load(path).scenarios[0].name == "a"


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n", "- a\n", "version 1\n"])
def test_a_file_with_nothing_to_run(text: str) -> None:
    """An empty file says what it should begin with."""
    assert errors_of(text) == [("1:1", "no-scenarios")]


def test_a_file_of_the_former_grammar_is_told_where_the_new_one_is_described() -> None:
    """And nothing else of it, however much is different."""
    text = "version: 1\nscenarios:\n  - {name: a, title: A, pipeline: {kind: spark_square}}\n"

    assert errors_of(text) == [("1:10", "former-grammar")]


@pytest.mark.parametrize("version", ["3", "'2'", "true", "2.5", "one"])
def test_only_version_2_is_known(version: str) -> None:
    """Another version may mean something else by the same words."""
    assert errors_of(HEAD.replace("2", version, 1)) == [("1:10", "unknown-version")]


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        ("titel: B", [("6:5", "unknown-key")]),
        ("1: B", [("6:5", "not-a-key")]),
        ("~: B", [("6:5", "not-a-key")]),
        (
            "tags: [Smoke-x]",
            [("6:12", "not-a-tag")],
        ),
        ("tags: [smoke, 5]", [("6:19", "not-text")]),
        ("tags: smoke", [("6:11", "not-a-list")]),
        ("workload: {records: 0}", [("6:25", "too-small")]),
        ("workload: {records: 10000001}", [("6:25", "too-large")]),
        ("workload: {records: 1.5}", [("6:25", "not-a-whole-number")]),
        ("workload: {records: many}", [("6:25", "not-a-whole-number")]),
        ("workload: {records: 5, refused: 5}", [("6:15", "all-refused")]),
        ("workload: {rate: 3000}", [("6:22", "not-a-rate")]),
        ("workload: {rate_per_s: 3000/s}", [("6:16", "unknown-key")]),
        (
            "workload: {records: 3000, rate: 4/s}",
            [("6:15", "workload-too-long")],
        ),
        ("workload:", [("6:5", "not-a-mapping")]),
        ("faults: {kind: kill_broker}", [("6:13", "not-a-list")]),
        ("faults: [kill_broker]", [("6:14", "not-a-mapping")]),
        ("leave_out: {gaps: ''}", [("6:23", "empty-text")]),
        ("leave_out: [gaps]", [("6:16", "not-a-mapping")]),
        ("leave_out: {gap: why}", [("6:17", "unknown-choice")]),
        (
            "verify: [gaps]",
            [("6:5", "key-of-version-1")],
        ),
        (
            "expect: vald",
            [("6:13", "not-an-expectation")],
        ),
        (
            "expect: invalid",
            [("6:13", "not-an-expectation")],
        ),
        ("expect: {gaps: invald}", [("6:20", "not-a-prediction")]),
        ("expect: {gaps: 1}", [("6:20", "not-a-prediction")]),
        ("expect: {gaps: {lost: 0}}", [("6:27", "not-a-count")]),
        ("expect: {gaps: {lost: few}}", [("6:27", "not-a-count")]),
        (
            "expect: {gaps: {losst: 1}}",
            [("6:28", "unknown-anomaly")],
        ),
        (
            "expect: {duplicates: {pending: some}}",
            [("6:36", "unknown-anomaly")],
        ),
        ("expect: {gaps: {lost: 4..2}}", [("6:27", "empty-range")]),
        ("expect: {gaps: {lost: a..b}}", [("6:27", "not-a-range")]),
        ("expect: {gaps: {lost: 0..}}", [("6:20", "all-may-be-zero")]),
        ("expect: {gaps: {}}", [("6:20", "empty-list")]),
        (
            "expect: not-sent",
            [("6:13", "not-an-expectation")],
        ),
        (
            "expect: not_sent",
            [("6:13", "not-sent-without-request")],
        ),
        ("isolation: committed", [("6:16", "unknown-choice")]),
        (
            "expect: {gap: valid}",
            [("6:14", "unknown-choice")],
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_shown_where_it_is(line: str, errors: list[tuple[str, str]]) -> None:
    """Line and column of the word that is wrong, what is wrong with it, and what was perhaps meant."""
    assert errors_in(line) == errors


@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        ("{}", ("5:15", "missing-kind")),
        ("7", ("5:15", "not-a-mapping")),
        ("{kind: [x]}", ("5:22", "unknown-kind")),
        (
            "{kind: command, run: [a], group: g, delivery: exactly}",
            ("5:61", "unknown-choice"),
        ),
    ],
)
def test_a_mistake_in_a_pipeline_is_shown_where_it_is(pipeline: str, error: tuple[str, str]) -> None:
    """A pipeline's keys depend on its kind, and so does the advice."""
    assert errors_of(head(pipeline)) == [error]


def test_the_size_of_the_system_is_bounded() -> None:
    """Replication wants three brokers, one machine bears five."""
    text = "system: {kafka: {brokers: 2}, spark: {workers: 5, worker: 1}}\n" + HEAD

    assert errors_of(text) == [
        ("1:27", "too-small"),
        ("1:48", "too-large"),
        ("1:51", "unknown-key"),
    ]


@pytest.mark.parametrize(
    ("kafka", "error"),
    [
        ("version: 4.0", ("1:27", "not-a-version")),
        ("version: 3.9.x", ("1:27", "not-a-version")),
        ("version: 2.8.1", ("1:27", "kafka-too-old")),
        (
            "config: {advertised.listeners: mine}",
            ("1:26", "setting-of-ours"),
        ),
        (
            "config: {node.id: 7}",
            ("1:26", "setting-of-ours"),
        ),
    ],
)
def test_a_version_or_a_setting_that_brokers_cannot_have(kafka: str, error: tuple[str, str]) -> None:
    """Nothing is fetched for it."""
    assert errors_of(f"system: {{kafka: {{{kafka}}}}}\n" + HEAD) == [error]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("3.4.4", "spark-too-old"),
        ("3.5", "not-a-version"),
        ("latest", "not-a-version"),
    ],
)
def test_a_version_that_spark_cannot_have(version: str, error: str) -> None:
    """Nothing is fetched for it."""
    assert errors_of(f"system: {{spark: {{version: {version}}}}}\n" + HEAD) == [("1:27", error)]


def test_containers_run_the_spark_of_this_environment() -> None:
    """In the system of the file, and in that of a scenario."""
    text = "system: {spark: {version: 3.5.7}}\n" + HEAD + "    system: {spark: {version: 3.5.8}}\n"

    with pytest.raises(ScenarioError) as caught:
        loaded(text, Path("scenarios.yaml"), "containers")

    hidden = {f"this environment, {spark_versions.here()}": "this environment, <version>"}
    assert mistakes_in(caught.value, hidden) == [("1:27", "spark-of-containers"), ("7:31", "spark-of-containers")]
    assert loaded(text, Path("scenarios.yaml"), "local").system.spark.version == "3.5.7"


def test_a_scenario_may_have_a_system_of_its_own() -> None:
    """In place of that of the file, so that a matrix can cross its version; what is aimed at must be in it."""
    kafka = "    system: {kafka: {version: 3.9.1, brokers: 4, config: {compression.type: zstd, log.retention.ms: 5000}}}\n"
    fault = "    faults: [{kind: kill_broker, target: broker-4, when: {after: 1s}}]\n"

    (scenario,) = loaded(HEAD + kafka + fault).scenarios

    assert scenario.system is not None
    assert (scenario.system.kafka.version, scenario.system.kafka.brokers) == ("3.9.1", 4)
    assert scenario.system.kafka.config == {"compression.type": "zstd", "log.retention.ms": "5000"}
    assert errors_of(HEAD + fault) == [("6:42", "no-such-broker")]


WITHOUT_A_MODEL = "transactions"
OF_GROUPS = ("commits", "precedence")
UNSAID = ("outcomes", "deliveries", "offsets")


@pytest.mark.parametrize(
    ("pipeline", "absent"),
    [
        (SQUARE, {"outcomes", "deliveries"}),
        (STOCK, {"outcomes", "deliveries", *OF_GROUPS}),
        ("{kind: command, run: [a], group: b, speaks: [deliveries]}", {"outcomes"}),
        ("none", {"offsets", "outcomes", "deliveries", *OF_GROUPS}),
        ("{kind: command, run: [a], positions: none}", {"offsets", "outcomes", "deliveries", *OF_GROUPS}),
        (
            STOCK.replace("transactions: false", "positions: none"),
            {"offsets", "outcomes", "deliveries", *OF_GROUPS},
        ),
        ("none\n    workload: {producer: {transaction_records: 9}}", {"offsets", "deliveries", *OF_GROUPS}),
        ("{kind: command, run: [a], group: b}", {"outcomes", "deliveries"}),
        ("{kind: command, run: [a], group: b, speaks: [transactions, deliveries]}", set()),
        (
            "{kind: command, run: [a], group: b, expected: transactions}",
            {"outcomes", "deliveries", "offsets", "precedence", WITHOUT_A_MODEL},
        ),
    ],
)
def test_a_verifier_is_asked_where_it_has_something_to_judge(pipeline: str, absent: set[str]) -> None:
    """Positions are those of a pipeline or its group; outcomes and deliveries are known where a program says them."""
    (scenario,) = loaded(head(pipeline)).scenarios

    assert set(get_args(VerifierName)) - set(scenario.verify) == absent ^ {WITHOUT_A_MODEL}  # asked instead of a model only


def job(folder: Path, application: str, more: str = "") -> Path:
    """A file with a job of Spark's."""
    text = head(f"{{kind: spark_submit, application: {application}, arguments: ['{{checkpoint}}']{more}}}")
    path = folder / "scenarios.yaml"
    path.write_text(text + TOPICS, encoding="utf-8")
    return path


def test_the_path_of_a_job_begins_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """It is started in another one."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.py").touch()

    (scenario,) = load(job(tmp_path, "jobs/orders.py")).scenarios

    assert scenario.pipeline.application == str(tmp_path / "jobs" / "orders.py")
    assert load(job(tmp_path, tmp_path / "jobs" / "orders.py")).scenarios == (scenario,)
    assert Scenario.of_run(scenario.to_run()) == scenario


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    """With the place of its path."""
    path = job(tmp_path, "orders.py")

    with pytest.raises(ScenarioError) as raised:
        load(path)
    assert str(tmp_path) in str(raised.value).partition(": ")[2]
    assert mistakes_in(raised.value) == [("5:49", "not-a-file")]


def test_the_folder_in_which_a_job_runs(tmp_path: Path) -> None:
    """It begins at the folder of the file, and must be there."""
    (tmp_path / "orders.py").touch()
    path = job(tmp_path, "orders.py", ", working_directory: shop")

    with pytest.raises(ScenarioError) as raised:
        load(path)
    (tmp_path / "shop").mkdir()

    ((place, code),) = mistakes_in(raised.value)
    assert (place.split(":")[0], code) == ("5", "not-a-folder")
    assert load(path).scenarios[0].pipeline.working_directory == str(tmp_path / "shop")
    assert load(job(tmp_path, "orders.py")).scenarios[0].pipeline.working_directory is None


@pytest.mark.parametrize("package", ["spark-avro", "org.apache.spark:spark-avro_2.13", "a:b:c:d", "a::c", "a:b: c"])
def test_what_does_not_name_a_package(package: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(
        head(f"{{kind: spark_submit, application: a, arguments: ['{{checkpoint}}'], packages: ['{package}']}}")
    )

    assert error[0].startswith("5:")
    assert error[1] == "not-a-package"


@pytest.mark.parametrize(
    ("run", "packages", "said"),
    [
        ("[java, '{packages}']", "[]", "packages-missing"),
        ("[java]", "['a:b:1']", "packages-not-named"),
    ],
)
def test_packages_of_a_command_are_its_class_path(run: str, packages: str, said: str) -> None:
    """One that does not name it would run without them."""
    (error,) = errors_of(head(f"{{kind: command, group: g, run: {run}, packages: {packages}}}"))

    assert said in error


@pytest.mark.parametrize(
    ("run", "packages", "said"),
    [
        ("['{python}']", "{pypi: [aiokafka]}", "not-a-package"),
        ("['{python}']", "{pypi: ['aiokafka>=0.14']}", "not-a-package"),
        ("['{packages}']", "{npm: [kafkajs@latest]}", "not-a-package"),
        ("['{packages}']", "{maven: ['a:b']}", "not-a-package"),
        ("['{packages}']", "{maven: ['a:b:1'], npm: [kafkajs@2.2.4]}", "not-one-registry"),
        ("['{packages}']", "{}", "not-one-registry"),
        ("['{packages}']", "{npm: [kafkajs@2.2.4], python: python3.8}", "python-without-pypi"),
        ("['{packages}']", "{go: [github.com/twmb/franz-go]}", "not-a-package"),
        ("[go]", "{go: [github.com/twmb/franz-go/pkg/kgo@v1.20.7]}", "packages-not-named"),
        ("['{packages}']", "{cargo: [rdkafka@1]}", "unknown-key"),
        ("[python3]", "{pypi: [aiokafka==0.14.0]}", "packages-not-named"),
        ("[node]", "{npm: [kafkajs@2.2.4]}", "packages-not-named"),
    ],
)
def test_packages_of_a_command_are_of_one_registry(run: str, packages: str, said: str) -> None:
    """In one version each, and the command uses them."""
    (error,) = errors_of(head(f"{{kind: command, group: g, run: {run}, packages: {packages}}}"))

    assert said in error


def test_what_is_not_asked_of_a_pipeline_without_positions_is_named() -> None:
    """Reports name it with the reason; of others there is nothing to name."""
    without, others = (
        loaded(head(f"{{kind: command, run: [a], {key}}}")).scenarios[0] for key in ("positions: none", "group: b")
    )

    assert without.left_out == {"offsets": "positions: none", "commits": "positions: none", "precedence": "positions: none"}
    assert others.left_out == {}
    assert Scenario.of_run(without.to_run()) == without


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (
            "{kind: command, run: [a]}",
            "positions-nowhere",
        ),
        (
            "{kind: command, run: [a], group: b, positions: none}",
            "positions-denied",
        ),
        (
            "{kind: command, run: [a], group: 'b-{partition}'}",
            "group-with-partition",
        ),
        pytest.param(
            f"{{kind: spark_submit, application: {ANY_FILE}, arguments: [a]}}",
            "checkpoint-missing",
            id="spark_submit",
        ),
    ],
)
def test_positions_are_somewhere_or_nowhere(pipeline: str, said: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(head(pipeline))
    assert error[0].startswith("5:")
    assert error[1] == said


def test_a_job_without_positions_needs_no_checkpoint() -> None:
    """Then no fault may damage it, and no trigger may wait for its batches."""
    pipeline = f"{{kind: spark_submit, application: {ANY_FILE}, arguments: [a], positions: none}}"
    fault = "    faults: [{kind: damage_checkpoint, what: commit_deleted, when: {batch: 1}}]\n"

    assert loaded(head(pipeline)).scenarios[0].pipeline.arguments == ("a",)
    assert [code for _, code in errors_of(head(pipeline) + fault)] == [
        "no-checkpoint",
        "no-batches",
    ]


@pytest.mark.parametrize(
    ("delivery", "is_asked"), [("exactly_once", True), ("at_least_once", True), ("at_most_once", False), (None, True)]
)
def test_a_program_that_promises_at_most_once_may_commit_first(delivery: str | None, is_asked: bool) -> None:  # noqa: FBT001
    """Other programs must write rows before their position."""
    said = f", delivery: {delivery}" if delivery else ""

    (scenario,) = loaded(head(f"{{kind: command, run: [a], group: b{said}}}")).scenarios

    assert ("precedence" in scenario.verify) is is_asked
