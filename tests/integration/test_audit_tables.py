"""`chaos audit tables` on tables of each kind: versions, a database, a topic, and what is not there.

The tables of a test are written and audited in one session of a process of its own. Iceberg is not released for the Spark of
this project, so its tables are audited with PySpark 3.5.
"""
# ruff: noqa: S608 - the statements are those of the tests

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from pyarrow import parquet

from chaos.common import clock
from chaos.install import artifacts
from tests.integration.conftest import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(3600)]

OTHER = "3.5.7"
RECORDS = 200
KEPT_BACK = "not-in-any-report"
ROWS = f"SELECT id, concat('name ', id) AS name, CAST(id * 7 % 30 AS DECIMAL(9, 2)) AS amount FROM range({RECORDS})"
ICEBERG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": "lake",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
AUDITS = """
import json, sys
from chaos.audit.tables import connectors
from chaos.audit.tables.addresses import parse
from chaos.audit.tables.command import OfTables
from chaos.audit.where import Where
from chaos.common.errors import ChaosError
from chaos.install import artifacts
from chaos.judging import spark_session

bootstrap, conf, statements, questions = json.loads(sys.argv[1])
where = Where(bootstrap)
first = [parse("--sink", address, where) for address in questions[0]["addresses"]]
jars = connectors.ensure(filter(None, (side.connector for side in first)), (), lambda _: None)
of_jars = {"spark.jars": ",".join(map(str, jars))}
given = spark_session.joined(*(side.settings("local[2]") for side in first), of_jars, conf)
parts = artifacts.ensure(lambda _: None) if bootstrap else None
found = []
with spark_session.of_audit("local[2]", parts, 1, {name: value for name, value in given.items() if value}) as spark:
    answers = [spark.sql(one).collect() for one in statements]
    names = [row[0] for row in answers[-1]] if answers else []
    for asked in questions:
        source, sink = (address.format(*names) for address in asked.pop("addresses"))
        question = OfTables(where, source, sink, ("id",), **asked)
        try:
            question.check()
            audit = question.compared(spark, jars)
        except ChaosError as error:
            found.append({"refused": type(error).__name__, "said": str(error)})
            continue
        counts = {one.verifier: one.count for one in audit.findings if one.asked}
        notes = {one.verifier: str(one.note) for one in audit.findings}
        found.append({"verdict": audit.verdict.name, "counts": counts, "notes": notes, "read": dict(audit.read)})
print("FOUND " + json.dumps([names, found]))
"""


def environment(home=None, **variables):
    """Variables of a process, perhaps with another PySpark."""
    paths = [str(home.parent)] if home else []
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return env | {"PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])} | variables


def audits(place, statements, questions, *, bootstrap="", conf=None, home=None, **variables):
    """What is found after these statements of SQL, and the first column of what the last of them gave.

    Args:
        questions: source and sink of each, and perhaps more options; {} in an address stands for a row of that column.
    """
    asked = [{"addresses": question[:2], **dict(question[2:])} for question in questions]
    words = (sys.executable, "-c", AUDITS, json.dumps([bootstrap, conf or {}, statements, asked]))
    env = environment(home, **variables)
    done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, timeout=3000, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout + done.stderr[-4000:]
    names, found = json.loads(lines[0].removeprefix("FOUND "))
    assert not any("\n" in one.get("said", "") for one in found), found
    return names, found


def test_parquet(tmp_path):
    """As a user calls it: exit code, and a report on standard output."""
    for name in ("source", "sink"):
        (tmp_path / name).mkdir()
        rows = pa.table({"id": range(RECORDS), "amount": [at if name == "source" or at != 7 else 0 for at in range(RECORDS)]})
        parquet.write_table(rows, tmp_path / name / "part-0.parquet")
    words = ("audit", "tables", "--source", "parquet:source", "--sink", "parquet:sink", "--key", "id", "--json", "-")

    argv = (sys.executable, "-m", "chaos", *words)
    done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=3000, check=False)

    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"], report["records"]) == (1, "INVALID", 2 * RECORDS), done.stderr
    assert report["read"] == {"source": "parquet:source", "sink": "parquet:sink"}
    assert "values: wrong value: id 7: amount 0, expected 7" in done.stderr


