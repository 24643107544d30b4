"""`verifiers.audit` where nothing is installed but PySpark, numpy, pyarrow and the wheel; classic sessions and Spark Connect.

PySpark, numpy and pyarrow are those of the environment that runs this test, by links, so that nothing is downloaded but PySpark
3.5 and what Connect needs beside them, each at its first use.
"""

import json
import os
import socket
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from chaos.install import artifacts
from tests.integration.test_wheel import built, output_of, outside

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(3600)]

OURS = Path(sysconfig.get_path("purelib"))
ALONE = ("numpy", "pyarrow")
OF_CONNECT = ("pandas", "dateutil", "pytz", "tzdata", "six.py")
FROM_REGISTRY = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")  # as pyspark[connect] names them
OTHER = "3.5.7"

SCRIPT = """
import importlib.util, json, sys
import pyspark, verifiers
from pyspark.sql import SparkSession, functions as F

loaded = sorted({"pandas", "grpc", "chaos", "pydantic"} & sys.modules.keys())
settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
            "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # few rows
            "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
remote = len(sys.argv) > 1
builder = SparkSession.builder.remote(sys.argv[1]) if remote else SparkSession.builder.master("local[2]").config(map=settings)
spark = builder.getOrCreate()

def frame(rows):
    return spark.createDataFrame(rows, "partition int, offset long, id long, name string, amount decimal(9, 2)")

def made(**changed):
    return [(at % 2, at // 2, at, f"name {at}", None) for at in range(200)]

source = frame(made())
ask = dict(key="id", order=("partition", "offset"))
rows = [row for row in made() if row[2] not in (7, 60)]
wrong = [*rows, (0, 100, 4, "name 4", None), (1, 101, 7, "x", None), (1, 102, 999, "", None), (0, 101, 60, "name 60", None),
         (1, 103, 999, "", None)]
wrong.remove((1, 6, 13, "name 13", None))
found = {}
for name, sink in {"copy": frame(made()[::-1]), "wrong": frame(wrong)}.items():
    report = verifiers.audit(source, sink, **ask)
    parts = ("lost", "duplicated", "wrong", "phantom", "late") if name == "wrong" else ("late",)
    frames = {part: sorted(row["id"] for row in getattr(report, part).collect()) for part in parts}
    found[name] = report.to_json() | {"frames": frames, "text": str(report), "html": len(report._repr_html_())}
sql = verifiers.audit(source, frame(made()[:100]), key="id", expected="SELECT * FROM source WHERE id < 100", columns="name")
found["sql"] = {"verdict": sql.verdict.name, "records": sql.records}

lost = frame(rows)

def said(**asked):
    try:
        return verifiers.audit(**({"source": source, "sink": lost, "key": "id"} | asked)).verdict.name
    except verifiers.AuditError as error:
        return str(error)

found["said"] = [
    said(key="ids"), said(key="explode(array(id, id))"), said(expected="SELECT nothing FROM source"),
    said(sink=source), said(key=source["id"]), said(sink=lost.withColumn("amount", F.rand())),
    said(source=source.withColumn("name", F.current_timestamp().cast("string"))),
    said(sink=spark.readStream.format("rate").load()),
]
spark.stop()
found["said"].append(said())
found |= {"version": pyspark.__version__, "loaded": loaded, "kind": type(source).__module__,
          "pandas": importlib.util.find_spec("pandas") is not None}
print("FOUND " + json.dumps(found))
"""
SERVER = """
import sys
from pyspark.sql import SparkSession

settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
            "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # few rows
            "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": sys.argv[1]}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
print("READY", flush=True)
sys.stdin.read()
"""


