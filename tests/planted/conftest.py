"""One Spark session for all planted logs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from chaos.install import class_archives
from chaos.judging.spark_session import SMALL, remember_classes
from tests.planted.log import Judge, Log, in_words
from verifiers import VERIFIERS
from verifiers.base import Finding


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """How long a query takes is not the point: some tests ask a hundred of them, perhaps on a machine that does much else.

    Tests that a file asks of the same verifiers in another way are the night's: the gate asks both about logs made by chance.
    """
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(3600))
        if isinstance(item, pytest.Function) and Path(item.function.__code__.co_filename) != item.path:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Small: its logs have some dozen rows, so what counts is how soon a query starts."""
    session = (
        SparkSession.builder.master("local[1]")
        .appName("planted")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", " ".join(class_archives.QUICK))
        .config("spark.driver.extraClassPath", class_archives.extra_class_path(Path(pyspark.__file__).parent, ()))
        .config("spark.ui.enabled", "false")
        .config(map=dict(SMALL))
        .config("spark.sql.shuffle.partitions", "2")  # as large logs have more than one
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.codegen.wholeStage", "false")  # as the auditor's: compiling takes longer than judging
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.pythonExec = sys.executable  # as the auditor's: python3 of the path may lack numpy
    remember_classes(session)
    yield session
    session.stop()


@pytest.fixture
def judge(spark: SparkSession) -> Judge:
    """Ask one verifier about one log."""

    def ask(verifier: str, log: Log) -> Finding:
        return in_words(VERIFIERS[verifier].check(log.evidence(spark, VERIFIERS[verifier].views)))

    return ask
