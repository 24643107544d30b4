"""Bad input, written down: what a user may type, or have on disk, that the command cannot work with.

Each is given to the installed command in a process of its own. It ends with the right exit code, and says in one line what is
wrong: no stack trace of Python or Java, no usage text. None of these starts Spark or a system.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.demo import folder as demo

CHAOS = str(Path(sys.executable).with_name("chaos"))
AT_ONCE = 4
SHARES = 6
MODULES = {
    "ends": "import sys\nsys.exit(0)",
    "leaves": "import os\nos._exit(0)",
    "broken": "def f(:",
    "raises": "raise RuntimeError('two\\nlines')",
    "empty": "",
    "number": "f = 5",
    "imports": "import nowhere.at_all",
}
SCENARIOS = {
    "old": "version: 1",
    "future": "version: 99",
    "nothing": "",
    "null": "null",
    "list": "- 1\n- 2",
    "text": "just words",
    "open": "version: [2",
    "tabs": "version: 2\n\ttopics: {}",
    "twice": "version: 2\nversion: 2",
    "unknown": "version: 2\nnosuchkey: 1",
    "number": "version: 2\nscenarios: 5",
    "reference": "version: *nothing",
    "tag": "version: !!python/object:os.system 2",
}
BYTES = {"bytes": b"\xff\xfe\x00\x01", "half": b'{"scenario": ', "null": b"null", "list": b"[]", "object": b"{}", "none": b""}
SHARED = {
    "--source": ["a"],
    "--sink": ["b"],
    "--group": "",
    "--model": "identity",
    "--identity": "dense-key",
    "--routing": "same",
}
RIGHT = {"findings": [], "problem": "", "reached": {"version": 1, "asked": SHARED}}
REPORTS = {
    "problem": (
        {**RIGHT, "problem": "no answer", "reached": None},
        "its audit judged nothing (no answer); name the report of an audit",
    ),
    "transactions": ({**RIGHT, "reached": None}, "its audit was not one of topics by a --model; "),
    "version": ({**RIGHT, "reached": {"version": 2}}, "another version of chaos wrote it; audit everything once"),
    "others": (
        {**RIGHT, "reached": {"version": 1, "asked": {**SHARED, "--source": ["c", "d"]}}},
        "--source was c, d then, and is a now",
    ),
    "model": (
        {**RIGHT, "reached": {"version": 1, "asked": {**SHARED, "--model": "m:f"}}},
        "--model was m:f then, and is identity",
    ),
    "bare": ({**RIGHT, "reached": {"version": 1}}, "--source was not given then, and is a now"),
    "much": (
        {**RIGHT, "reached": {"version": 1, "asked": SHARED, "why_not": "too much"}},
        "too much; audit everything without --since",
    ),
}
LANDED = "audit topics --landed good --model identity"
OF = "audit topics --model identity --landed"
TOPICS = "audit topics --bootstrap 127.0.0.1:9 --source a --sink b --model identity"
FOLLOW = "audit follow --bootstrap 127.0.0.1:9 --source a --sink b"
GROUPS = "audit transactions --bootstrap 127.0.0.1:9 --group g"

AUDIT = [
    ("audit topics", 2, "missing: --model"),
    ("audit --model identity --landed good", 2, "there are four commands now; write chaos audit topics"),
    ("audit --transactions --group g", 2, "there are four commands now; write chaos audit transactions"),
    ("audit --bootstrap h:1 --follow", 2, "there are four commands now; write chaos audit follow"),
    ("audit nosuchcommand", 2, "No such command 'nosuchcommand'"),
    ("audit topics --model identity", 2, "missing: --bootstrap, --source, --sink"),
    ("audit topics --landed good", 2, "missing: --model"),
    ("audit topics --landed good --expected-sql ''", 2, "missing: --model"),
    ("audit topics --landed good --model cube", 2, "must be identity, or module:function"),
    ("audit topics --landed good --model :", 2, "must be identity, or module:function"),
    ("audit topics --landed good --model f:", 2, "must be identity, or module:function"),
    ("audit topics --landed good --model nowhere:f", 2, "No module named 'nowhere'"),
    ("audit topics --landed good --model .x:f", 2, "cannot be imported"),
    ("audit topics --landed good --model ..:f", 2, "cannot be imported"),
    *[(f"audit topics --landed good --model {name}:f", 2, f"--model {name}:f: ") for name in MODULES],
    (f"{LANDED} --expected-sql 'SELECT 1'", 2, "both say what is right"),
    (f"{LANDED} --as-state", 2, "--as-state needs --expected-sql"),
    (f"{LANDED} --timers", 2, "No such option: --timers"),
    (f"{LANDED} --rows-per-record 1", 2, "No such option: --rows-per-record"),
    (f"{LANDED} --bootstrap h:1", 2, "--landed and --bootstrap: name either folders or topics"),
    (f"{LANDED} --source a", 2, "--landed and --source: name either folders or topics"),
    (f"{LANDED} --routing hash", 2, "--routing hash: must be same or any"),
    (f"{LANDED} --identity ''", 2, "names nothing"),
    (f"{LANDED} --identity '  '", 2, "names nothing"),
    (f"{LANDED} --identity header:", 2, "names nothing"),
    (f"{LANDED} --identity header:a", 2, "headers are not landed"),
    ("audit topics --landed good --expected-sql 'SELECT 1' --identity ''", 2, "names nothing"),
    ("audit topics --landed good --expected-sql 'SELECT 1' --identity header:a", 2, "rows of a query have no headers"),
    ("audit topics --landed good --expected-sql @nowhere.sql", 2, "cannot be read: No such file or directory"),
    ("audit topics --landed good --expected-sql @good", 2, "cannot be read: Is a directory"),
    ("audit topics --landed good --expected-sql @bytes.sql", 2, "cannot be read: it is not UTF-8"),
    ("audit topics --landed good --expected-sql @empty.sql", 2, "the query is empty"),
    ("audit topics --landed good --expected-sql '  '", 2, "the query is empty"),
    *[
        (f"{LANDED} --spark-master {url}", 2, "must be local[N]")
        for url in ("nonsense", "local[0]", "local[x]", "''", "http://h:1")
    ],
    (f"{LANDED} --spark-master spark://h", 2, "spark://HOST:PORT is needed"),
    (f"{LANDED} --spark-master spark://h:99999", 2, "spark://HOST:PORT is needed"),
    (f"{LANDED} --spark-master spark://127.0.0.1:1", 3, "does not answer within 10 s"),
    *[
        (f"{LANDED} --spark-conf {given}", 2, "must be NAME=VALUE, as in spark.executor.memory=8g")
        for given in ("spark.executor.memory", "spark.executor.memory=", "''", "=")
    ],
    (f"{LANDED} --spark-conf executor.memory=1g", 2, "begin with spark."),
    (f"{LANDED} --spark-conf spark.a=1 --spark-conf spark.a=2", 2, "--spark-conf spark.a is given twice"),
    (f"{LANDED} --spark-conf spark.master=local", 2, "write --spark-master"),
    (f"{LANDED} --spark-conf spark.submit.deployMode=cluster", 2, "the driver of an audit is on this machine"),
    (f"{LANDED} --spark-conf spark.sql.ansi.enabled=false", 2, "it changes the meaning of queries"),
    (f"{LANDED} --spark-conf spark.sql.legacy.x=1", 2, "it changes the meaning of queries"),
    (f"{LANDED} --json good", 2, "--json good: is a folder"),
    (f"{LANDED} --json nowhere/r.json", 2, "--json nowhere/r.json: its folder"),
    (f"{LANDED} --json empty.sql/r.json", 2, "--json empty.sql/r.json: its folder"),
    (f"{LANDED} --json ''", 2, "is a folder"),
    (f"{LANDED} --state s", 2, "No such option: --state"),
    (f"{LANDED} --window 5", 2, "No such option: --window"),
    (f"{LANDED} --nope", 2, "No such option: --nope"),
    (f"{LANDED} word", 2, "see chaos audit topics --help"),
    (f"{LANDED} --model", 2, "Option '--model' requires an argument"),
    *[(f"{OF} {name}", 2, "--landed must name the folder") for name in ("nowhere", "empty.sql", "half")],
    *[(f"{OF} '{name}'", 2, "pattern for Spark") for name in ("g*d", "go?d", "{good,half}", "[g]ood")],
    ("audit topics --model identity --landed nofiles", 2, "holds no Parquet file"),
    ("audit topics --model identity --landed schemas", 2, "its files have different schemas"),
    ("audit topics --expected-sql 'SELECT 1' --landed schemas", 2, "its files have different schemas"),
    (f"{TOPICS} --sink c", 2, "1 of --source and 2 of --sink"),
    (f"{TOPICS} --source a", 2, "--source a: is named twice"),
    (f"{TOPICS} --source c --sink a", 2, "--source and --sink a: a topic cannot be compared with itself"),
    ("audit topics --bootstrap h:1 --source a --sink a --model identity", 2, "a topic cannot be compared with itself"),
    ("audit topics --bootstrap h:1 --source a --sink a --expected-sql 'SELECT 1'", 2, "a topic cannot be compared with itself"),
    ("audit topics --bootstrap h:1 --source a --model identity", 2, "missing: --sink"),
    (f"{TOPICS} --external e.yaml", 2, "e.yaml has the addresses"),
    ("audit topics --external nowhere.yaml --source a --sink b --model identity", 2, "nowhere.yaml"),
    *[(f"{TOPICS} --spark-master {url}", 2, "needs --landing") for url in ("spark://h:7077", "yarn", "k8s://https://h:1")],
    (f"{TOPICS} --landing empty.sql", 2, "cannot be written to: Not a directory"),
    (f"{TOPICS} --landing empty.sql/x", 2, "cannot be written to: Not a directory"),
    (f"{TOPICS} --landing /proc/x", 2, "cannot be written to"),
    (f"{TOPICS} --landing 'x*'", 2, "pattern for Spark"),
    (f"{TOPICS} --since nowhere.json", 2, "--since nowhere.json: cannot be read: No such file or directory; name the report"),
    (f"{TOPICS} --since good", 2, "--since good: cannot be read: Is a directory"),
    *[
        (f"{TOPICS} --since table-{name}/run/report.json", 2, f"report.json: {why}")
        for why, names in (
            ("is not JSON", ("bytes", "half", "none")),
            ("is not the report of an audit", ("null", "list", "object")),
        )
        for name in names
    ],
    *[(f"{TOPICS} --since {name}.json", 2, f"--since {name}.json: {why}") for name, (_, why) in REPORTS.items()],
    (f"{TOPICS} --group g --since right.json", 2, "--group was not given then, and is g now"),
    (f"{TOPICS} --identity key --since right.json", 2, "--identity was dense-key then, and is key now"),
    (f"{TOPICS} --routing any --since right.json", 2, "--routing was same then, and is any now"),
    (f"{TOPICS} --since right.json", 3, "127.0.0.1:9 does not answer within 10 s"),
    (f"{LANDED} --since right.json", 2, "--landed and --since: name either folders or topics"),
    (
        "audit topics --bootstrap h:1 --source a --sink b --expected-sql 'SELECT 1' --since right.json",
        2,
        "--since and --expected-sql: a query may need",
    ),
    (TOPICS, 3, "127.0.0.1:9 does not answer within 10 s"),
]
WITHOUT_SPARK = [
    ("audit tables", 2, "missing: --source, --sink, --key"),
    ("audit tables --source good --sink parquet:x --key id", 2, "did you mean parquet:good?"),
    ("audit tables --source parquet:nowhere --sink parquet:good --key id", 2, "--source parquet:nowhere: "),
    ("audit tables --source delta:good --sink parquet:good --key id", 2, "good is no Delta table"),
    ("audit tables --source jdbc:postgresql://127.0.0.1:9/x --sink parquet:good --key id", 2, "name the table behind #"),
    ("audit tables --source jdbc:postgresql://127.0.0.1:9/x#t --sink parquet:good --key id", 3, "the database does not answer"),
    ("audit tables --source topic:a --sink parquet:good --key id", 2, "missing: --bootstrap"),
    ("audit tables --model identity", 2, "No such option: --model"),
    (f"{GROUPS} --model identity", 2, "No such option: --model"),
    (f"{GROUPS} --source a", 2, "No such option: --source"),
    (f"{GROUPS} --identity key", 2, "No such option: --identity"),
    (f"{GROUPS} --routing any", 2, "No such option: --routing"),
    ("audit transactions", 2, "missing: --bootstrap, --group"),
    ("audit transactions --group g", 2, "missing: --bootstrap"),
    ("audit transactions --landed x --group g", 2, "either a folder or a cluster"),
    ("audit transactions --landed nowhere", 2, "nowhere"),
    *[(f"{GROUPS} --rows-per-record {rows}", 2, f"--rows-per-record {rows}: ") for rows in ("x", "-1", "2..1", "1..")],
    ("audit follow", 2, "missing: --bootstrap, --source, --sink"),
    ("audit follow --bootstrap h:1 --source a --sink a", 2, "a topic cannot be compared with itself"),
    (f"{FOLLOW} --landed good", 2, "No such option: --landed"),
    (f"{FOLLOW} --landing x", 2, "No such option: --landing"),
    (f"{FOLLOW} --transactions", 2, "No such option: --transactions"),
    (f"{FOLLOW} --expected-sql 'SELECT 1'", 2, "No such option: --expected-sql"),
    (f"{FOLLOW} --identity 'left(key, 1)'", 2, "takes no SQL"),
    (f"{FOLLOW} --identity header:", 2, "the name of the header is missing"),
    (f"{FOLLOW} --identity 'header: '", 2, "the name of the header is missing"),
    (f"{FOLLOW} --identity ''", 2, "names nothing"),
    (f"{FOLLOW} --as-state", 2, "No such option: --as-state"),
    (f"{FOLLOW} --window x", 2, "see chaos audit follow --help"),
    (f"{FOLLOW} --json nowhere/r.json", 2, "--json nowhere/r.json: its folder"),
    (f"{FOLLOW} --external e.yaml", 2, "e.yaml has the addresses"),
    (f"{GROUPS} --as-state", 2, "No such option: --as-state"),
    (f"{GROUPS} --json nowhere/r.json", 2, "--json nowhere/r.json: its folder"),
    (f"{GROUPS} --sink a --shared-sink a", 2, "a topic cannot be both the application's alone and shared"),
    (f"{FOLLOW} --model square", 2, "must be identity"),
    (f"{FOLLOW} --model ends:f", 2, "must be identity"),
    *[(f"{FOLLOW} --for {text}", 2, "is not a duration") for text in ("x", "0s", "-5s", "10", "1e9s", "99999999h")],
    (f"{FOLLOW} --overdue never", 2, "is not a duration"),
    (f"{FOLLOW} --every ''", 2, "is not a duration"),
    *[(f"{FOLLOW} --window {rows}", 2, "must be 1000 to") for rows in (0, -1, 999, 99999999999999, 10**30)],
    (f"{FOLLOW} --from later", 2, "must be beginning or now"),
    (f"{FOLLOW} --metrics 0.0.0.0:1", 2, "must be a loopback address"),
    (f"{FOLLOW} --metrics 127.0.0.1:99999", 2, "must be a loopback address"),
    (f"{FOLLOW} --metrics-file good", 2, "--metrics-file good: is a folder"),
    (f"{FOLLOW} --state nowhere/s", 2, "--state nowhere/s: its folder"),
    (f"{FOLLOW} --state /dev/null", 2, "--state /dev/null: is a device"),
    (f"{FOLLOW} --state fifo", 2, "--state fifo: is a pipe"),
]
OTHERS = [
    ("nosuchcommand", 2, "No such command 'nosuchcommand'"),
    ("--nope", 2, "No such option"),
    *[(f"plan -s {name}.yaml", 2, f"{name}.yaml:") for name in SCENARIOS],
    ("plan -s nowhere.yaml", 2, "nowhere.yaml: cannot be read: No such file or directory"),
    ("plan -s good", 2, "cannot be read: Is a directory"),
    ("plan -s bytes.sql", 2, "bytes.sql"),
    ("plan --seed x", 2, "see chaos plan --help"),
    ("plan word", 2, "word: cannot be read"),
    ("judge", 2, "Missing argument 'run'"),
    ("judge nowhere", 2, "does not exist"),
    ("judge empty.sql", 2, "see chaos judge --help"),
    ("judge good", 3, "scenario.json is missing"),
    *[(f"judge run-{name}", 3, "scenario.json is damaged (") for name in BYTES],
    ("table nowhere", 2, "does not exist"),
    ("table empty.sql", 2, "see chaos table --help"),
    ("table nofiles", 3, "holds no run directory"),
    *[(f"table table-{name}", 3, "report.json cannot be read") for name in BYTES],
    *[(f"table table-{name} --markdown", 3, "report.json cannot be read") for name in ("bytes", "half")],
    ("table nofiles --nope", 2, "No such option"),
    ("report", 2, "Missing argument 'runs'"),
    ("report nowhere", 2, "does not exist"),
    ("report empty.sql", 2, "see chaos report --help"),
    ("report nofiles", 3, "holds no run directory"),
    ("report nofiles good", 2, "several runs need --html PATH"),
    ("report nofiles --html x.txt", 2, "a file that ends in .html is needed"),
    ("report nofiles --html nowhere/x.html", 2, "its folder is not there"),
    ("report nofiles --nope", 2, "No such option"),
    ("up --brokers 2", 2, "greater than or equal to 3"),
    ("up --brokers 6", 2, "less than or equal to 5"),
    ("up --workers 0", 2, "see chaos up --help"),
    ("up --restart-after -1", 2, "see chaos up --help"),
    ("up --brokers x", 2, "see chaos up --help"),
    ("up word", 2, "see chaos up --help"),
    ("schema word", 2, "see chaos schema --help"),
    ("reference --nope", 2, "see chaos reference --help"),
    ("faults word", 2, "see chaos faults --help"),
    ("doctor --nope", 2, "see chaos doctor --help"),
    ("parts --go-fuzz -1", 2, "see chaos parts --help"),
    ("init --kind container", 2, "see chaos init --help"),
    ("init --file bytes.sql --kind command -- python3 x", 2, "exists already"),
    ("init --file nowhere/s.yaml --kind command -- python3 x", 2, "nowhere/s.yaml: its folder"),
    ("init --kind command", 2, "chaos init: "),
    ("init --kind spark-submit", 2, "chaos init: "),
    ("demo word", 2, "see chaos demo --help"),
    ("demo --into good", 2, "chaos demo: good: is not empty, and is not the folder of an earlier demo"),
    ("demo --into .", 2, "chaos demo: .: is not empty"),
    ("demo --into theirs", 2, "chaos demo: theirs: is not empty"),
    ("demo --into changed", 2, "chaos demo: changed/copy_in_steps.py: differs from the file of this demo"),
    ("demo --into empty.sql", 2, "chaos demo: empty.sql: is a file"),
    ("demo --into fifo", 2, "chaos demo: fifo: is a file"),
    ("demo --into empty.sql/demo", 2, "chaos demo: empty.sql/demo: cannot be written: Not a directory"),
    ("demo --into /proc/demo", 2, "chaos demo: /proc/demo: cannot be written"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working directory with everything in it that the inputs name."""
    folder = tmp_path_factory.mktemp("bad")
    columns = {"partition": pa.int32(), "offset": pa.int64(), "key": pa.string(), "value": pa.string()}
    other = columns | {"key": pa.binary()}
    for name, sides in {"good": ("source", "sink"), "schemas": ("source", "sink"), "half": ("source",)}.items():
        for side in sides:
            _log(folder / name / side, "part-0.parquet", columns)
    _log(folder / "schemas" / "sink", "part-1.parquet", other)
    for side in ("source", "sink"):
        (folder / "nofiles" / side).mkdir(parents=True)
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    for name, text in SCENARIOS.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name, content in BYTES.items():
        (folder / f"run-{name}").mkdir()
        (folder / f"run-{name}" / "scenario.json").write_bytes(content)
        (folder / f"table-{name}" / "run").mkdir(parents=True)
        (folder / f"table-{name}" / "run" / "report.json").write_bytes(content)
    for name, report in {"right": RIGHT, **{name: report for name, (report, _) in REPORTS.items()}}.items():
        (folder / f"{name}.json").write_text(json.dumps(report), encoding="utf-8")
    (folder / "theirs").mkdir()
    (folder / "theirs" / "scenarios.yaml").write_bytes(b"\xff\xfe")
    demo.write(folder / "changed")
    (folder / "changed" / "copy_in_steps.py").write_text("mine\n", encoding="utf-8")
    (folder / "bytes.sql").write_bytes(b"\xff\xfe")
    (folder / "empty.sql").touch()
    os.mkfifo(folder / "fifo")
    return folder


