import json
from pathlib import Path
from typing import get_args

import pytest

from chaos.common.errors import ScenarioError
from chaos.install import spark_versions
from chaos.scenario.load import load
from chaos.scenario.model import Scenario, VerifierName
from chaos.scenario.pipelines import Pipeline
from tests.unit.scenario.declared import HEAD, SQUARE, STOCK, TOPICS, errors_in, errors_of, head, kinds, loaded, read

NAME = "lower-case letters and digits, with single hyphens between them"
TAG = "a lower-case letter, then letters, digits and underscores, as in pytest marks"
KINDS = kinds(Pipeline)
LONG = "6:15: 3000 records at 4/s take 750 s; a workload must end within 10 minutes: declare fewer records, or a higher rate"
PREDICTION = "write valid or invalid, or the exact anomaly: {duplicate: 1}"
ISOLATION = "write read_committed or read_uncommitted"
EXPECT = "write valid, or, for a control, what its verifiers must find: {duplicates: invalid}"
FORMER = (
    "6:5: 'verify' is not known here; every verifier that applies is asked; name those that shall not be, "
    "with the reason: leave_out: {ordering: why}"
)
VERIFIERS = (
    "write duplicates, gaps, ordering, values, atomicity, offsets, ledger, stability, hanging, outcomes, deliveries, commits, "
    "precedence, transactions or progress"
)


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
        "scenarios.yaml:6:17: 'gap' is not known here (did you mean gaps?); " + VERIFIERS,
        "scenarios.yaml:7:5: 'title' is missing",
        "scenarios.yaml:7:11: 'B!' is not a valid name (did you mean b?); write " + NAME,
        "scenarios.yaml:8:5: 'titel' is not known here (did you mean title?)",
        "scenarios.yaml:9:22: there is no kind 'spark_submt' (did you mean spark_submit?); " + KINDS,
    ]


def test_the_file_is_named_as_it_was_given(tmp_path: Path) -> None:
    """An editor can jump to the place."""
    path = tmp_path / "mine.yaml"
    path.write_text("version: 3\n", encoding="utf-8")

    with pytest.raises(
        ScenarioError, match=f"^{path}:1:1: 'scenarios' is missing\n{path}:1:10: version 3 is not known; write version: 2$"
    ):
        load(path)


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
    assert errors_of(text) == ["scenarios.yaml:1:1: there are no scenarios here; begin with `version: 2` and `scenarios:`"]


def test_a_file_of_the_former_grammar_is_told_where_the_new_one_is_described() -> None:
    """And nothing else of it, however much is different."""
    text = "version: 1\nscenarios:\n  - {name: a, title: A, pipeline: {kind: spark_square}}\n"

    (error,) = errors_of(text)

    assert error.startswith(
        "scenarios.yaml:1:10: the grammar of version 1 is not read any more; write version: 2 and what is new "
    )
    assert error.endswith("docs/scenarios.md, `From version 1`, or `chaos schema`")