def test_delta(tmp_path):
    """A version is judged as it was; the newest one is named by the report; and what is not there is refused."""
    table, copies = (f"delta.`{tmp_path}/lake/{name}`" for name in ("orders", "copies"))
    statements = [
        f"CREATE TABLE {table} USING delta AS {ROWS}",
        f"CREATE TABLE {copies} USING delta AS SELECT * FROM {table}",
        f"INSERT INTO {table} SELECT id + 1000 AS id, name, amount FROM {table} WHERE id < 5",
        f"DELETE FROM {table} WHERE id = 7",
    ]
    sink = "delta:lake/copies"

    _, (first, newest, versions, absent) = audits(
        tmp_path,
        statements,
        [
            ("delta:lake/orders@v0", sink),
            ("delta:lake/orders", sink),
            ("delta:lake/orders@1", "delta:lake/orders@2"),
            ("delta:lake/orders@9", sink),
        ],
    )

    assert (first["verdict"], first["read"]["source"]) == ("VALID", "delta:lake/orders@0")
    assert (newest["verdict"], newest["read"]) == ("INVALID", {"source": "delta:lake/orders@2", "sink": "delta:lake/copies@0"})
    assert newest["counts"] == {"duplicates": 0, "gaps": 5, "values": 1}
    assert versions["counts"] == {"duplicates": 0, "gaps": 1, "values": 0}
    assert absent["refused"] == "AuditUsageError", absent
    assert absent["said"].startswith("--source delta:lake/orders@9: ")


def test_iceberg(tmp_path):
    """Snapshots by number and by tag; the current one is named; and what is not there is refused."""
    home = artifacts.of_spark(OTHER, artifacts.ensure(print), print).spark.home
    table, sink = "lake.shop.orders", "iceberg:lake.shop.copies"
    statements = [
        f"CREATE TABLE {table} USING iceberg AS {ROWS}",
        f"ALTER TABLE {table} CREATE TAG before",
        f"CREATE TABLE lake.shop.copies USING iceberg AS SELECT * FROM {table}",
        f"INSERT INTO {table} SELECT id + 1000, name, amount FROM {table} WHERE id < 5",
        f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at",
    ]

    (first, last), (tagged, numbered, newest, absent, nowhere) = audits(
        tmp_path,
        statements,
        [
            (f"iceberg:{table}@before", sink),
            (f"iceberg:{table}@{{0}}", sink),
            (f"iceberg:{table}", sink),
            (f"iceberg:{table}@17", sink),
            ("iceberg:lake.shop.nothing", sink),
        ],
        conf=ICEBERG,
        home=home,
    )

    for found in (tagged, numbered):
        assert (found["verdict"], found["read"]["source"]) == ("VALID", f"iceberg:{table}@{first}")
    assert (newest["read"]["source"], newest["counts"]) == (
        f"iceberg:{table}@{last}",
        {"duplicates": 0, "gaps": 5, "values": 0},
    )
    assert absent["refused"] == nowhere["refused"] == "AuditUsageError", (absent, nowhere)
    assert f"there is no snapshot 17; the newest is {last}" in absent["said"]
    assert "declare the catalog, and is the table in it?" in nowhere["said"]


ROLLS_BACK = """
import json, sys
from pathlib import Path
from chaos.audit.tables import connectors
from chaos.audit.tables.addresses import parse
from chaos.audit.where import Where
from chaos.contract import read_table
from chaos.judging import spark_session

address = parse("--sink", "iceberg:lake.shop.orders", Where(""))
jars = connectors.ensure([address.connector], (), lambda _: None)
given = spark_session.joined(json.loads(sys.argv[1]), {"spark.jars": ",".join(map(str, jars))})
spec = {"format": "iceberg", "place": "lake.shop.orders", "options": {}, "identity": "id"}
Path(read_table.SPEC).write_text(json.dumps(spec))
with spark_session.of_audit("local[2]", None, 1, given) as spark:
    spark.sql("CREATE TABLE lake.shop.orders USING iceberg AS SELECT id FROM range(5)")
    first = spark.sql("SELECT snapshot_id FROM lake.shop.orders.snapshots").collect()[0][0]
    spark.sql("INSERT INTO lake.shop.orders SELECT id + 5 FROM lake.shop.orders")
    spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.orders', {first})")
    sys.argv = ["read_table.py", "."]
    read_table.main()
    keys = sorted(row.key for row in spark.read.parquet(read_table.ROWS).collect())
print("FOUND " + json.dumps([keys, json.loads(Path(read_table.ABOUT).read_text()), str(first)]))
"""


def test_an_iceberg_table_that_was_rolled_back(tmp_path):
    """A run reads what the table holds now, which is not in its newest snapshot."""
    home = artifacts.of_spark(OTHER, artifacts.ensure(print), print).spark.home
    argv = (sys.executable, "-c", ROLLS_BACK, json.dumps(ICEBERG))

    done = subprocess.run(argv, cwd=tmp_path, env=environment(home), capture_output=True, text=True, timeout=3000, check=False)

    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout + done.stderr[-4000:]
    keys, about, first = json.loads(lines[0].removeprefix("FOUND "))
    assert (keys, about["rows"], about["version"]) == (["0", "1", "2", "3", "4"], 5, f"snapshot {first}")


