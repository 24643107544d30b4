"""The options of `chaos audit topics`, and the report and the messages of every audit.

What an audit finds is tested with Spark in tests/planted/test_audit.py.
"""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from chaos.audit import command, dense_keys, logs, prepared, query
from chaos.audit import identity as audit_identity
from chaos.audit.command import Audit
from chaos.audit.follow.command import OfFollowing
from chaos.audit.logs import AuditUsageError, Topics
from chaos.audit.master import require_master
from chaos.audit.topics import OfTopics
from chaos.audit.transactions import OfTransactions
from chaos.audit.where import Where
from chaos.cli import main
from chaos.common.errors import InconclusiveError
from chaos.report.summary import as_text
from tests.unit.wording import keep, raised
from verifiers.base import Example, Finding, Verdict

LANDED = OfTopics(Where(landed="logs"), model="identity", master="local[2]")
TOPICS = replace(LANDED, where=Where("127.0.0.1:9"), source=("in",), sink=("out",))
WRONG = Finding(
    "values",
    "sink",
    Verdict.INVALID,
    count=1,
    checked=9,
    counts={"wrong value": 1},
    examples=(Example("wrong value", 2, 5, 7, 1000, "value 50, expected 49"),),
)
RIGHT = Finding("gaps", "sink", Verdict.VALID, count=0, checked=9, counts={"lost": 0})


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (
            replace(LANDED, where=Where("h:1", landed="logs"), group="g"),
            "--landed --bootstrap, --group",
        ),
        (replace(LANDED, where=Where()), "--bootstrap, --source, --sink --landed"),
        (replace(TOPICS, sink=()), "--sink"),
        (replace(TOPICS, where=Where("h:1", "e.yaml")), "--external --bootstrap e.yaml"),
        (replace(LANDED, where=Where("", "e.yaml", "logs")), "--landed --external"),
        (replace(LANDED, where=Where(landed="logs", landing="l")), "--landed --landing"),
        (replace(LANDED, identity="header:trace"), "--identity header:NAME"),
        (replace(LANDED, model=""), "--model, --expected-sql: transactions"),
        (replace(LANDED, expected="SELECT 1"), "--model --expected-sql:"),
        (replace(LANDED, state=True), "--as-state --expected-sql"),
        (
            replace(TOPICS, model="", expected="SELECT 1", identity="header:trace"),
            "--identity header:NAME --expected-sql:",
        ),
        (replace(LANDED, routing="hash"), "--routing hash: same any"),
        (replace(TOPICS, source=("a", "b", "a")), "--source a: twice"),
        (replace(TOPICS, source=("a", "b")), "2 --source 1 --sink: --routing any"),
        (
            replace(TOPICS, source=("a", "in"), sink=("b", "a")),
            "--source --sink a:",
        ),
        (replace(LANDED, identity=""), "--identity '':"),
        (replace(LANDED, identity=" "), "--identity ' ':"),
        (replace(TOPICS, identity="header:"), "--identity 'header:':"),
        (replace(LANDED, model="", expected="SELECT 1", identity=""), "--identity '':"),
    ],
)
def test_too_much_or_too_little(asked, names):
    """Either folders or topics, and of those all three."""
    with raised(AuditUsageError, *names.split(" ")):
        asked.check()


@pytest.mark.parametrize(("sinks", "routing"), [(("x", "y"), "same"), (("x",), "any")])
def test_several_topics(sinks, routing):
    """As many on both sides, or any number of them where a record may be anywhere."""
    replace(TOPICS, source=("a", "b"), sink=sinks, routing=routing).check()


def test_a_topic_for_each_time_an_option_is_given(monkeypatch, tmp_path):
    """In their order, for the first source belongs to the first sink."""
    asked = []
    monkeypatch.setattr(command, "main", lambda way, *_: asked.append(way) or 0)
    words = "audit topics --bootstrap h:1 --source b --source a --sink x --sink y --model identity --json"

    answer = CliRunner().invoke(main.app, [*words.split(), str(tmp_path / "report.json")])

    assert (answer.exit_code, asked[0].source, asked[0].sink) == (0, ("b", "a"), ("x", "y"))


def test_topics_of_which_a_query_is_asked():
    """They are landed with their own keys, as exactly as the query sees them; it says itself what identifies a row."""
    asked = replace(TOPICS, model="", expected="SELECT 1", identity="left(value, 3)")

    assert asked.topics == Topics("127.0.0.1:9", ("in",), ("out",), exact=True)