@pytest.mark.parametrize("version", ["3", "'2'", "true", "2.5", "one"])
def test_only_version_2_is_known(version: str) -> None:
    """Another version may mean something else by the same words."""
    shown = version if version != "one" else "'one'"

    assert errors_of(HEAD.replace("2", version, 1)) == [f"scenarios.yaml:1:10: version {shown} is not known; write version: 2"]


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        ("titel: B", ["6:5: 'titel' is not known here (did you mean title?)"]),
        ("1: B", ["6:5: '1' is not a key; keys are words"]),
        ("~: B", ["6:5: 'None' is not a key; keys are words"]),
        (
            "tags: [Smoke-x]",
            ["6:12: 'Smoke-x' is not a valid tag (did you mean smoke_x?); write " + TAG],
        ),
        ("tags: [smoke, 5]", ["6:19: 5 is not text; write it in quotes"]),
        ("tags: smoke", ["6:11: 'smoke' is not a list; write [ … ]"]),
        ("workload: {records: 0}", ["6:25: 0 is too small; the least is 1"]),
        ("workload: {records: 10000001}", ["6:25: 10000001 is too large; the most is 10000000"]),
        ("workload: {records: 1.5}", ["6:25: 1.5 is not a whole number"]),
        ("workload: {records: many}", ["6:25: 'many' is not a whole number"]),
        ("workload: {rate: 3000}", ["6:22: 3000 is not a rate; write records per second, e.g. 3000/s"]),
        ("workload: {rate_per_s: 3000/s}", ["6:16: 'rate_per_s' is not known here"]),
        (
            "workload: {records: 3000, rate: 4/s}",
            [LONG],
        ),
        ("workload:", ["6:5: an empty value is not a mapping; write keys and values, e.g. {kind: …}"]),
        ("faults: {kind: kill_broker}", ["6:13: a mapping is not a list; write [ … ]"]),
        ("faults: [kill_broker]", ["6:14: 'kill_broker' is not a mapping; write keys and values, e.g. {kind: …}"]),
        ("leave_out: {gaps: ''}", ["6:23: this text must not be empty"]),
        ("leave_out: [gaps]", ["6:16: a list is not a mapping; write keys and values, e.g. {kind: …}"]),
        ("leave_out: {gap: why}", ["6:17: 'gap' is not known here (did you mean gaps?); " + VERIFIERS]),
        (
            "verify: [gaps]",
            [FORMER],
        ),
        (
            "expect: vald",
            ["6:13: 'vald' is not an expectation (did you mean valid?); " + EXPECT],
        ),
        (
            "expect: invalid",
            ["6:13: 'invalid' is not an expectation; " + EXPECT],
        ),
        ("expect: {gaps: invald}", ["6:20: 'invald' is not known here (did you mean invalid?); " + PREDICTION]),
        ("expect: {gaps: 1}", ["6:20: 1 is not known here; " + PREDICTION]),
        ("expect: {gaps: {lost: 0}}", ["6:27: 0 is not a count; write a whole number from 1 on, or some"]),
        ("expect: {gaps: {lost: few}}", ["6:27: 'few' is not a count; write a whole number from 1 on, or some"]),
        (
            "expect: {gaps: {losst: 1}}",
            ["6:28: gaps finds nothing that is called 'losst' (did you mean lost?); it finds: lost"],
        ),
        (
            "expect: {duplicates: {pending: some}}",
            ["6:36: duplicates finds nothing that is called 'pending'; it finds: duplicate"],
        ),
        ("expect: {gaps: {}}", ["6:20: this must not be empty; write at least one"]),
        (
            "expect: not-sent",
            ["6:13: 'not-sent' is not an expectation (did you mean not_sent?); " + EXPECT],
        ),
        (
            "expect: not_sent",
            ["6:13: not_sent is about the request that a fault waits for, and none does; write when: {request: EndTxn}"],
        ),
        ("isolation: committed", ["6:16: 'committed' is not known here (did you mean read_committed?); " + ISOLATION]),
        (
            "expect: {gap: valid}",
            ["6:14: 'gap' is not known here (did you mean gaps?); " + VERIFIERS],
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_shown_where_it_is(line: str, errors: list[str]) -> None:
    """Line and column of the word that is wrong, what is wrong with it, and what was perhaps meant."""
    assert errors_in(line) == [f"scenarios.yaml:{error}" for error in errors]


@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        ("{}", "5:15: 'kind' is missing"),
        ("7", "5:15: 7 is not a mapping; write keys and values, e.g. {kind: …}"),
        ("{kind: [x]}", "5:22: there is no kind a list; " + KINDS),
        (
            "{kind: command, run: [a], group: g, model: sqare}",
            "5:58: 'sqare' is not known here (did you mean square?); write identity or square",
        ),
    ],
)
def test_a_mistake_in_a_pipeline_is_shown_where_it_is(pipeline: str, error: str) -> None:
    """A pipeline's keys depend on its kind, and so does the advice."""
    assert errors_of(head(pipeline)) == [f"scenarios.yaml:{error}"]


