"""`chaos init --ci`: the workflow that is written, what it installs, and what is refused."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from chaos.cli import init, init_files
from chaos.cli.init_ci_text import SYSTEMS
from chaos.cli.main import app
from tests.unit.wording import keep

PROGRAM = ("--kind", "command", "--group", "copy", "--", "sh", "run.sh", "{bootstrap}", "{source}", "{sink}")
GITHUB, GITLAB, ENTRY = ".github/workflows/chaos.yml", "chaos.gitlab-ci.yml", ".gitlab-ci.yml"
INSTALL = "pip install vendor/kafka_spark_chaos-0.1.0-py3-none-any.whl"
OF_THIS_PROJECT = Path(__file__).parents[3] / ".github" / "workflows"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a program, in which the command is called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "_is_seen_by_git", lambda _name: False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "run.sh").touch()
    return tmp_path


@pytest.fixture
def scenarios(repository):
    """The scenarios are there already."""
    assert called(*PROGRAM).exit_code == 0
    return repository / "scenarios.yaml"


def called(*words):
    return CliRunner().invoke(app, ["init", *words])


def said_by(*words):
    """The output of a command that writes files."""
    done = called(*words)
    assert done.exit_code == 0, done.output
    return keep(done.stdout)


def refused(*words):
    """Why it writes nothing: one line."""
    before = files()
    done = called(*words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert files() == before
    return keep(done.stderr)


def files():
    return {str(file): file.read_bytes() for file in Path().rglob("*") if file.is_file()}


def parsed(file):
    return YAML(typ="safe").load(Path(file).read_text(encoding="utf-8"))


def steps():
    return parsed(GITHUB)["jobs"]["scenarios"]["steps"]


def install_step():
    return next(step["run"] for step in steps() if step.get("name") == "Install")


def pytest_words():
    (line,) = (step["run"] for step in steps() if step.get("id") == "scenarios")
    return shlex.split(line)


# what it writes ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("ci", SYSTEMS)
def test_a_workflow_beside_the_scenarios(ci, snapshot):
    """Both, in one call; what is to do next is said of both."""
    said = said_by("--ci", ci, "--install", INSTALL, *PROGRAM)

    assert Path("scenarios.yaml").is_file()
    assert "chaos doctor" in said
    assert Path(SYSTEMS[ci].file).read_text(encoding="utf-8") == snapshot(name=SYSTEMS[ci].file)


@pytest.mark.parametrize("ci", SYSTEMS)
def test_a_workflow_alone_where_the_scenarios_are_there(ci, scenarios):
    """They stay as they are; nothing is asked."""
    before = scenarios.read_bytes()

    said = said_by("--ci", ci, "--install", INSTALL)

    assert scenarios.read_bytes() == before
    assert "chaos doctor" not in said
    assert Path(SYSTEMS[ci].file).is_file()


@pytest.mark.usefixtures("scenarios")
def test_the_steps_of_github():
    """In this order; reports are kept when a scenario is red, too, and so are the parts."""
    called("--ci", "github", "--install", INSTALL)

    assert [step.get("uses", step.get("run", "")).split()[0].partition("@")[0] for step in steps()] == [
        "actions/checkout",
        "actions/setup-python",
        "actions/setup-java",
        "pip",
        "chaos",
        "versions=$(python",
        "actions/cache/restore",
        "chaos",
        "actions/cache/save",
        "pytest",
        "if",
        "actions/upload-artifact",
    ]
    workflow = parsed(GITHUB)
    assert workflow["permissions"] == {"contents": "read"}
    assert set(workflow["on"]) == {"pull_request", "schedule", "workflow_dispatch"}
    *_, run, table, upload = steps()
    assert run["timeout-minutes"] < workflow["jobs"]["scenarios"]["timeout-minutes"]
    assert all(step["if"].startswith("always()") for step in (table, upload))
    kept = upload["with"]["path"].split()
    assert all(word.partition("=")[2].split("/")[0] in kept for word in pytest_words() if word.startswith("--"))


@pytest.mark.usefixtures("scenarios")
def test_actions_have_the_versions_of_this_projects_own_workflows():
    """One that is renewed there is renewed here."""
    called("--ci", "github")

    own = "".join(file.read_text(encoding="utf-8") for file in OF_THIS_PROJECT.glob("*.yml"))
    versions = dict(re.findall(r"uses: (actions/[\w-]+)\S*@(\S+)", own))
    used = re.findall(r"uses: (actions/[\w-]+)\S*@(\S+)", Path(GITHUB).read_text(encoding="utf-8"))
    assert used
    assert {name: version for name, version in used if versions[name] != version} == {}


@pytest.mark.usefixtures("scenarios")
def test_gitlab_reads_the_workflow_by_a_line_in_its_own_file():
    """It is written where there is none; it would run nothing else."""
    called("--ci", "gitlab")

    assert parsed(ENTRY) == {"include": {"local": f"/{GITLAB}"}}
    assert list(parsed(GITLAB)) == ["chaos"]


@pytest.mark.parametrize(("there", "is_told"), [("stages: [test]\n", True), (f"include:\n  - local: /{GITLAB}\n", False)])
def test_the_file_of_gitlab_that_is_there_stays(scenarios, there, is_told):
    """The line is printed, unless it is in there."""
    entry = scenarios.with_name(ENTRY)
    entry.write_text(there, encoding="utf-8")

    said = said_by("--ci", "gitlab", "--install", INSTALL)

    assert entry.read_text(encoding="utf-8") == there
    assert (f"include: {{local: /{GITLAB}}}" in said) == is_told


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("chaos/scenarios.yaml", ["chaos/scenarios.yaml"]),
        ("two words/scenarios.yaml", ["two words/scenarios.yaml"]),
        ("more/orders.yaml", ["-o", "chaos_files=more/orders.yaml", "more/orders.yaml"]),
        ("more/two words.yaml", ["-o", "chaos_files='more/two words.yaml'", "more/two words.yaml"]),
    ],
)
def test_pytest_is_told_where_the_scenarios_are(repository, file, words):
    """Also with a name that it does not look for; the rest of the repository's tests is not collected."""
    (repository / file).parent.mkdir()

    assert called("--file", file, "--ci", "github", *PROGRAM).exit_code == 0

    assert pytest_words()[:3] == ["pytest", "-m", "chaos"]
    assert pytest_words()[3 : 3 + len(words)] == words
    assert pytest_words()[3 + len(words)].startswith("--junitxml=")