def test_what_is_asked_for():
    """A header is read when the topics are landed, and its name may hold a quotation mark; without a group none is asked."""
    of_header = replace(TOPICS, identity="header:it's").topics

    assert "'it\\'s'" in keep(of_header.identity)
    assert of_header == Topics("127.0.0.1:9", ("in",), ("out",), "", of_header.identity)
    assert replace(TOPICS, identity="left(value, 3)").topics.identity == "left(value, 3)"
    assert (TOPICS.topics, LANDED.topics) == (Topics("127.0.0.1:9", ("in",), ("out",), "", "key"), None)


SECURED = """\
version: 1
bootstrap: ["127.0.0.1:1"]
prefix: chaos-alice-
"""


def test_a_declared_cluster_that_does_not_answer(tmp_path):
    """The audit is UNKNOWN, and the message says where to look."""
    path = tmp_path / "external.yaml"
    path.write_text(SECURED, encoding="utf-8")

    done = replace(TOPICS, where=Where(external=str(path))).run(print)

    assert done.verdict is Verdict.UNKNOWN
    assert done.problem.startswith("no broker of 127.0.0.1:1 answers: ")
    assert done.problem.endswith("check bootstrap, tls and sasl in the external file, and the network")


COPY = {"demanded": audit_identity.model("identity")}


@pytest.mark.parametrize(
    ("identity", "routing", "asked"),
    [
        ("dense-key", "same", ("dense", COPY)),
        ("dense-key", "any", ("by_key", {**COPY, "anywhere": True})),
        ("key", "same", ("by_key", {**COPY, "anywhere": False})),
    ],
)
def test_dense_keys_are_keys_like_others_by_any_routing(monkeypatch, identity, routing, asked):
    """The partition in which they rise gives their order."""
    for module, name in ((dense_keys, "dense"), (prepared, "by_key")):
        monkeypatch.setattr(module, name, lambda _logs, name=name, **words: (name, words))

    assert replace(LANDED, identity=identity, routing=routing).question().ask(None) == asked


@pytest.mark.parametrize(("identity", "beside"), [("dense-key", ""), ("key", ""), ("substr(value, 2)", "substr(value, 2)")])
def test_rows_of_a_query_have_their_keys_already(monkeypatch, identity, beside):
    """Only SQL identifies them beside their keys."""
    monkeypatch.setattr(query, "by_model", lambda _logs, asked, **_how: asked.identity)
    question = replace(LANDED, model="", expected="SELECT key, value FROM source", identity=identity).question()

    assert question.ask(None) == beside


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("cube", ("identity", "module:function")),
        ("nowhere:f", ("ModuleNotFoundError", "'nowhere'")),
        ("math:nothing", (": nothing ", " in math;")),
    ],
)
def test_a_model_that_is_not_there(name, names):
    """The message comes before anything is started."""
    with raised(AuditUsageError, f"--model {name}: ", *names):
        audit_identity.model(name)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "spark://127.0.0.1:1,127.0.0.1:{port}", "local[2]", "yarn"])
