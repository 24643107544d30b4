"""How often rows were added to a table, as its files tell, and what is read of it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from chaos.contract import read_table
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.contract.read_table import SPEC
from chaos.scenario.pipelines.base import Tools
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.sinks import KINDS, Sink, TableSink
from tests import deployed
from tests.unit.wording import keep

TOPICS = Topics((Topic("orders-7", 3),), "", suffix="7", names={"orders": "orders-7"})
ENDPOINTS = Endpoints("link:9092", "broker:9092", "spark://m:7077", "10.0.0.1")


def table(**sink: Any) -> TableSink:
    return TypeAdapter(Sink).validate_python(sink).table


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize(
    ("format_", "files", "versions"),
    [
        ("parquet", [], 0),
        ("parquet", ["part-0.parquet", "a=1/part-1.parquet", "_temporary/0/part-2.parquet", "_SUCCESS"], 2),
        ("parquet", ["part-0.parquet", "part-1.parquet", "_spark_metadata/0", "_spark_metadata/.0.crc"], 1),
        ("parquet", ["_spark_metadata/9.compact", "_spark_metadata/10"], 11),
        ("delta", ["part-0.parquet"], 0),
        ("delta", ["_delta_log/00000000000000000000.json", "_delta_log/00000000000000000011.json"], 12),
        ("iceberg", ["metadata/v1.metadata.json"], 1),
        ("iceberg", ["metadata/v1.metadata.json", "metadata/v3.metadata.json", "metadata/snap-1.avro"], 3),
    ],
)
def test_how_often_rows_were_added(tmp_path: Path, format_: str, files: list[str], versions: int) -> None:
    """Files that tasks have not committed count only where the table has no log of its own."""
    touch(tmp_path, *files)

    assert table(**{format_: str(tmp_path)}).versions() == versions


def test_a_database_does_not_tell_by_files_that_rows_were_added() -> None:
    """Nor does a function, or an Iceberg table by its name, which only its catalog finds."""
    for sink in ({"jdbc": {"url": "jdbc:h2:/db", "table": "kept"}}, {"python": "shop:read"}, {"iceberg": "lake.shop.orders"}):
        assert (table(**sink).tells_versions, table(**sink).versions()) == (False, 0)


@pytest.mark.parametrize(
    ("sink", "problem", "named"),
    [
        ({"delta": "/a"}, "absent", ""),
        ({"delta": "/a"}, "lacking", "delta"),
        ({"delta": "/a"}, "other", "Scala"),
        ({"delta": "/a"}, "failed", "logs/table.log"),
        ({"jdbc": {"url": "jdbc:h2:/db", "table": "kept"}}, "lacking", "driver"),
        ({"jdbc": {"url": "jdbc:h2:/db", "table": "kept"}}, "failed", "jdbc:h2:/db"),
    ],
)
def test_what_to_do_about_a_table_that_cannot_be_read(sink: dict[str, Any], problem: str, named: str) -> None:
    """By the kind of table, and the kind of problem."""
    assert named in keep(table(**sink).mend(problem))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, TableSink)])
def test_every_kind_of_table_names_what_reads_it(kind: type[TableSink]) -> None:
    """A function that the job's own Spark runs."""
    assert kind.FORMAT in read_table._READERS


def job(sink: Mapping[str, object], **keys: object) -> Deployed:
    own = {"spark.sql.catalog.lake.warehouse": "{folder}/lake", "spark.sql.session.timeZone": "Asia/Tokyo"}
    tools = Tools(spark_home="/spark", packages=("/jars/delta.jar",))
    return deployed.job("/shop/job.py", ("{sink}",), tools, configuration=own, sink=sink, **keys)


def test_the_job_is_told_where_its_table_is() -> None:
    """Instead of a topic."""
    command = job({"delta": "{folder}/{orders}"}).command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv[0] == sys.executable
    assert json.loads(command.argv[4])[0][-1] == "/run/orders-7"


def test_it_is_read_by_the_job_s_own_spark(tmp_path: Path) -> None:
    """With its packages and settings, but for the master and the time zone, which the JSON of its rows depends on."""
    sink = {"jdbc": {"table": "kept_{suffix}", "url": "jdbc:h2:{folder}/db", "password_in": "SHOP"}}

    command = job(sink, identity="customer").reader(ENDPOINTS, TOPICS, Path("/run"), tmp_path / "table")

    (argv,) = json.loads(command.argv[4])
    settings = dict(word.split("=", 1) for word in argv[2:-2:2])
    assert (argv[0], argv[-2:]) == ("/spark/bin/spark-submit", [read_table.__file__, str(tmp_path / "table")])
    assert settings["spark.jars"] == "/jars/delta.jar"
    assert settings["spark.sql.catalog.lake.warehouse"] == "/run/lake"
    assert (settings["spark.master"], settings["spark.sql.session.timeZone"]) == ("local[2]", "UTC")
    spec = json.loads((tmp_path / "table" / SPEC).read_text())
    assert (spec["format"], spec["place"], spec["options"]) == ("jdbc", "kept_7", {"url": "jdbc:h2:/run/db"})
    assert (spec["password_in"], spec["identity"], spec["places"]["folder"]) == ("SHOP", "customer", "/run")
