"""Addresses of `chaos audit tables`, and what is refused before Spark starts.

What is found in tables is tested with Spark in tests/planted/test_tables.py and tests/integration/test_audit_tables.py.
"""

import shlex
import socket
import zipfile
from contextlib import closing

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.audit.logs import AuditUsageError
from chaos.audit.tables import addresses, connectors
from chaos.audit.tables.addresses import KINDS, Reading, jdbc
from chaos.audit.tables.command import OfTables, _listed
from chaos.audit.tables.connectors import Connector
from chaos.audit.where import Where
from chaos.cli import main
from chaos.common.errors import InconclusiveError
from chaos.install import cache, jar_folders, packages, spark_versions
from chaos.judging import spark_session
from tests.unit.wording import named, raised
from verifiers.base import Finding, Verdict

POSTGRES = "jdbc:postgresql://127.0.0.1:9/shop?user=shop#orders"
TABLES = ("audit", "tables", "--key", "id")


def parsed(text, option="--source", where=None):
    return addresses.parse(option, text, where or Where("127.0.0.1:9"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a folder of Parquet, one of Delta, and an empty one."""
    monkeypatch.chdir(tmp_path)
    for name in ("rows", "copies", "lake/_delta_log", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("rows", "copies"):
        parquet.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / name / "part-0.parquet")
    return tmp_path


# addresses -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "parquet:/lake/orders",
        "parquet:s3a://lake/orders",
        "delta:/lake/orders",
        "delta:s3a://lake/orders@12",
        "iceberg:lake.shop.orders@8109744798576441904",
        "iceberg:lake.shop.orders@before-the-fix",
        POSTGRES,
        "jdbc:sqlserver://db:1433;databaseName=shop#dbo.orders",
        "jdbc:postgresql:shop#(SELECT * FROM orders WHERE amount > 10) AS large",
        "topic:orders",
    ],
)
def test_an_address_is_shown_as_it_was_written(text):
    assert str(parsed(text)) == text


@pytest.mark.parametrize("version", ["@12", "@v12", "@V12"])
def test_a_version_of_delta(version):
    """A number alone, or as Delta itself writes it."""
    found = parsed(f"delta:/lake/a@b/orders{version}")

    assert (found.path, found.version) == ("/lake/a@b/orders", 12)


@pytest.mark.parametrize("place", ["/lake/orders", "/lake/a@12/orders", "/lake/orders@latest"])
def test_a_path_of_delta_without_a_version(place):
    found = parsed(f"delta:{place}")

    assert (found.path, found.version) == (place, None)


def test_a_name_of_iceberg_is_quoted():
    found = parsed("iceberg:lake.shop-eu.orders@tag")

    assert (found.table, found.snapshot) == ("`lake`.`shop-eu`.`orders`", "tag")


def test_a_place_at_home():
    """A shell leaves ``~`` alone behind a colon."""
    assert "~" not in str(parsed("parquet:~/orders"))


def test_each_kind_says_how_it_is_written():
    assert [(kind, one.FORM.partition(":")[0]) for kind, one in KINDS.items()] == [(kind, kind) for kind in KINDS]


# bad input -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("", "missing: --source, --sink"),
        ("--source parquet:rows", "missing: --sink"),
        ("--source rows --sink parquet:copies", "did you mean parquet:rows?"),
        ("--source lake --sink parquet:copies", "did you mean delta:lake?"),
        ("--source parqet:rows --sink parquet:copies", "did you mean parquet:rows?"),
        ("--source postgresql://db/shop#orders --sink parquet:rows", "did you mean jdbc:postgresql://db/shop#orders?"),
        ("--source csv:rows --sink parquet:copies", "--source csv:rows: "),
        ("--source csv:/rows --sink parquet:copies", "--source csv:/rows: "),
        ("--source s3a://lake/rows --sink parquet:copies", "did you mean parquet:s3a://lake/rows?"),
        ("--source parquet: --sink parquet:copies", "write parquet:PATH"),
        ("--source parquet:rows --sink parquet:rows", "--source and --sink parquet:rows: "),
        ("--source parquet:nowhere --sink parquet:rows", "--source parquet:nowhere: "),
        ("--source parquet:empty --sink parquet:rows", "--source parquet:empty: "),
        ("--source parquet:lake --sink parquet:rows", "write delta:lake"),
        ("--source 'parquet:r*' --sink parquet:rows", "pattern"),
        ("--source delta:nowhere --sink parquet:rows", "--source delta:nowhere: nowhere "),
        ("--source delta:rows --sink parquet:copies", "_delta_log"),
        ("--source iceberg:/lake/orders --sink parquet:rows", "write iceberg:CATALOG.DATABASE.TABLE[@SNAPSHOT]"),
        ("--source iceberg:orders --sink parquet:rows", "write iceberg:CATALOG.DATABASE.TABLE[@SNAPSHOT]"),
        ("--source jdbc:postgresql://db/shop --sink parquet:rows", "?user=NAME#orders"),
        ("--source 'jdbc:postgresql://db/shop#' --sink parquet:rows", "?user=NAME#orders"),
        ("--source topic:orders --sink parquet:rows", "missing: --bootstrap"),
        ("--source topic:a --sink topic:b --bootstrap 127.0.0.1:9", "chaos audit topics"),
        ("--source parquet:rows --sink parquet:copies --bootstrap 127.0.0.1:9", "topic:NAME"),
        ("--source parquet:rows --sink parquet:copies --packages org.postgresql", "must be GROUP:ARTIFACT:VERSION"),
        ("--source parquet:rows --sink parquet:copies --spark-conf x=1", "begin with spark."),
        ("--source parquet:rows --sink parquet:copies --spark-master nonsense", "must be local[N]"),
        ("--source parquet:rows --sink parquet:copies --expected-sql @nowhere.sql", "cannot be read: No such file"),
        ("--source parquet:rows --sink parquet:copies --expected-sql ' '", "--expected-sql  : "),
        ("--source parquet:rows --sink parquet:copies --json nowhere/r.json", "--json nowhere/r.json: "),
    ],
)
@pytest.mark.usefixtures("place")
def test_what_is_refused_before_spark_starts(capsys, words, name):
    """One line that names the mistake, exit code 2."""
    code = main._ended([*TABLES, *shlex.split(words)])

    said = "".join(capsys.readouterr())
    assert (code, said.count("\n")) == (2, 1), said
    named(said.strip(), name)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("key", ["", " "])
def test_a_key_is_needed(capsys, key):
    code = main._ended(["audit", "tables", "--source", "parquet:rows", "--sink", "parquet:copies", "--key", key])

    assert (code, "missing: --key" in "".join(capsys.readouterr())) == (2, True)


def test_a_password_in_an_address_is_not_repeated():
    """It is a mistake to write it there, and the message must not make it worse."""
    with pytest.raises(AuditUsageError) as refused:
        parsed("jdbc:postgresql://db/shop?user=shop&password=secret#orders", "--sink")

    assert "secret" not in str(refused.value)
    assert "CHAOS_SINK_PASSWORD" in str(refused.value)


@pytest.mark.usefixtures("place")
def test_a_server_that_does_not_answer_is_unknown(capsys):
    """Exit code 3, and one line: nothing is known about its rows."""
    for words in (["--source", POSTGRES], ["--source", "topic:orders", "--bootstrap", "127.0.0.1:9"]):
        code = main._ended([*TABLES, *words, "--sink", "parquet:rows"])

        said = "".join(capsys.readouterr())
        assert code == 3, said
        assert "does not answer within 10 s" in " ".join(said.split())


# before Spark ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_rows_of_parquet_are_counted_without_spark():
    """So that few rows are compared by a session that starts quickly."""
    assert parsed("parquet:rows").look("local[2]") == 3
    assert parsed("parquet:rows").look("yarn") is None


def test_a_database_that_answers():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]

        assert parsed(f"jdbc:postgresql://127.0.0.1:{port}/shop#orders").look("local[2]") is None


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("postgresql://db/shop", [("db", 5432)]),
        ("postgresql://db:7/shop", [("db", 7)]),
        ("postgresql://a:7,b/shop", [("a", 7), ("b", 5432)]),
        ("postgresql://[::1]:7/shop", [("::1", 7)]),
        ("postgresql:///shop", [("localhost", 5432)]),
        ("mysql://db/shop", [("db", 3306)]),
        ("sqlserver://db;databaseName=shop", [("db", 1433)]),
        ("postgresql:shop", []),
        ("oracle:thin:@//db:1521/shop", []),
    ],
)
def test_the_addresses_of_a_database(url, asked):
    """Of a URL of another form none is known, and its driver decides."""
    assert list(parsed(f"jdbc:{url}#orders")._addresses()) == asked


# connectors ------------------------------------------------------------------------------------------------------------------


def test_a_connector_that_is_not_pinned_for_this_spark(monkeypatch):
    """The message names the versions that are, and the package of this one."""
    monkeypatch.setattr(spark_versions, "here", lambda: "4.0.4")
    connector = parsed("iceberg:lake.shop.orders").connector

    with raised(AuditUsageError, "3.5", "4.0.4", "--packages", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION"):
        connectors.ensure([connector], (), print)


@pytest.mark.parametrize("version", ["4.2.0", "3.5.7"])
def test_the_pinned_delta_is_for_this_spark(monkeypatch, version):
    monkeypatch.setattr(spark_versions, "here", lambda: version)

    assert connectors._section(parsed("delta:/lake").connector) == f"delta {version[:3]}"


def test_a_package_of_the_user_replaces_the_pinned_one(monkeypatch):
    """Two versions of one connector in a session would win or lose by chance."""
    fetched = []
    monkeypatch.setattr(jar_folders, "locked", lambda _place, section, *_: fetched.append(section) or _place)
    monkeypatch.setattr(packages, "ensure", lambda *_: packages.NO_PACKAGES)
    needed = [parsed("delta:/lake").connector, parsed(POSTGRES).connector]

    connectors.ensure(needed, ("io.delta:delta-spark_4.2_2.13:4.4.1",), print)

    assert fetched == ["postgresql"]


def test_nothing_is_fetched_for_parquet(monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: pytest.fail("the cache is not asked"))

    assert connectors.ensure([], (), print) == ()


def test_settings_of_the_user_win_or_are_added():
    ours = [{"spark.sql.extensions": "A", "spark.a": "1"}, {"spark.jars": "a.jar"}]

    assert spark_session.joined(*ours, {"spark.sql.extensions": "B", "spark.a": "2", "spark.jars": "b.jar"}) == {
        "spark.sql.extensions": "A,B",
        "spark.a": "2",
        "spark.jars": "a.jar,b.jar",
    }


def test_a_driver_is_the_one_that_a_jar_announces(tmp_path):
    """Of several, the one whose name has the kind of database; a jar that announces none, or is none, has none."""
    for name, text in {"a": "org.postgresql.Driver # ours\n", "b": "\ncom.mysql.cj.jdbc.Driver\n"}.items():
        with zipfile.ZipFile(tmp_path / f"{name}.jar", "w") as archive:
            archive.writestr("META-INF/services/java.sql.Driver", text)
    (tmp_path / "c.jar").write_text("no jar")
    found = [tmp_path / f"{name}.jar" for name in "cab"]

    assert [jdbc._driver(system, found) for system in ("postgresql", "mysql")] == [
        "org.postgresql.Driver",
        "com.mysql.cj.jdbc.Driver",
    ]
    assert jdbc._driver("oracle", found[:1]) is None


# the report ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["id"], ["id"]),
        (["id,line"], ["id", "line"]),
        (["id , line "], ["id", "line"]),
        (["id", "line"], ["id", "line"]),
        (["get_json_object(value, '$.id')"], ["get_json_object(value, '$.id')"]),
        ([], []),
    ],
)
def test_names_between_commas(given, names):
    """SQL with a comma is not cut."""
    assert _listed(given) == names


@pytest.mark.parametrize(
    ("source", "sink", "expected", "unknown"),
    [
        ("", "", "", set()),
        ("expired", "", "", {"duplicates", "ordering", "values"}),
        ("expired", "", "SELECT 1", {"duplicates", "gaps", "ordering", "values"}),
        ("", "expired", "", {"gaps", "ordering"}),
    ],
)
def test_absent_records_are_no_proof(source, sink, expected, unknown):
    """A row whose record was removed is no phantom, and a record whose row was removed is not lost."""
    asked = OfTables(Where(), expected=expected)
    sides = [Reading(None, "a", 1, source), Reading(None, "b", 1, sink)]
    wrong = [Finding(name, "sink", Verdict.INVALID, 1, 2) for name in ("duplicates", "gaps", "ordering", "values")]

    told = [asked._told(one, *sides) for one in wrong]

    assert {one.verifier for one in told if one.verdict is Verdict.UNKNOWN} == unknown
    assert all("expired" in str(one.note) for one in told if one.verdict is Verdict.UNKNOWN)


def test_what_is_right_stays_right():
    asked, right = OfTables(Where()), Finding("values", "sink", Verdict.VALID, 0, 2)

    assert asked._told(right, Reading(None, "a", 1, "expired"), Reading(None, "b", 1)) is right


def test_a_connector_of_another_name():
    assert Connector("PostgreSQL", "postgresql", "org.postgresql:postgresql").artifact == "postgresql"
    assert parsed("delta:/lake").connector.artifact == "delta-spark"


def test_the_port_is_closed():
    """Each way to find out that a database is not there ends the same."""
    with pytest.raises(InconclusiveError, match="is it up, and reachable"):
        parsed(POSTGRES).look("local[2]")