def test_a_master_that_answers(master):
    """One address of several is enough; other masters than Spark's standalone one are not asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_master(master.format(port=server.getsockname()[1]))


def test_a_master_that_does_not_answer():
    """The message comes before Spark is started, and before the logs are looked at."""
    asked = replace(LANDED, master="spark://127.0.0.1:1,127.0.0.1:2")

    done = asked.run(print)

    assert done.verdict is Verdict.UNKNOWN
    assert done.problem.startswith("--spark-master spark://127.0.0.1:1,127.0.0.1:2 does not answer within 10 s: is it up")


@pytest.mark.parametrize("master", ["spark://there", "spark://there:", "spark://there:65536", "spark://127.0.0.1:1,there"])
def test_a_master_without_a_port(master):
    """The message says what is missing."""
    with pytest.raises(AuditUsageError, match=f"--spark-master {master}: spark://HOST:PORT is needed"):
        replace(LANDED, master=master).run(print)


def test_a_master_whose_name_cannot_be_one():
    """Nothing can answer there."""
    with pytest.raises(InconclusiveError, match=r"spark://a\.\.b:7077 does not answer"):
        require_master("spark://a..b:7077")


@pytest.mark.parametrize(
    ("findings", "problem", "verdict", "code"),
    [
        ((RIGHT,), "", Verdict.VALID, 0),
        ((RIGHT, WRONG), "", Verdict.INVALID, 1),
        ((), "no broker", Verdict.UNKNOWN, 3),
        ((RIGHT, replace(RIGHT, verdict=Verdict.UNKNOWN)), "", Verdict.UNKNOWN, 3),
    ],
)
def test_the_worst_finding_decides(findings, problem, verdict, code):
    """And nothing at all is UNKNOWN."""
    done = Audit(findings, 18, 2.0, problem)

    assert (done.verdict, done.verdict.exit_code) == (verdict, code)


def test_the_report(tmp_path):
    """Its fields are those that are documented, and a draft is not left behind."""
    command.write(tmp_path / "report.json", Audit((RIGHT, WRONG), 18, 2.0))

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert {name: report[name] for name in ("verdict", "records", "seconds", "records_per_second")} == {
        "verdict": "INVALID",
        "records": 18,
        "seconds": 2.0,
        "records_per_second": 9,
    }
    values = report["findings"][1]
    assert (values["verifier"], values["verdict"], values["count"], values["checked"]) == ("values", "INVALID", 1, 9)
    example = {name: values["examples"][0][name] for name in ("id", "partition", "offset", "detail")}
    assert example == {"id": 7, "partition": 2, "offset": 5, "detail": "wrong value: value 50, expected 49"}


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path):
    """It is renamed into place only when it is whole."""
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")
    (tmp_path / ".report.json.draft").mkdir()

    with pytest.raises(IsADirectoryError):
        command.write(path, Audit((RIGHT,), 18, 2.0))

    assert path.read_text(encoding="utf-8") == "old"


def test_what_people_see():
    """Each finding, its first records, and the speed; or why there is none."""
    told = as_text(command.table(Audit((RIGHT, WRONG), 18, 2.0), 100), width=100, colour=False)

    assert "values: wrong value: id 7, partition 2 offset 5: value 50, expected 49" in told
    assert told.rstrip().splitlines()[-1] == "INVALID: 18 records in 2.0\xa0s, 9 records/s"
    failed = as_text(command.table(Audit(problem="no broker"), 100), width=100, colour=False)
    assert failed.strip() == "UNKNOWN: no broker"
    unasked = Finding("ordering", "sink", Verdict.VALID, 0, 0, note="it has no order", asked=False)
    told = as_text(command.table(Audit((RIGHT, unasked), 18, 2.0), 100), width=100, colour=False)
    assert "not asked" in next(line for line in told.splitlines() if line.split()[:1] == ["ordering"])
    assert "ordering: it has no order" in told


def test_a_broker_that_does_not_answer(monkeypatch):
    """The wait is bounded, and the message names the broker."""
    monkeypatch.setattr(logs, "ASK_S", 0.3)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"127.0.0.1:{deaf.getsockname()[1]}"

        with pytest.raises(InconclusiveError, match=rf"{address} does not answer within 0\.3 s"):
            logs.fix(Topics(address, ("in",), ("out",)))


def test_an_unreachable_broker_is_unknown_and_reported(tmp_path, monkeypatch):
    """Exit code 3, and a whole report that says why; no Spark is started for it."""
    monkeypatch.setattr(logs, "ASK_S", 0.3)
    report = tmp_path / "report.json"
    words = [
        "audit",
        "topics",
        "--bootstrap",
        "127.0.0.1:9",
        "--source",
        "in",
        "--sink",
        "out",
        "--model",
        "identity",
        "--json",
    ]

    answer = CliRunner().invoke(main.app, [*words, str(report)])

    assert (answer.exit_code, "127.0.0.1:9 does not answer" in answer.output) == (3, True)
    found = json.loads(report.read_text(encoding="utf-8"))
    assert (found["verdict"], found["findings"], found["records"]) == ("UNKNOWN", [], 0)
    assert found["problem"].startswith("127.0.0.1:9 does not answer")


def test_wrong_usage_leaves_no_report(tmp_path):
    """Exit code 2, one message."""
    report = tmp_path / "report.json"

    answer = CliRunner().invoke(main.app, ["audit", "topics", "--landed", "logs", "--model", "cube", "--json", str(report)])

    assert (answer.exit_code, answer.output.count("\n"), report.exists()) == (2, 1, False)
    assert keep(answer.output).startswith("chaos audit topics: --model cube: ")


WAYS = (
    LANDED,
    OfTransactions(Where("127.0.0.1:9"), "g"),
    OfFollowing(Where("127.0.0.1:9"), ("in",), ("out",)),
)


@pytest.mark.parametrize("report", ["", "nowhere/report.json"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_report_that_has_no_place(monkeypatch, tmp_path, way, report):
    """Every audit says so before it looks at its options, or asks a cluster or a folder."""
    for step in ("check", "run"):
        monkeypatch.setattr(type(way), step, lambda *_: pytest.fail("the report comes first"))
    told: list[str] = []

    code = command.main(way, tmp_path / report, told.append)

    assert (code, len(told)) == (2, 1)
    assert keep(told[0]).startswith(f"chaos audit {way.name}: --json {tmp_path / report}: ")


@pytest.mark.parametrize("words", ["topics --landed logs --model identity", "transactions --landed logs", "follow"])
def test_every_command_has_a_report(tmp_path, words):
    """Each hands the file over."""
    report = tmp_path / "nowhere" / "report.json"

    answer = CliRunner().invoke(main.app, ["audit", *words.split(), "--json", str(report)])

    assert (answer.exit_code, answer.output.count("\n")) == (2, 1), answer.output
    assert keep(answer.output.strip()).startswith(f"chaos audit {words.split()[0]}: --json {report}: ")


def test_a_report_that_cannot_be_written(tmp_path, monkeypatch):
    """The findings are still shown, and the exit code is not that of a verdict."""
    monkeypatch.setattr(OfTopics, "run", lambda _asked, _echo: Audit((RIGHT,), 18, 2.0))
    report = tmp_path / ("a" * 250)  # the draft beside it is longer than a file's name may be

    answer = CliRunner().invoke(main.app, ["audit", "topics", "--landed", "logs", "--model", "identity", "--json", str(report)])

    assert (answer.exit_code, "VALID: 18 records" in answer.output) == (2, True)
    assert answer.output.endswith(f"chaos audit topics: --json {report}: cannot be written: File name too long\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("report", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_report_on_standard_output_is_alone_there(monkeypatch, capsys, report):
    """Text for people goes to standard error, as does the progress."""
    monkeypatch.setattr(OfTopics, "run", lambda _asked, echo: echo("fetching …") or Audit((RIGHT,), 18, 2.0))

    code = command.main(LANDED, Path(report), print)

    out, err = capsys.readouterr()
    assert (code, json.loads(out)["verdict"]) == (0, "VALID")
    assert "fetching …" in err
    assert "VALID: 18 records" in err


def test_no_report_is_needed(monkeypatch, capsys):
    """The exit code and the table say the same."""
    monkeypatch.setattr(OfTopics, "run", lambda _asked, _echo: Audit((WRONG,), 18, 2.0))

    assert command.main(LANDED, None, print) == 1
    assert "INVALID: 18 records" in capsys.readouterr().out


def test_the_report_is_there_before_anything_is_shown(monkeypatch, tmp_path):
    """Whatever becomes of the terminal."""
    report = tmp_path / "report.json"
    monkeypatch.setattr(OfTopics, "run", lambda _asked, _echo: Audit((RIGHT,), 18, 2.0))
    monkeypatch.setattr(command, "table", lambda *_: json.loads(report.read_text(encoding="utf-8"))["verdict"])

    assert command.main(LANDED, report, print) == 0


def landed(folder, rows):
    """A landed pair, of so many rows on either side, in two files each; and what Spark leaves beside them."""
    for name in ("source", "sink"):
        (folder / name).mkdir(parents=True)
        (folder / name / "_SUCCESS").touch()
        for number in range(2):
            parquet.write_table(pa.table({"offset": range(rows)}), folder / name / f"part-{number}.parquet")


def test_records_are_counted_before_spark_starts(tmp_path):
    """By the footers of the files, so that few records are read by a session that starts quickly."""
    landed(tmp_path / "logs", 7)

    assert logs.counted(str(tmp_path / "logs")) == 28


@pytest.mark.parametrize("file", ["other", "part-0.parquet"])
def test_a_file_that_is_not_parquet(tmp_path, file):
    """How many records there are is not known; Spark is asked, and says what is wrong."""
    landed(tmp_path, 7)
    (tmp_path / "sink" / file).write_text("no Parquet")

    assert logs.counted(str(tmp_path)) is None


@pytest.mark.parametrize("place", ["nowhere", "s3a://bucket/logs"])
def test_no_folder_that_we_can_read(place):
    """Perhaps Spark can."""
    assert logs.counted(place) is None