def test_the_size_of_the_system_is_bounded() -> None:
    """Replication wants three brokers, one machine bears five."""
    text = "system: {kafka: {brokers: 2}, spark: {workers: 5, worker: 1}}\n" + HEAD

    assert errors_of(text) == [
        "scenarios.yaml:1:27: 2 is too small; the least is 3",
        "scenarios.yaml:1:48: 5 is too large; the most is 4",
        "scenarios.yaml:1:51: 'worker' is not known here (did you mean workers?)",
    ]


@pytest.mark.parametrize(
    ("kafka", "error"),
    [
        ("version: 4.0", "1:27: 4.0 is not a version of Kafka; write all three numbers, e.g. 3.9.1"),
        ("version: 3.9.x", "1:27: '3.9.x' is not a version of Kafka; write all three numbers, e.g. 3.9.1"),
        ("version: 2.8.1", "1:27: Kafka 2.8.1 is too old; the oldest with KRaft is 3.3.1"),
        (
            "config: {advertised.listeners: mine}",
            "1:26: advertised.listeners leads brokers and clients to each other, which is arranged here already; leave it out",
        ),
        (
            "config: {node.id: 7}",
            "1:26: node.id leads brokers and clients to each other, which is arranged here already; leave it out",
        ),
    ],
)
def test_a_version_or_a_setting_that_brokers_cannot_have(kafka: str, error: str) -> None:
    """Nothing is fetched for it."""
    assert errors_of(f"system: {{kafka: {{{kafka}}}}}\n" + HEAD) == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("3.4.4", "Spark 3.4.4 is too old; the oldest that can be tested is 3.5.0"),
        ("3.5", "3.5 is not a version of Spark; write all three numbers, e.g. 3.5.7"),
        ("latest", "'latest' is not a version of Spark; write all three numbers, e.g. 3.5.7"),
    ],
)
def test_a_version_that_spark_cannot_have(version: str, error: str) -> None:
    """Nothing is fetched for it."""
    assert errors_of(f"system: {{spark: {{version: {version}}}}}\n" + HEAD) == [f"scenarios.yaml:1:27: {error}"]


def test_containers_run_the_spark_of_this_environment() -> None:
    """In the system of the file, and in that of a scenario."""
    text = "system: {spark: {version: 3.5.7}}\n" + HEAD + "    system: {spark: {version: 3.5.8}}\n"
    told = (
        f"containers run the Spark of this environment, {spark_versions.here()}, and no other; leave it out, or run it locally"
    )

    with pytest.raises(ScenarioError) as caught:
        loaded(text, Path("scenarios.yaml"), "containers")

    assert str(caught.value).splitlines() == [f"scenarios.yaml:1:27: {told}", f"scenarios.yaml:7:31: {told}"]
    assert loaded(text, Path("scenarios.yaml"), "local").system.spark.version == "3.5.7"


def test_a_scenario_may_have_a_system_of_its_own() -> None:
    """In place of that of the file, so that a matrix can cross its version; what is aimed at must be in it."""
    kafka = "    system: {kafka: {version: 3.9.1, brokers: 4, config: {compression.type: zstd, log.retention.ms: 5000}}}\n"
    fault = "    faults: [{kind: kill_broker, target: broker-4, when: {after: 1s}}]\n"

    (scenario,) = loaded(HEAD + kafka + fault).scenarios

    assert scenario.system is not None
    assert (scenario.system.kafka.version, scenario.system.kafka.brokers) == ("3.9.1", 4)
    assert scenario.system.kafka.config == {"compression.type": "zstd", "log.retention.ms": "5000"}
    assert errors_of(HEAD + fault) == ["scenarios.yaml:6:42: there is no broker-4; the brokers are broker-1 to broker-3"]


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
    where = f"a path begins at the folder of this file, {tmp_path}"
    assert str(raised.value) == f"{path}:5:49: orders.py is not a file; {where}"


