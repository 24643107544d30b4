"""`chaos init`: what it writes can be read, what it refuses leaves nothing behind, and on a terminal it asks."""

import json
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from chaos.cli import init, init_files
from chaos.cli.main import app
from chaos.scenario.describe import json_schema
from chaos.scenario.load import load
from chaos.scenario.pipelines import SparkSubmitPipeline
from tests.unit.scenario.validator import problems
from tests.unit.wording import keep

TOPICS = ("{bootstrap}", "{source}", "{sink}")
OF_JOB = (*TOPICS, "{checkpoint}")
JOB = ("--kind", "spark-submit", "--application", "jobs/copy.py", "--", *OF_JOB)
PROGRAM = ("--kind", "command", "--group", "copy-{suffix}", "--", "sh", "run.sh", *TOPICS)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a job, a jar and a program, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "_is_seen_by_git", lambda _name: False)
    for name in ("jobs/copy.py", "jobs/copy.jar", "run.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    return tmp_path


@pytest.fixture
def terminal(monkeypatch):
    """Somebody who can be asked."""
    monkeypatch.setattr(init, "is_terminal", lambda: True)


def called(*words, answers=()):
    """The result of the command; no flag is given but these."""
    return CliRunner().invoke(app, ["init", *words], input="".join(f"{answer}\n" for answer in answers))


def written(*words, answers=()):
    """The pipeline of the file that it writes, after that was read."""
    done = called(*words, answers=answers)
    assert done.exit_code == 0, done.output
    return load(Path("scenarios.yaml")).scenarios[0].pipeline


def refused(*words, answers=()):
    """Why it writes nothing."""
    before = sorted(Path().rglob("*"))
    done = called(*words, answers=answers)
    assert done.exit_code == 2
    assert sorted(Path().rglob("*")) == before
    return keep(done.stderr)


# what it writes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        (JOB, ["none", "kill_broker", "crash_pipeline", "crash_executor"]),
        (PROGRAM, ["none", "kill_broker", "crash_pipeline", "lose_response"]),
    ],
    ids=["spark-submit", "command"],
)
def test_four_scenarios_of_one_pipeline(repository, flags, kinds):
    """A baseline, a broker that dies, a process that dies, and a fault at one exact request; each with a comment."""
    assert called(*flags).exit_code == 0

    scenarios = load(repository / "scenarios.yaml").scenarios
    faults = [scenario.faults[0] if scenario.faults else None for scenario in scenarios]
    assert [fault.kind if fault else "none" for fault in faults] == kinds
    assert [getattr(fault.when, "request", "") if fault else "" for fault in faults] == ["", "", "", "Produce"]
    assert len({str(scenario.pipeline) for scenario in scenarios}) == 1
    lines = (repository / "scenarios.yaml").read_text(encoding="utf-8").splitlines()
    assert all(lines[place - 1].startswith("  # ") for place, line in enumerate(lines) if line.startswith("  - name:"))


@pytest.mark.parametrize("flags", [JOB, PROGRAM], ids=["spark-submit", "command"])
def test_what_a_comment_proposes_can_be_written_instead(repository, flags):
    """Each line that is commented out is one of the grammar's."""
    called(*flags)
    file = repository / "scenarios.yaml"
    text = file.read_text(encoding="utf-8")
    proposed = "expect: {duplicates: {duplicate: some}, ordering: {inversion: some}}"
    assert f"  #   {proposed}" in text
    for key in ("transactions: ", "configuration: ", "repeat: "):
        text = text.replace(f"    # {key}", f"    {key}")
    file.write_text(text.replace("expect: valid", proposed), encoding="utf-8")

    scenarios = load(file).scenarios

    assert all(scenario.is_control and not scenario.pipeline.transactions for scenario in scenarios)


def test_a_job(repository):
    """Its position is in its checkpoint, unless it has a group."""
    pipeline = written(*JOB)

    assert pipeline.application == str(repository / "jobs" / "copy.py")
    assert (pipeline.arguments, pipeline.positions, pipeline.expected) == (OF_JOB, "checkpoint", "source")
    assert pipeline.environment == {}


