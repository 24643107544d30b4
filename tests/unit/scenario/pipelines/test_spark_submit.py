import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.contract.supervisor import IN_MEMORY, supervised
from chaos.scenario.pipelines.base import Tools
from chaos.scenario.pipelines.spark_submit import properties
from tests import deployed
from tests.unit.wording import keep

TOPICS = Topics((Topic("datasource-7", 3),), "datasink-7", suffix="7")
ENDPOINTS = Endpoints("link:9092", "broker:9092", "spark://m:7077", "10.0.0.1", "-Xshare:auto", "/jars/a.jar:/jars/b.jar")
ARGUMENTS = ("{bootstrap}", "{source}:{sink}", "--at={checkpoint}", "{folder}/x", "{suffix}", '{"a": 1}')


def job(jars=(), **options):
    tools = Tools("/jdk/bin/java", spark_home="/spark", packages=jars)
    return deployed.job("/shop/job.py", ARGUMENTS, tools, **options)


def submitted(**options):
    """The words of spark-submit before the application, and from there on."""
    argv = job(**options).command(ENDPOINTS, TOPICS, Path("/run")).argv
    assert argv[:4] == (sys.executable, "-m", "chaos.contract.supervisor", "--copies")
    ((program, *words),) = json.loads(argv[4])
    assert program == "/spark/bin/spark-submit"
    begin = words.index("/shop/job.py")
    return words[:begin], words[begin:]


def settings(**options):
    words, _ = submitted(**options)
    return dict(word.split("=", 1) for word in words[words.index("--conf") + 1 :: 2])


def test_its_arguments_are_as_declared():
    """With the names of this run, and other braces as they are."""
    _, application = submitted()

    assert application[1:] == ["link:9092", "datasource-7:datasink-7", "--at=/run/checkpoint", "/run/x", "7", '{"a": 1}']


def test_values_of_settings_and_variables_have_placeholders_too():
    """A job may take the place of Kafka from either."""
    own = {"spark.shop.kafka": "{bootstrap}", "spark.driver.extraJavaOptions": "-Dsink={sink}"}

    found = settings(configuration=own)
    command = job(environment={"SHOP": "{source}"}).command(ENDPOINTS, TOPICS, Path("/run"))

    assert (found["spark.shop.kafka"], found["spark.driver.extraJavaOptions"]) == (
        "link:9092",
        "-Dsink=datasink-7 -Xshare:auto",
    )
    assert command.env["SHOP"] == "datasource-7"


def test_a_jar_has_a_main_class():
    assert submitted(main_class="shop.Orders")[0][:2] == ["--class", "shop.Orders"]
    assert submitted()[0][0] == "--conf"


def test_it_is_led_to_the_system_whatever_it_declares():
    """The keys that lead it there are fixed; memory and all other keys are free."""
    own = {"spark.master": "yarn", "spark.ui.port": "1", "spark.executor.memory": "900m", "spark.sql.shuffle.partitions": "7"}

    found = settings(configuration=own)

    leading = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.port", "spark.ui.enabled")
    assert [found[name] for name in leading] == ["spark://m:7077", "10.0.0.1", "10.0.0.1", "4040", "true"]
    assert (found["spark.executor.memory"], found["spark.driver.memory"]) == ("900m", "512m")
    assert found["spark.sql.shuffle.partitions"] == "7"


def test_ours_is_added_to_its_own_java_options_and_class_path():
    """The connector is on the class path of driver and executors."""
    own = {"spark.driver.extraJavaOptions": "-Da=b", "spark.executor.extraClassPath": "/shop/c.jar"}

    found = settings(configuration=own)

    assert found["spark.driver.extraJavaOptions"] == "-Da=b -Xshare:auto"
    assert found["spark.executor.extraJavaOptions"] == "-Xshare:auto"
    assert found["spark.executor.extraClassPath"] == "/shop/c.jar:/jars/a.jar:/jars/b.jar"
    assert found["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"


def test_the_jars_of_its_packages_are_added_to_its_own():
    """Without packages, its own are as they are."""
    own = {"spark.jars": "/shop/c.jar"}

    assert settings(jars=("/cache/a.jar", "/cache/b.jar"))["spark.jars"] == "/cache/a.jar,/cache/b.jar"
    assert settings(configuration=own, jars=("/cache/a.jar",))["spark.jars"] == "/shop/c.jar,/cache/a.jar"
    assert settings(configuration=own)["spark.jars"] == "/shop/c.jar"
    assert "spark.jars" not in settings()


def test_it_may_run_in_a_folder_of_its_own():
    command = job(working_directory="/shop").command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv[-2:] == ("--folder", "/shop")
    assert "--folder" not in job().command(ENDPOINTS, TOPICS, Path("/run")).argv


def test_its_environment_is_as_declared_but_for_where_spark_is():
    command = job(environment={"SHOP": "1", "SPARK_HOME": "/other"}, restarts=9).command(ENDPOINTS, TOPICS, Path("/run"))

    assert (command.env["SHOP"], command.env["SPARK_HOME"], command.env["JAVA_HOME"]) == ("1", "/spark", "/jdk")
    assert command.argv[-2:] == ("--restarts", "9")


@pytest.mark.parametrize("place", ["", "copies/"])
def test_it_has_begun_when_its_query_has_a_checkpoint(tmp_path, place):
    """Which may be below the place that it was told."""
    checkpoint, command = tmp_path / "checkpoint" / place, job().command(ENDPOINTS, TOPICS, tmp_path)
    before = command.has_begun()
    checkpoint.mkdir(parents=True)
    between = command.has_begun()

    (checkpoint / "metadata").write_text('{"id":"…"}', encoding="utf-8")

    assert (before, between, command.has_begun()) == (False, False, True)
    assert keep(command.begins_by).endswith(f" {tmp_path / 'checkpoint'}")


def test_without_a_checkpoint_it_has_begun_at_once(tmp_path):
    """There is nothing by which it could be told."""
    assert job(positions="none").command(ENDPOINTS, TOPICS, tmp_path).has_begun()


def test_its_position_is_that_of_its_checkpoint(tmp_path):
    """It has no consumer group, and no transactional id that is known."""
    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {}
    for log, text in (("offsets", 'v1\n{}\n{"datasource-7": {"0": 5, "2": 9}}'), ("commits", "v1\n{}")):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / log / "0").write_text(text, encoding="utf-8")

    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {0: 5, 2: 9}
    assert (job().consumer_group(TOPICS), job().transactional_ids(TOPICS)) == ("", ())