def _log(folder, name, columns):
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({column: pa.array([], kind) for column, kind in columns.items()}), folder / name)


ALL = (*AUDIT, *WITHOUT_SPARK, *OTHERS)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [0, *(pytest.param(number, marks=pytest.mark.nightly) for number in range(1, SHARES))])
def test_bad_input(place, first):
    """The right exit code, and one line that says what is wrong; of a scenarios file, one line for each error.

    A process takes a second of a processor, most of it for imports: the gate asks every sixth, the night all of them.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = [problem for problem in pool.map(lambda one: _problem(place, *one), ALL[first::SHARES]) if problem]

    assert not problems, "\n".join(problems)


def test_a_demo_without_a_network_says_which_parts_are_missing(tmp_path):
    """After a line that says what is fetched; its folder is not made."""
    empty, place = tmp_path / "cache", tmp_path / "place"
    place.mkdir()

    done = _ended(place, "demo", CHAOS_CACHE=str(empty), CHAOS_MAVEN_MIRROR="http://127.0.0.1:1/")

    assert (done.returncode, list(place.iterdir())) == (4, [])
    assert "parts are missing" in done.stdout.splitlines()[0]
    (line,) = done.stderr.splitlines()
    assert re.match(r"chaos: the cache lacks jars \(\d+: .*\), and Maven Central cannot be reached; .*CHAOS_CACHE", line)


def test_a_demo_without_java_says_how_it_is_had(tmp_path):
    done = _ended(tmp_path, "demo", JAVA_HOME=str(tmp_path / "nowhere"))

    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (4, "", [])
    assert re.fullmatch(r"chaos: JAVA_HOME=\S+ holds no bin/java; install a JDK, .*\n", done.stderr)


def _problem(place, words, code, says):
    """The mistake in how the command ends; empty if there is none."""
    done = _ended(place, words)
    lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    is_said = len(lines) == 1 or (lines and all(line.startswith(says) for line in lines) and says.endswith(".yaml:"))
    found = (done.returncode, is_said, says in "".join(lines))
    return "" if found == (code, True, True) else f"chaos {words}: {done.returncode}, not {code} with {says!r}: {lines[:9]}"


def _ended(place, words, **variables):
    """The installed command, in a process of its own."""
    env = {name: value for name, value in os.environ.items() if name not in {"HADOOP_CONF_DIR", "YARN_CONF_DIR"}}
    return subprocess.run(
        [CHAOS, *shlex.split(words)],
        cwd=place,
        env=env | {"PYTHONDONTWRITEBYTECODE": "1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_there_are_a_hundred_bad_inputs():
    """Each once."""
    words = [one for one, _, _ in ALL]

    assert len(set(words)) == len(words) > 150