def test_every_flag_of_a_job(repository):
    """They are in the file, and nothing else is."""
    rest = ("--group", "copy-{sink}", "--environment", "MODE=fast")
    pipeline = written(
        "--kind", "spark-submit", "--application", "jobs/copy.jar", "--main-class", "shop.Copy", *rest, "--", *OF_JOB
    )

    assert (pipeline.application, pipeline.main_class) == (str(repository / "jobs" / "copy.jar"), "shop.Copy")
    assert (pipeline.group, pipeline.environment) == ("copy-{sink}", {"MODE": "fast"})


def test_every_flag_of_a_command(repository):
    """A word that begins with -- is one of the command; the topics may be in variables."""
    flags = (
        "--environment",
        "KAFKA={bootstrap}",
        "--environment",
        "SINK={sink}",
        "--group",
        "copy-{suffix}",
    )
    pipeline = written("--kind", "command", *flags, "--", "sh", "./run.sh", "--from={source}", "--model", "a 'b' \"c\" ü\t")

    assert pipeline.run == ("sh", f"{repository}/run.sh", "--from={source}", "--model", "a 'b' \"c\" ü\t")
    assert pipeline.environment == {"KAFKA": "{bootstrap}", "SINK": "{sink}"}
    assert pipeline.group == "copy-{suffix}"


def test_a_command_with_many_words_has_one_on_each_line(repository):
    """So that they can be read."""
    words = [f"--option-{number}=value" for number in range(10)]
    pipeline = written(*PROGRAM, *words)

    assert pipeline.run == ("sh", f"{repository}/run.sh", *TOPICS, *words)
    assert '\n      - "--option-9=value"\n' in (repository / "scenarios.yaml").read_text(encoding="utf-8")


def test_paths_begin_at_the_folder_of_the_file(repository):
    """Wherever that is, a pipeline runs in the folder of its run."""
    (repository / "chaos").mkdir()
    (repository / "more").mkdir()

    assert called("--file", "chaos/scenarios.yaml", *JOB).exit_code == 0
    assert called("--file", "more/scenarios.yaml", *PROGRAM).exit_code == 0

    tree = YAML().load((repository / "more" / "scenarios.yaml").read_text(encoding="utf-8"))
    assert tree["pipelines"]["program"]["run"][1] == "{project}/../run.sh"
    pipelines = [scenario.pipeline for scenario in load(repository / "chaos" / "scenarios.yaml").scenarios]
    jobs = {pipeline.application for pipeline in pipelines if isinstance(pipeline, SparkSubmitPipeline)}
    assert jobs == {str(repository / "jobs" / "copy.py")}


def test_a_whole_path_stays_as_it_is(repository):
    """The path of a job, and that of a file in an argument."""
    run = str(repository / "run.sh")
    written("--kind", "command", "--group", "g", "--", "sh", run, *TOPICS)

    tree = YAML().load((repository / "scenarios.yaml").read_text(encoding="utf-8"))
    assert tree["pipelines"]["program"]["run"][1] == run


@pytest.mark.parametrize("flags", [JOB, PROGRAM], ids=["spark-submit", "command"])
def test_an_editor_finds_the_grammar_beside_the_file(repository, flags):
    """By the first line, without a network; and it underlines nothing."""
    (repository / "chaos").mkdir()
    file = repository / "chaos" / "orders.yaml"

    assert called("--file", "chaos/orders.yaml", *flags).exit_code == 0

    text = file.read_text(encoding="utf-8")
    line, name = text.splitlines()[0].split("=")
    assert line == "# yaml-language-server: $schema"
    schema = json.loads(file.with_name(name).read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(json_schema()))
    assert list(problems(YAML(typ="safe").load(text), schema, schema)) == []


def test_a_grammar_that_is_there_stays(repository):
    """That of another file in the same folder, or one with the faults of another environment."""
    grammar = repository / "scenarios.schema.json"
    grammar.write_text("{}", encoding="utf-8")

    assert called(*JOB).exit_code == 0

    assert grammar.read_text(encoding="utf-8") == "{}"