def test_a_checkpoint_of_another_query_has_no_position(tmp_path):
    """Its batches are of another topic; a run that waits for it says so (`chaos.engine.standstill`)."""
    for log, text in (("offsets", 'v1\n{}\n{"others": {"0": 5}}'), ("commits", "v1\n{}")):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / log / "0").write_text(text, encoding="utf-8")

    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {}


def test_its_checkpoint_may_be_in_a_folder_below(tmp_path):
    """A job of several queries gives each its own."""
    for log, text in (("offsets", 'v1\n{}\n{"datasource-7": {"0": 5}}'), ("commits", "v1\n{}")):
        (tmp_path / "checkpoint" / "copy" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / "copy" / log / "0").write_text(text, encoding="utf-8")

    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {0: 5}


def test_positions_of_a_group_are_seeded_once_and_asked_of_it(monkeypatch):
    """Through the audit listener: a fault on the job's own links must not hide its progress."""
    asked = []
    monkeypatch.setattr("chaos.contract.clients.seed", lambda *arguments: asked.append(("seeded", *arguments)))
    monkeypatch.setattr("chaos.contract.clients.positions", lambda *arguments: asked.append(("asked", *arguments)) or {0: 7})
    one = job(positions={"group": "{sink}-square"}, transactional_ids=("{sink}-{partition}",))

    one.prepare(ENDPOINTS, TOPICS)

    assert one.positions(ENDPOINTS, TOPICS, Path("/run")) == {0: 7}
    assert asked == [(word, ENDPOINTS, "datasink-7-square", TOPICS) for word in ("seeded", "asked")]
    assert one.transactional_ids(TOPICS) == ("datasink-7-0", "datasink-7-1", "datasink-7-2")


def test_without_a_group_nothing_is_prepared(monkeypatch):
    """No group is asked or seeded."""
    monkeypatch.setattr("chaos.contract.clients.Consumer", None)

    job().prepare(ENDPOINTS, TOPICS)


def test_what_an_external_system_demands_has_the_last_word_and_is_on_no_command_line():
    """It may be a password; what else was set under its name is gone."""
    demanded = replace(ENDPOINTS, spark_options={"spark.a.password": "hunter2", "spark.executor.memory": "2g"})

    command = job(configuration={"spark.executor.memory": "900m", "spark.b": "1"}).command(demanded, TOPICS, Path("/run"))
    ((_, *words),) = json.loads(command.argv[4])

    assert "hunter2" not in " ".join(command.argv)
    assert [word for word in words if word.startswith("spark.executor.memory")] == []
    assert "spark.b=1" in words
    assert words[:3] == ["--properties-file", IN_MEMORY, "--load-spark-defaults"]
    variable = command.argv[command.argv.index("--in-memory") + 1]
    assert command.env[variable] == properties(demanded.spark_options)


def test_settings_are_written_as_java_reads_them():
    """Spaces, separators, comments, backslashes and what is not ASCII are no part of the format."""
    assert properties({"spark.a": "b"}) == "spark\\u002ea=b\n"
    assert properties({"a": "= #\\ü😀"}) == "a=\\u003d\\u0020\\u0023\\u005c\\u00fc\\ud83d\\ude00\n"


def test_what_is_in_memory_is_read_by_the_copy_and_is_not_in_its_environment(tmp_path):
    """By way of the real supervisor."""
    words = ["sh", "-c", f"cat {IN_MEMORY} > read; env > env; ls -lL {IN_MEMORY} > listed"]
    argv = supervised([words], 0, in_memory="SECRET")
    environment = {"SECRET": "hunter2", "PYTHONPATH": str(Path(__file__).parents[4]), "PATH": "/usr/bin:/bin"}

    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        next(line for line in process.stdout if '"ended"' in line)
        process.terminate()

    assert (tmp_path / "read").read_text(encoding="utf-8") == "hunter2"
    assert "hunter2" not in (tmp_path / "env").read_text(encoding="utf-8")
    assert (tmp_path / "listed").read_text(encoding="utf-8").startswith("-rw------- ")