def environment(folder, wheel, spark, *packages):
    """The Python of an environment with the wheel, and links to other packages; and a pip for it.

    Args:
        wheel: None for an environment without this project.
        spark: the folder of packages that has PySpark and Py4J.
        packages: those of the environment that runs this test.
    """
    output_of(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet")
    if wheel:
        output_of(*pip, "--no-index", "--no-deps", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    for home, name in [(spark, "pyspark"), (spark, "py4j"), *((OURS, name) for name in packages)]:
        for path in (home / name, home / f"{name}.libs", *home.glob(f"{name}-*.dist-info")):
            if path.exists():
                (site / path.name).symlink_to(path)
    return folder / "bin" / "python", pip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"), os.environ["PATH"])


def variables(python):
    return outside(os.environ["PATH"]) | {"PYSPARK_PYTHON": str(python)}


def ran(python, tmp_path, *url):
    """What the script printed, in that environment."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [str(python), "-P", str(script), *url]
    env = variables(python)
    answer = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, env=env, cwd=tmp_path)
    lines = [line for line in answer.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, answer.stdout + answer.stderr[-8000:]
    return json.loads(lines[0].removeprefix("FOUND "))


@contextmanager
def served(tmp_path):
    """A server of Spark Connect in an environment that lacks this project; its URL."""
    python, _ = environment(tmp_path / "server", None, OURS, *ALONE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        (tmp_path / "server.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            (str(python), "-P", "-c", SERVER, str(port)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=variables(python),
            cwd=tmp_path,
        ) as server,
    ):
        try:
            assert "READY\n" in server.stdout, (tmp_path / "server.log").read_text(encoding="utf-8")[-8000:]
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.stdin.close()  # it ends then


def require_right(found):
    """The findings of the script, which are the same everywhere."""
    assert found["copy"]["verdict"] == "VALID", found["copy"]["text"]
    assert found["copy"]["frames"] == {"late": []}
    assert found["sql"] == {"verdict": "VALID", "records": 100}
    wrong = found["wrong"]
    assert (wrong["verdict"], wrong["records"], wrong["rows"]) == ("INVALID", 200, 202)
    assert wrong["frames"] == {"lost": [13], "duplicated": [4, 999], "wrong": [7], "phantom": [999, 999], "late": [4, 7, 60]}
    assert {one["verifier"]: one["count"] for one in wrong["findings"]} == {
        "duplicates": 2,
        "gaps": 1,
        "ordering": 3,
        "values": 3,
    }
    named = (
        ("key: source ", " ids;", " id?"),
        ("key explode(array(id, id)): ", " source: "),
        ("expected: ", "Spark"),
        ("source and sink ", "same frame"),
        ("key ",),
        ("column amount ", " decimal(9,2) in source ", " double in sink"),
        ("source or sink ", " read again"),
        ("sink ", "streaming frame"),
        ("the Spark session of source ", "stopped"),
    )
    for said, (start, *names) in zip(found["said"], named, strict=True):
        assert said.startswith(start), found["said"]
        assert all(name in said for name in names), said
        assert "\n" not in said


def test_classic(wheel, tmp_path):
    """The PySpark of this project, without pandas."""
    python, _ = environment(tmp_path / "venv", wheel, OURS, *ALONE)

    found = ran(python, tmp_path)

    require_right(found)
    assert (found["loaded"], found["pandas"], found["version"]) == ([], False, pyspark.__version__)


def test_pyspark_3_5(wheel, tmp_path):
    """An older one, without pandas."""
    home = artifacts.of_spark(OTHER, artifacts.ensure(print), print).spark.home.parent
    python, _ = environment(tmp_path / "venv", wheel, home, *ALONE)

    found = ran(python, tmp_path)

    require_right(found)
    assert (found["loaded"], found["pandas"], found["version"]) == ([], False, OTHER)


def test_connect(wheel, tmp_path):
    """A client of Spark Connect, with what it needs beside; neither the server nor its executors know this project."""
    python, pip = environment(tmp_path / "venv", wheel, OURS, *ALONE, *OF_CONNECT)
    output_of(*pip, *FROM_REGISTRY)

    with served(tmp_path) as url:
        found = ran(python, tmp_path, url)

    require_right(found)
    assert found["kind"] == "pyspark.sql.connect.dataframe"