# what it refuses -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_there_is_not_overwritten(repository):
    """Also if it is of another tool; the message says what to do."""
    file = repository / "scenarios.yaml"
    file.write_text("mine", encoding="utf-8")

    said = refused(*JOB)

    assert said.startswith("chaos init: scenarios.yaml: ")
    assert "--file" in said
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("terminal")
def test_a_file_that_came_while_it_asked_is_not_overwritten(repository, monkeypatch):
    """Somebody else wrote it meanwhile."""
    file = repository / "scenarios.yaml"
    monkeypatch.setattr(init, "_group", lambda text, _topics: file.write_text("theirs", encoding="utf-8") and text)

    done = called("--kind", "command", "--", "sh", "run.sh", *TOPICS, answers=["copy"])

    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert file.read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "missing: --kind "),
        (("--kind", "spark-submit"), "missing: --application PATH; "),
        (("--kind", "spark-submit", "--application", "jobs/copy.jar", "--", *OF_JOB), "missing: --main-class NAME"),
        (("--kind", "command"), ": -- WORD …"),
        (("--kind", "command", "--", "sh", *TOPICS), "missing: --group NAME"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_is_missing_is_named_with_its_flag(flags, says):
    """All of it at once, where nobody can be asked."""
    assert says in refused(*flags)


def with_words(*words):
    return ("--kind", "command", "--group", "copy", "--", *words)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--file", "nowhere/scenarios.yaml", *JOB), "mkdir -p nowhere"),
        (
            ("--application", "jobs/cpy.py", "--kind", "spark-submit", "--", *OF_JOB),
            "--application: 'jobs/cpy.py' ",
        ),
        (("--application", "jobs", "--kind", "spark-submit", "--", *OF_JOB), "--application: 'jobs' "),
        (("--main-class", "shop.Copy", *JOB), "--main-class: belongs to "),
        (("--application", "jobs/copy.py", *PROGRAM), "--application: is for "),
        (("--main-class", "shop.Copy", *PROGRAM), "--main-class: is for "),
        (("--group", "copy-{partition}", *JOB), "--group: {partition} "),
        (("--environment", "MODE", *JOB), "--environment MODE: "),
        (("--environment", "MODE=", *JOB), "--environment MODE=: "),
        (("--environment", "MODE={snk}", *JOB), "--environment MODE: {snk} "),
        (("--environment", "PART={partition}", *PROGRAM), "--environment PART: {partition} "),
        ((*JOB, "{partition}"), "the words after --: {partition} "),
        (JOB[:-1], "the words after --: {checkpoint} "),
        (with_words("sh", "run.sh", "{bootstrap}"), "the words after --: {source}, {sink} "),
        (with_words("sh", *TOPICS, ""), "the words after --: "),
        (with_words("pyhton3", *TOPICS), "the words after --: 'pyhton3' "),
        (with_words("./run.sh", *TOPICS), "the words after --: './run.sh' "),
        (with_words("sh", *TOPICS, "\x7f"), "\nscenarios.yaml:"),
        (with_words("sh", *TOPICS, "\udc80"), "\nscenarios.yaml:"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_is_wrong_is_named_with_its_flag(flags, says):
    """One message, exit code 2, and no file."""
    assert says in refused(*flags)


@pytest.mark.usefixtures("repository")
def test_a_folder_that_cannot_be_written(monkeypatch):
    """The reason is that of the system."""

    def full(_file, _text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(init_files, "write_atomically", full)

    assert "scenarios.yaml: cannot be written: No space left on device" in refused(*JOB)


# what it asks --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_all_of_a_job_is_asked(repository):
    """An empty answer takes what is proposed."""
    pipeline = written(answers=["spark-submit", "jobs/copy.py", "", ""])

    assert (pipeline.application, pipeline.arguments) == (str(repository / "jobs" / "copy.py"), OF_JOB)
    assert (pipeline.expected, pipeline.positions) == ("source", "checkpoint")


@pytest.mark.usefixtures("repository", "terminal")
def test_a_jar_is_asked_for_its_class():
    """A script is not."""
    pipeline = written(answers=["", "jobs/copy.jar", "shop.Copy", "", "copy-{sink}"])

    assert (pipeline.main_class, pipeline.group) == ("shop.Copy", "copy-{sink}")


@pytest.mark.usefixtures("terminal")
def test_all_of_a_command_is_asked(repository):
    """Its words are read as a shell reads them."""
    pipeline = written(answers=["command", "sh run.sh {bootstrap} {source} '{sink}' 'two words'", "copy-{suffix}"])

    assert pipeline.run == ("sh", f"{repository}/run.sh", *TOPICS, "two words")
    assert pipeline.group == "copy-{suffix}"


@pytest.mark.usefixtures("repository", "terminal")
def test_a_wrong_answer_is_explained_and_asked_again():
    """Nothing that was answered before is lost."""
    answers = ["spark-sumbit", "spark-submit", "jobs/cpy.py", "jobs/copy.py", "'", "{source}", "", "{group}", ""]
    done = called(answers=answers)

    assert done.exit_code == 0, done.output
    for says in (
        "'spark-sumbit' is not known (did you mean spark-submit?); write spark-submit or command",
        "'jobs/cpy.py' is not a file",
        "No closing quotation",
        "{bootstrap}, {sink}, {checkpoint} missing",
        "{group} in '{group}' is not a placeholder",
    ):
        assert f"Error: {says}" in done.output


@pytest.mark.usefixtures("repository", "terminal")
def test_what_was_given_is_not_asked():
    """Only the rest is."""
    done = called("--kind", "command", "--", "sh", "run.sh", *TOPICS, answers=["copy"])

    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("Its consumer group: ")


@pytest.mark.usefixtures("repository", "terminal")
def test_with_all_that_is_needed_nothing_is_asked():
    """Options with a default keep it."""
    assert written(*JOB).expected == "source"


@pytest.mark.usefixtures("terminal")
def test_an_interrupt_at_a_question_writes_nothing(repository):
    """130 and not 1, which means that a guarantee is broken."""
    done = called(answers=["command"])

    assert done.exit_code == 130
    assert not (repository / "scenarios.yaml").exists()


# what it says --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("repository")
def test_it_says_what_to_type_next():
    """As it is typed there."""
    said = called(*JOB).stdout

    typed = [line.split("  ")[1] for line in said.splitlines() if line.startswith("  ")]
    assert typed == ["chaos doctor", "chaos plan", "pytest -m chaos scenarios.yaml"]
    assert "chaos_files" not in said


@pytest.mark.usefixtures("repository")
def test_a_file_with_another_name_must_be_named_in_the_ini():
    """Else pytest would not take it for scenarios."""
    said = called("--file", "jobs/orders.yaml", *JOB).stdout

    assert "chaos plan --scenarios jobs/orders.yaml" in said
    assert "chaos_files = jobs/orders.yaml" in said


@pytest.mark.parametrize(
    ("ignored", "says"),
    [
        ("", ".gitignore lacks runs/ and allure-results/: runs make them here"),
        ("/runs/\n", ".gitignore lacks allure-results/: runs make it here"),
        ("runs\nallure-results*\n", None),
    ],
)
def test_it_says_what_git_would_see(tmp_path, monkeypatch, ignored, says):
    """It only says it: the file is not ours."""
    monkeypatch.chdir(tmp_path)
    git = ("git", "init", "--quiet")
    subprocess.run(git, check=True, timeout=300)
    (tmp_path / ".gitignore").write_text(ignored, encoding="utf-8")
    (tmp_path / "run.sh").touch()

    said = called(*PROGRAM).stdout

    assert [line for line in said.splitlines() if line.startswith(".gitignore")] == ([says] if says else [])
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == ignored


def test_where_there_is_no_repository_nothing_is_said_of_git(tmp_path, monkeypatch):
    """Nobody asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "run.sh").touch()

    assert ".gitignore" not in called(*PROGRAM).stdout