def test_tests_in_python_are_named_as_they_are(repository):
    """A file or a folder of them, which is there."""
    (repository / "tests").mkdir()

    assert called("--file", "tests", "--ci", "github").exit_code == 0

    assert pytest_words()[3] == "tests"


# what it installs ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scenarios")
def test_what_is_given_is_installed_as_it_is_given():
    """Whatever a shell or YAML could make of it."""
    command = "pip install \"a: 'b'\" # <scenarios> {c} && echo ${{ secrets.D }} > /dev/null"

    assert f"`{command}`" in said_by("--ci", "github", "--install", f" {command} ")

    assert install_step() == f"{command}\n"


@pytest.mark.usefixtures("scenarios")
def test_where_nothing_says_how_the_step_fails_with_a_sentence():
    """It is told when it is written, too."""
    assert "it fails until " in said_by("--ci", "github")

    shell = ("bash", "-e", "-c", install_step())
    done = subprocess.run(shell, capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert keep(done.stderr).startswith(f"{GITHUB}: replace this line by ")


def of_project(text):
    return {"pyproject.toml": text}


@pytest.mark.parametrize(
    ("there", "installs"),
    [
        ({"requirements.txt": "x\nkafka-spark-chaos==0.1.0\n"}, "pip install -r requirements.txt"),
        (
            {"requirements.txt": "x", "requirements-test.txt": "Kafka_Spark.Chaos"},
            "pip install -r requirements-test.txt",
        ),
        ({"requirements/dev.txt": "vendor/kafka_spark_chaos-0.1.0-py3-none-any.whl"}, "pip install -r requirements/dev.txt"),
        ({"requirements.txt": "git+https://git.shop.example/kafka-spark-chaos.git@v1"}, "pip install -r requirements.txt"),
        ({"requirements.txt": "kafka-spark-chaos @ https://shop.example/x.whl"}, "pip install -r requirements.txt"),
        (
            {"requirements.txt": "# kafka-spark-chaos\nkafka-spark-chaos-x\nmy-kafka-spark-chaos\nx  # kafka-spark-chaos"},
            "",
        ),
        (of_project('[project]\ndependencies = ["kafka-spark-chaos>=0.1"]'), "pip install ."),
        (of_project('[project.optional-dependencies]\na = ["x"]\nchaos = ["kafka-spark-chaos"]'), "pip install '.[chaos]'"),
        (
            of_project('[dependency-groups]\nall = [{include-group = "chaos"}]\nchaos = ["kafka-spark-chaos"]'),
            "pip install 'pip>=25.1' && pip install --group chaos",
        ),
        (of_project('[project]\nname = "kafka-spark-chaos"'), ""),
        (of_project("[project\n"), ""),
        ({"requirements.txt/x": "kafka-spark-chaos"}, ""),
    ],
)
def test_a_file_that_names_the_package_is_installed(scenarios, there, installs):
    """Its hash is the key of the packages in the cache, too."""
    for name, text in there.items():
        file = scenarios.parent / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    said = called("--ci", "github").stdout

    assert f"`{installs}`, because " in said if installs else "it fails until " in said
    assert install_step() == f"{installs}\n" if installs else "exit 1" in install_step()
    packages = next(step["with"]["cache-dependency-path"] for step in steps() if "setup-python" in step.get("uses", ""))
    assert packages == (list(there)[-1] if installs else GITHUB)


# what it refuses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ci", SYSTEMS)
def test_a_workflow_that_is_there_is_not_overwritten(repository, ci):
    """Nor are the scenarios written then; the message names it, and says how to go on."""
    file = repository / SYSTEMS[ci].file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine", encoding="utf-8")

    said = refused("--ci", ci, *PROGRAM)

    assert said.startswith(f"chaos init: {SYSTEMS[ci].file}: exists already")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--ci", "gitlub"), "--ci: 'gitlub' is not known (did you mean gitlab?)"),
        (("--install", INSTALL), "--install: "),
        (("--ci", "github", "--install", "  "), "--install: "),
        (("--ci", "github", "--install", "pip install x\npip install y"), "--install: "),
        (("--ci", "github", *PROGRAM), "scenarios.yaml: exists already"),
        (("--ci", "github", "--file", "../scenarios.yaml"), "../scenarios.yaml: is outside this folder"),
        (("--ci", "github", "--file", "a\nb.yaml"), "'a\\nb.yaml': cannot stand "),
    ],
)
@pytest.mark.usefixtures("scenarios")
def test_what_is_wrong_is_named_with_its_flag(flags, says):
    """One line, exit code 2, and no file."""
    assert refused(*flags).startswith(f"chaos init: {says}")


