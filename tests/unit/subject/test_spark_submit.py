import json
import sys
from pathlib import Path

import pytest

from chaos.subject.base import Endpoints, Topics
from chaos.subject.spark_submit import SparkSubmit

TOPICS = Topics("datasource-7", "datasink-7", 3)
ENDPOINTS = Endpoints("link:9092", "broker:9092", "spark://m:7077", "10.0.0.1", "-Xshare:auto", ("/jars/a.jar", "/jars/b.jar"))
ARGUMENTS = ("{bootstrap}", "{source}:{sink}", "--at={checkpoint}", "{folder}/x", "{suffix}", '{"a": 1}')


def job(**options):
    return SparkSubmit("/shop/job.py", ARGUMENTS, spark_home="/spark", java_home="/jdk", **options)


def submitted(**options):
    """The words of spark-submit before the application, and from there on."""
    argv = job(**options).command(ENDPOINTS, TOPICS, Path("/run")).argv
    assert argv[:4] == (sys.executable, "-m", "chaos.subject.supervisor", "--copies")
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


def test_a_jar_has_a_main_class():
    assert submitted(main_class="shop.Orders")[0][:2] == ["--class", "shop.Orders"]
    assert submitted()[0][0] == "--conf"


def test_it_is_led_to_the_system_whatever_it_declares():
    """What leads it there cannot be declared otherwise; memory can, and so can everything else."""
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


def test_its_environment_is_as_declared_but_for_where_spark_is():
    command = job(environment={"SHOP": "1", "SPARK_HOME": "/other"}, restarts=9).command(ENDPOINTS, TOPICS, Path("/run"))

    assert (command.env["SHOP"], command.env["SPARK_HOME"], command.env["JAVA_HOME"]) == ("1", "/spark", "/jdk")
    assert command.argv[-2:] == ("--restarts", "9")


def test_its_position_is_that_of_its_checkpoint(tmp_path):
    """It has no consumer group, and no transactional id that is known."""
    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {}
    for log, text in (("offsets", 'v1\n{}\n{"datasource-7": {"0": 5, "2": 9}}'), ("commits", "v1\n{}")):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / log / "0").write_text(text, encoding="utf-8")

    assert job().positions(ENDPOINTS, TOPICS, tmp_path) == {0: 5, 2: 9}
    assert (job().consumer_group(TOPICS), job().transactional_ids(TOPICS)) == ("", ())


@pytest.mark.parametrize("model", ["identity", "square"])
def test_what_it_must_write_is_declared(model, monkeypatch):
    monkeypatch.setattr("chaos.subject.models.expected", lambda source, name: (source, name))

    assert job(model=model).expected("source") == ("source", model)