def test_the_folder_in_which_a_job_runs(tmp_path: Path) -> None:
    """It begins at the folder of the file, and must be there."""
    (tmp_path / "orders.py").touch()
    path = job(tmp_path, "orders.py", ", working_directory: shop")

    with pytest.raises(ScenarioError) as raised:
        load(path)
    (tmp_path / "shop").mkdir()

    where = f"a path begins at the folder of this file, {tmp_path}"
    assert str(raised.value).endswith(f"shop is not a folder; {where}")
    assert str(raised.value).startswith(f"{path}:5:")
    assert load(path).scenarios[0].pipeline.working_directory == str(tmp_path / "shop")
    assert load(job(tmp_path, "orders.py")).scenarios[0].pipeline.working_directory is None


@pytest.mark.parametrize("package", ["spark-avro", "org.apache.spark:spark-avro_2.13", "a:b:c:d", "a::c", "a:b: c"])
def test_what_does_not_name_a_package(package: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(
        head(f"{{kind: spark_submit, application: a, arguments: ['{{checkpoint}}'], packages: ['{package}']}}")
    )

    assert error.startswith("scenarios.yaml:5:")
    example = "write group:artifact:version, e.g. org.apache.spark:spark-avro_2.13:4.2.0"
    assert error.endswith(f"{package!r} does not name a package; {example}")


@pytest.mark.parametrize(
    ("run", "packages", "said"),
    [
        ("[java, '{packages}']", "[]", "packages is missing: {packages} is their class path; write packages: [group:artifact:"),
        ("[java]", "['a:b:1']", "packages are a class path, and nothing here names it; write {packages} where it is needed"),
    ],
)
def test_packages_of_a_command_are_its_class_path(run: str, packages: str, said: str) -> None:
    """One that does not name it would run without them."""
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
            "group is missing: the consumer group that holds its positions; or write positions: none",
        ),
        (
            "{kind: command, run: [a], group: b, positions: none}",
            "group holds its positions, and positions: none says that there are none; leave one of them out",
        ),
        (
            f"{{kind: spark_submit, application: {__file__}, arguments: [a]}}",
            "{checkpoint} is missing: the job must keep its checkpoint there, where it is read, and damaged by faults",
        ),
    ],
)
def test_positions_are_somewhere_or_nowhere(pipeline: str, said: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(head(pipeline))
    assert error.startswith("scenarios.yaml:5:")
    assert error.endswith(said)


def test_a_job_without_positions_needs_no_checkpoint() -> None:
    """Then no fault may damage it, and no trigger may wait for its batches."""
    pipeline = f"{{kind: spark_submit, application: {__file__}, arguments: [a], positions: none}}"
    fault = "    faults: [{kind: damage_checkpoint, what: commit_deleted, when: {batch: 1}}]\n"

    assert loaded(head(pipeline)).scenarios[0].pipeline.arguments == ("a",)
    assert [error.partition(": ")[2].partition(";")[0] for error in sorted(errors_of(head(pipeline) + fault))] == [
        "this pipeline has no checkpoint that is known",
        "only a job of Spark's with a checkpoint has batches, and this pipeline is not declared as one",
    ]


@pytest.mark.parametrize(
    ("delivery", "is_asked"), [("exactly_once", True), ("at_least_once", True), ("at_most_once", False), (None, True)]
)
def test_a_program_that_promises_at_most_once_may_commit_first(delivery: str | None, is_asked: bool) -> None:  # noqa: FBT001
    """Of others it is asked whether the rows are there before their position."""
    said = f", delivery: {delivery}" if delivery else ""

    (scenario,) = loaded(head(f"{{kind: command, run: [a], group: b{said}}}")).scenarios

    assert ("precedence" in scenario.verify) is is_asked
