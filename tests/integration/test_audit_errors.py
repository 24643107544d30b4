"""An audit that cannot judge ends with 3 and a report that says why; the installed command runs in its own process.

In one process with a living JVM all of these were right, and in a process of their own a stack trace with exit code 1.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

CHAOS = str(Path(sys.executable).with_name("chaos"))
SCHEMA = {"partition": pa.int32(), "offset": pa.int64(), "key": pa.string(), "value": pa.string()}
MODELS = """
from pyspark.sql import functions as F
def square(value): return (value.cast("decimal(38, 0)") * value.cast("decimal(38, 0)")).cast("string")
def parses(value): return F.udf(lambda text: str(int(text)))(value)
def leaves(value): return F.udf(lambda text: __import__("os")._exit(0))(value)
def says(value):
    print("hello from the model")
    return value
"""


def land(folder, values, keys=None):
    """Both logs, with these values, and keys of any bytes."""
    count = len(values)
    binary = pa.array(keys or [b"%d" % number for number in range(count)], pa.binary())
    key = pa.Array.from_buffers(pa.string(), count, binary.buffers())
    numbers = (pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64()))
    for side, rows in (("source", count), ("sink", count - 1)):
        place = folder / side
        place.mkdir(parents=True)
        columns = (*numbers, key, pa.array(values, pa.string()))
        parquet.write_table(pa.table(dict(zip(SCHEMA, columns, strict=True))).slice(0, rows), place / "part-0.parquet")


def audited(tmp_path, *words):
    """The exit code, the report, the lines that are shown, and those of standard error."""
    (tmp_path / "own_models.py").write_text(MODELS, encoding="utf-8")
    done = subprocess.run(
        [CHAOS, "audit", "topics", *words, "--json", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert not any(line.startswith("\tat ") for line in said)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, said


NUMBERS = [str(number) for number in range(20)]
OTHERS = [
    pytest.param(["9" * 20] * 20, ["--model", "own_models:square"], "[NUMERIC_VALUE_OUT_OF_RANGE", id="too large"),
    pytest.param(
        ["x1"] * 20, ["--model", "own_models:parses"], "ValueError: invalid literal for int()", id="function of Python"
    ),
    pytest.param(NUMBERS, ["--model", "own_models:leaves"], "Spark failed: ", id="worker that ends"),
    pytest.param(NUMBERS, ["--model", "identity", "--identity", "raise_error(key)"], "[USER_RAISED_EXCEPTION]", id="identity"),
    pytest.param(NUMBERS, ["--model", "identity", "--spark-master", "yarn"], "its JVM did not start (", id="master"),
]


@pytest.mark.parametrize(
    ("values", "words", "problem"),
    [
        pytest.param(["x1"] * 20, ["--model", "own_models:square"], "[CAST_INVALID_INPUT] The value 'x1'", id="no number"),
        *[pytest.param(*one.values, id=one.id, marks=pytest.mark.nightly) for one in OTHERS],
    ],
)
def test_spark_that_fails_is_unknown(tmp_path, values, words, problem):
    """One line, and the same in the report."""
    land(tmp_path / "logs", values)

    code, report, said = audited(tmp_path, "--landed", "logs", *words)

    assert (code, report["verdict"], report["findings"], len(said)) == (3, "UNKNOWN", [], 1)
    assert problem in report["problem"]
    assert said == [f"UNKNOWN: {report['problem']}"]


@pytest.mark.nightly
@pytest.mark.parametrize("url", ["s3://bucket/x", "nosuch://x"])
def test_a_file_system_that_spark_does_not_have(tmp_path, url):
    code, report, said = audited(tmp_path, "--landed", url, "--model", "identity")

    assert (code, report["verdict"], len(said)) == (3, "UNKNOWN", 1)
    assert "No FileSystem for scheme" in report["problem"]


@pytest.mark.nightly
def test_a_damaged_page(tmp_path):
    land(tmp_path / "logs", NUMBERS)
    file = tmp_path / "logs" / "sink" / "part-0.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:20] + b"\xff" * 180 + content[200:])

    code, report, said = audited(tmp_path, "--landed", "logs", "--model", "identity", "--identity", "key")

    assert (code, report["verdict"], len(said)) == (3, "UNKNOWN", 1)
    assert "part-0.parquet" in report["problem"]


def test_keys_that_are_no_text(tmp_path):
    """Anomalies are found and named, whatever bytes the keys are."""
    land(tmp_path / "logs", NUMBERS, [bytes([255, 254, number]) for number in range(20)])

    code, report, _ = audited(tmp_path, "--landed", "logs", "--model", "own_models:says", "--identity", "key")

    (gaps,) = [finding for finding in report["findings"] if finding["verifier"] == "gaps"]
    assert (code, gaps["verdict"], gaps["count"]) == (1, "INVALID", 1)
    assert gaps["examples"][0]["id"] is not None


@pytest.mark.nightly
@pytest.mark.parametrize("stdout", ["closed", "gone", "/dev/full"])
def test_standard_output_decides_nothing(tmp_path, stdout):
    """The report is there, and the exit code is that of the verdict: INVALID here."""
    land(tmp_path / "logs", NUMBERS)
    report = tmp_path / "report.json"
    argv = [CHAOS, "audit", "topics", "--landed", "logs", "--model", "identity", "--json", str(report)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        if stdout == "closed":
            argv, target = ["/bin/sh", "-c", 'exec "$0" "$@" >&-', *argv], None
        else:
            target = writer if stdout == "gone" else os.open("/dev/full", os.O_WRONLY)
        done = subprocess.run(argv, stdout=target, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=900, check=False)
    finally:
        os.close(writer)

    assert (done.returncode, json.loads(report.read_text(encoding="utf-8"))["verdict"]) == (1, "INVALID")
    assert "Traceback" not in done.stderr