@pytest.mark.usefixtures("repository")
def test_without_scenarios_what_a_pipeline_needs_is_missing():
    """A workflow without scenarios would be red."""
    assert "missing: --kind " in refused("--ci", "github")


def test_scenarios_that_cannot_be_read_get_no_workflow(repository):
    """Their file may be of another tool."""
    (repository / "scenarios.yaml").write_text("mine", encoding="utf-8")

    assert "scenarios.yaml:1:1: " in refused("--ci", "github")


def test_a_folder_of_a_repository_has_no_workflows(scenarios, monkeypatch):
    """The message says where to call it, and how the scenarios are named there."""
    repository = scenarios.parent
    git = ("git", "init", "--quiet")
    subprocess.run(git, check=True, timeout=300)
    below = repository / "services" / "copy"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    said = refused("--ci", "github")

    assert said.rstrip().endswith("cd ../.., and add --file services/copy/scenarios.yaml")


@pytest.mark.usefixtures("scenarios")
def test_a_folder_that_cannot_be_made(repository):
    """The reason is that of the system."""
    (repository / ".github").touch()

    assert ".github/workflows: cannot be created: " in refused("--ci", "github")


@pytest.mark.usefixtures("scenarios")
def test_a_workflow_that_cannot_be_written(monkeypatch):
    """Likewise."""

    def full(_file, _text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(init_files, "write_atomically", full)

    assert f"{GITHUB}: cannot be written: No space left on device" in refused("--ci", "github")