def test_iceberg_for_this_spark(tmp_path):
    """It is not released; the line names the PySpark that has it."""
    argv = (sys.executable, "-m", "chaos", "audit", "tables", "--source", "iceberg:a.b", "--sink", "iceberg:a.c", "--key", "id")
    done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=3000, check=False)

    said = done.stdout + done.stderr
    assert (done.returncode, said.count("\n"), "Iceberg is known for PySpark 3.5" in said) == (2, 1, True), said


@contextmanager
def database(folder):
    """A PostgreSQL server, as the examples start it; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = (
        sys.executable,
        str(ROOT / "examples/tables/postgres/server.py"),
        "--listen",
        address,
        "--data",
        str(folder / "data"),
    )
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            clock.wait_until(lambda: answers(address), within_s=300, reason="PostgreSQL to listen")
            yield address
        finally:
            server.terminate()
            server.wait(60)


def answers(address):
    host, port = address.split(":")
    with socket.socket() as asking:
        return asking.connect_ex((host, int(port))) == 0


def test_a_database(tmp_path):
    """Its table is read once; what it does not have is refused; and the report has no password."""
    source = f"parquet:{tmp_path}/orders"
    with database(tmp_path) as address:
        url = f"jdbc:postgresql://{address}/postgres?user=shop"
        damaged = f"SELECT * FROM ({ROWS}) WHERE id <> 7 UNION ALL SELECT * FROM ({ROWS}) WHERE id = 8"
        statements = [f"INSERT OVERWRITE DIRECTORY '{tmp_path}/orders' USING parquet {ROWS}"]
        for name, rows in {"copies": ROWS, "damaged": damaged}.items():
            options = f"url '{url}', driver 'org.postgresql.Driver', dbtable '{name}'"
            statements.append(f"CREATE TABLE {name} USING jdbc OPTIONS ({options}) AS {rows}")

        _, (right, wrong, absent) = audits(
            tmp_path,
            statements,
            [
                (source, f"{url}#copies"),
                (source, f"{url}#(SELECT id, name, amount FROM damaged WHERE id < 100) AS few"),
                (source, f"{url}#nothing"),
            ],
            CHAOS_SINK_PASSWORD=KEPT_BACK,
        )

    assert (right["verdict"], right["read"]["sink"]) == ("VALID", f"{url}#copies")
    assert wrong["counts"] == {"duplicates": 1, "gaps": 101, "values": 0}
    assert absent["refused"] == "AuditUsageError", absent
    assert "check the names of database and table" in absent["said"]
    assert KEPT_BACK not in json.dumps([right, wrong, absent])


def test_a_topic(system, tmp_path):
    """Against the table that was made of it: its ends are named, and a row whose record retention removed is no phantom."""
    topic, bootstrap = "orders", system.kafka.bootstrap
    system.kafka.create([topic], 3)
    try:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for id_ in range(RECORDS):
            value = json.dumps({"name": f"name {id_}", "amount": id_ * 7 % 30})
            producer.produce(topic, key=str(id_), value=value, partition=id_ % 3)
        assert producer.flush(120) == 0
        query = """SELECT CAST(key AS BIGINT) AS id, get_json_object(value, '$.name') AS name,
                   CAST(get_json_object(value, '$.amount') AS DECIMAL(9, 2)) AS amount FROM source"""
        write = [f"INSERT OVERWRITE DIRECTORY '{tmp_path}/copies' USING parquet {ROWS}"]
        sides = (f"topic:{topic}", f"parquet:{tmp_path}/copies")

        _, (right, less) = audits(
            tmp_path,
            write,
            [(*sides, ("expected", query)), (*sides, ("expected", f"{query} WHERE partition < 2"))],
            bootstrap=bootstrap,
        )
        for future in system.kafka.admin.delete_records([TopicPartition(topic, 1, 10)]).values():
            future.result(300)
        _, (expired,) = audits(tmp_path, [], [(*sides, ("expected", query))], bootstrap=bootstrap)
    finally:
        system.kafka.delete([topic])

    assert right["verdict"] == "VALID", right
    assert right["read"]["source"].endswith("0: 0 to 67, 1: 0 to 67, 2: 0 to 66")
    assert (less["verdict"], less["counts"]) == ("INVALID", {"duplicates": 0, "gaps": 0, "values": 66})
    assert (expired["verdict"], expired["counts"]["values"]) == ("UNKNOWN", 10), expired
    assert "removed by retention (partition 1 begins at offset 10): that may be the reason" in expired["notes"]["values"]
