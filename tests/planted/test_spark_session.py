"""Settings of the judge's session that make its queries cheaper."""

import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.judging import spark_session
from verifiers import arrow


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that Py4J has looked for."""
    names, look_up = list[str](), JVMView.__getattr__

    def noted(view: JVMView, name: str) -> object:
        names.append(name)
        return look_up(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", noted)
    return names


def test_no_class_is_looked_for_in_every_jar_again(spark: SparkSession, looked_up: list[str]) -> None:
    made = arrow.made(spark, [(1, "a"), (2, "b")], {"id": "bigint", "key": "string"})
    rows = made.select("id", F.col("key")).where(F.expr("id > 1")).join(made, ["id"]).groupBy("id").agg(F.count("*"))

    assert rows.collect() == [(2, 1)]
    assert looked_up == []


def test_the_classes_are_those_that_would_be_found(spark: SparkSession, looked_up: list[str]) -> None:
    """Each name is looked for once more, and is the same class."""
    view = spark.sparkContext._jvm
    kept = {name: view.__dict__.pop(name) for name in spark_session._ASKED_FOR}

    spark_session.remember_classes(spark)

    assert looked_up == list(kept)
    assert {name: one._fqn for name, one in kept.items()} == {name: view.__dict__[name]._fqn for name in kept}
