"""Interrupts and errors in a judge's Spark session; a fake stands in for the session, and its clean-ups fail at will."""

import logging
import os
import signal
import sys
from contextlib import suppress
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Event
from types import SimpleNamespace

import psutil
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger

from chaos.install import spark_versions
from chaos.judging import sizes, spark_session
from chaos.judging.spark_session import SparkFailedError
from tests.unit.wording import keep, raised
from verifiers.base import Bounds


def start(stop=lambda: None, answers=lambda _name: "chaos", accumulators=lambda: None):
    """A session that takes Ctrl-C for itself, as Spark does, and ends its server of accumulators if it has one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server, conf = SimpleNamespace(shutdown=accumulators), SimpleNamespace(get=answers)
    context = SimpleNamespace(setLogLevel=lambda _level: None, _accumulatorServer=server)

    def stopped():
        stop()
        if context._accumulatorServer:
            context._accumulatorServer.shutdown()

    return SimpleNamespace(sparkContext=context, conf=conf, stop=stopped)


def suited(conf, cores=2):
    """A session whose settings go into a dictionary."""
    return SimpleNamespace(conf=SimpleNamespace(set=conf.__setitem__), sparkContext=SimpleNamespace(defaultParallelism=cores))


def fails():
    """Fail like any call on a connection that was cut."""
    raise Py4JNetworkError("Answer from Java side is empty")


def cleans_up(error, then):
    """Work that fails, and whose clean-up fails as well."""
    with spark_session.held(start):
        try:
            raise error
        finally:
            raise then


def test_ctrl_c_stays_with_the_command():
    """Spark's own handler asks the JVM, perhaps in the middle of another answer."""
    before = signal.getsignal(signal.SIGINT)

    with spark_session.held(start):
        assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_a_clean_up_hides_is_an_interrupt():
    """And not a JVM that has ended, which would be a verdict."""
    with pytest.raises(KeyboardInterrupt):
        cleans_up(KeyboardInterrupt(), Py4JNetworkError("Answer from Java side is empty"))


@pytest.mark.parametrize(
    "error", [Py4JError("no"), Py4JNetworkError("no"), AnalysisException("no"), ConnectionResetError("no")]
)
def test_an_error_of_spark_is_put_into_words_where_it_is_raised(error):
    """Its words come from the JVM, which has ended when the session is left; also where another error came before it."""
    with pytest.raises(SparkFailedError, match=r"Spark failed: .*no") as raised:
        cleans_up(ValueError(), error)

    assert raised.value.__cause__ is error


def test_the_words_are_made_before_the_session_ends():
    """PySpark's own errors have no text any more once its JVM is gone."""
    stopped = []

    class Asks(AnalysisException):
        def __str__(self):
            assert not stopped, "the JVM is gone"
            return "no"

    with (
        pytest.raises(SparkFailedError, match="Spark failed: no"),
        spark_session.held(lambda: start(lambda: stopped.append(1))),
    ):
        raise Asks("no")

    assert stopped


def test_a_session_that_cannot_be_stopped_has_ended():
    """Its JVM was killed: what it had answered is worth what it was."""
    with spark_session.held(lambda: start(stop=fails)):
        pass


@pytest.mark.parametrize("stop", [lambda: None, fails])
def test_the_server_of_accumulators_is_ended_and_not_waited_for(stop):
    """It notices half a second later; here, when the session has ended."""
    asked, may_end, ended = Event(), Event(), Event()

    def end():
        asked.set()
        if may_end.wait(60):
            ended.set()

    with spark_session.held(lambda: start(stop, accumulators=end)):
        pass
    assert asked.wait(60)
    assert not ended.is_set()

    may_end.set()
    assert ended.wait(60)


@pytest.mark.parametrize("starts", [True, False])
def test_what_a_session_has_started_ends_with_it(starts):
    """Whatever it does with signals that ask it to end, and also where the session did not come to be."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    jvms = []

    def begin():
        jvms.append(Popen([sys.executable, "-c", deaf], stdout=PIPE, stdin=PIPE))
        jvms[0].stdout.readline()
        if not starts:
            raise Py4JError("no")
        return start()

    with suppress(SparkFailedError), spark_session.held(begin):
        assert psutil.pid_exists(jvms[0].pid)

    assert not psutil.pid_exists(jvms[0].pid)
    jvms[0].communicate()


def gone(_name="spark.app.name"):
    """Fail like a call to a killed JVM."""
    raise ConnectionRefusedError("Connection refused")


def test_a_jvm_that_has_ended_answers_for_nothing():
    """It may have been killed while it sent rows: those that came look like all that there are."""
    with pytest.raises(SparkFailedError, match="its JVM has ended"), spark_session.held(lambda: start(answers=gone)):
        pass


@pytest.fixture(params=[True, False])
def ended(request, monkeypatch):
    """Whether the JVM has ended."""

    def wait(seconds):
        if not request.param:
            raise TimeoutExpired("java", seconds)

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(wait=wait)))
    return request.param


@pytest.mark.parametrize(
    "error", [Py4JError("PythonUtils does not exist in the JVM"), IndexError("no row"), EOFError("no row")]
)
@pytest.mark.parametrize("starts", [True, False])
def test_what_only_a_jvm_that_has_ended_explains(ended, error, starts):
    """Whether it is killed while it starts or while it answers."""

    def begin():
        if not starts:
            raise error
        return start()

    of_spark = ended or isinstance(error, Py4JError)
    with pytest.raises(SparkFailedError if of_spark else type(error)) as raised, spark_session.held(begin):
        raise error
    assert ("its JVM has ended" in str(raised.value)) is ended


def test_what_is_raised_is_not_logged_too(capfd):
    """Py4J logs to the root, and only once is said what is wrong."""
    root = logging.getLogger()
    with spark_session.held(start):
        for error in (KeyboardInterrupt(), Py4JNetworkError("cut"), ConnectionResetError("cut")):
            root.error("while sending a command", exc_info=error)
        root.error("another", exc_info=ValueError("a defect"))
        root.warning("no error")

        PySparkLogger.getLogger("DataFrameQueryContextLogger").exception("[CAST_INVALID_INPUT]", errorClass="CAST")

    said = capfd.readouterr().err
    assert "CAST" not in said
    assert ("while sending" in said, "a defect" in said, "no error" in said) == (False, True, True)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Py4JNetworkError("a\nb"), "(a b)"), (ConnectionRefusedError("no"), "(no)"), (Py4JError("a\nb"), "a b")],
)
def test_how_a_failure_is_told(error, reason):
    """In one line."""
    assert reason in keep(spark_session.failure(error))


class Java:
    """An exception of the JVM: a message, and what caused it."""

    def __init__(self, message, cause=None):
        self.message, self.cause = message, cause

    def getMessage(self):  # noqa: N802 - as Java has it
        return self.message

    def getCause(self):  # noqa: N802 - as Java has it
        return self.cause

    def getClass(self):  # noqa: N802 - as Java has it
        return SimpleNamespace(getSimpleName=lambda: "SomeException")


TRACE = """[UDF] Traceback (most recent call last):
  File "worker.py", line 9, in f
    int(value)
ValueError: no number

\tat org.apache.spark.Worker.read(Worker.scala:1)
"""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Java("[CAST] The value 'x1' is none.\n== SQL (line 1) ==\nCAST(value)"), "[CAST] The value 'x1' is none."),
        (Java("Job aborted due to stage failure: Task 0\n\tat x.Y", Java("[CAST] bad")), "[CAST] bad"),
        (Java("cannot read file f.", Java(None, Java("damaged page"))), "cannot read file f: damaged page"),
        (Java("cannot read f: no such host", Java("no such host")), "cannot read f: no such host"),
        (Java("Job aborted", Java(TRACE)), "ValueError: no number"),
        (Java(None), "SomeException"),
        (Java("Job aborted"), "_Wrapped"),
    ],
)
def test_what_is_at_the_bottom_of_an_error_is_told(error, text):
    """A task that failed wraps its error several times, each time with a stack trace."""

    class _Wrapped(AnalysisException):
        _origin = error

    assert spark_session.failure(_Wrapped("An error occurred while calling o9.collect.")) == f"Spark failed: {text}"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (
            'WARNING: Using incubator\nException in thread "main" org.x.SparkException: Set YARN_CONF_DIR.\n\tat x',
            "Set YARN_CONF_DIR.",
        ),
        ("Picked up JAVA_TOOL_OPTIONS: -Dx\nUnrecognized option: -y\nError: Could not create", "Unrecognized option: -y"),
        ("", ""),
    ],
)
def test_why_a_jvm_did_not_start(monkeypatch, tmp_path, messages, reason):
    """One line in place of a stack trace of Java on the terminal."""

    def launch(_conf, streams):
        streams["stderr"].write(messages.encode())
        streams["stderr"].flush()
        raise AnalysisException("[JAVA_GATEWAY_EXITED]")

    monkeypatch.setattr(spark_session, "launch_gateway", launch)

    with raised(SparkFailedError, reason):
        spark_session._gateway(SparkConf(loadDefaults=False), tmp_path / "spark.log")


@pytest.mark.parametrize(
    ("url", "known"),
    [
        *[(url, True) for url in ("local", "local[4]", "local[*]", "local[2,3]", "local[*, 9]", "local-cluster[2,1,1024]")],
        *[(url, True) for url in ("yarn", "spark://h:7077", "spark://a:1,b:2", "k8s://https://h:6443")],
        *[
            (url, False)
            for url in ("", "nonsense", "local[0]", "local[-1]", "local[]", "local[x]", "local[2", "Local", "locally")
        ],
        *[
            (url, False)
            for url in ("mesos://h", "spark://", "http://h:7077", "h:7077", "yarn-client", "local[*] ", "local[1,0]")
        ],
    ],
)
def test_what_is_the_url_of_a_master(url, known):
    assert spark_session.is_master(url) is known


@pytest.mark.parametrize(("records", "compiled"), [(16_000, ("false", "NO_CODEGEN")), (1_800_000, ("true", "FALLBACK"))])
def test_queries_are_compiled_where_that_pays(records, compiled):
    """A soak has a hundred times the records of a scenario."""
    conf = {}

    spark_session.suit(suited(conf), records)

    assert (conf["spark.sql.codegen.wholeStage"], conf["spark.sql.codegen.factoryMode"]) == compiled


@pytest.mark.parametrize(
    ("records", "cores", "parts"),
    [(9, 64, "1"), (10_000_000, 2, "4"), (10_000_000, 16, "32"), (200_000_000, 2, "50"), (200_000_000, 64, "128")],
)
def test_rows_are_shuffled_by_the_cluster_and_by_the_log(records, cores, parts):
    """Few of a part for each task, and enough parts for each core."""
    conf = {}

    spark_session.suit(suited(conf, cores), records)

    assert conf["spark.sql.shuffle.partitions"] == parts


def test_what_is_given_is_left_as_it_is():
    """Whoever audits knows the cluster."""
    conf = {}

    spark_session.suit(suited(conf), 10_000_000, {"spark.sql.shuffle.partitions": "7"})

    assert conf.keys() == {"spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"}


def test_queries_are_compiled_for_the_largest_log():
    """A file of a million rows is one record in the source."""
    conf = {}
    few, many = {0: Bounds(0, 1, 1), 1: Bounds(0, 0, 0)}, {0: Bounds(500, 150_500, 150_500), 1: Bounds(0, 150_000, 150_000)}

    for logs in ((few, many), (few,)):
        spark_session.suit_logs(suited(conf), logs)
        assert conf["spark.sql.codegen.wholeStage"] == str(many in logs).lower()


@pytest.mark.parametrize(
    ("records", "master", "small"),
    [(120_000, "local[*]", True), (1_800_000, "local[*]", False), (None, "local[*]", False), (9, "spark://host:7077", False)],
)
def test_a_small_audit_starts_quickly(monkeypatch, records, master, small):
    """Where executors are local, and it is known before Spark starts that there is little to read."""
    asked = {}

    def begin(_name, _master, settings, _scratch):
        asked.update(settings)
        return start()

    monkeypatch.setattr(spark_session, "_start", begin)
    monkeypatch.setattr(spark_session, "suit", lambda _spark, _records, _given: None)
    monkeypatch.setattr(sizes, "_memory_mb", lambda: 24 * 1024)
    monkeypatch.setattr(sizes.os, "sched_getaffinity", lambda _pid: {0, 1})
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_HOME"):
        monkeypatch.setenv(name, "")

    with spark_session.of_audit(master, None, records):
        pass

    assert (asked["spark.driver.memory"], "spark.buffer.pageSize" in asked) == (("1g", True) if small else ("3072m", False))
    assert ("TieredStopAtLevel=1" in asked.get("spark.driver.extraJavaOptions", "")) is small


def test_settings_that_are_given_go_before_the_own(monkeypatch):
    """But one that may have several values has the own ones as well: without the connector no topic could be read."""
    asked = {}

    def begin(_name, _master, settings, _scratch):
        asked.update(settings)
        return start()

    monkeypatch.setattr(spark_session, "_start", begin)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_HOME"):
        monkeypatch.setenv(name, "")
    parts = SimpleNamespace(spark=SimpleNamespace(connector=("/a.jar", "/b.jar")))
    given = {"spark.driver.memory": "9g", "spark.jars": "/own.jar", "spark.executor.cores": "4"}

    with spark_session.of_audit("spark://host:7077", parts, None, given):
        pass

    assert given | {"spark.jars": "/a.jar,/b.jar,/own.jar"} == {name: asked[name] for name in given}


def test_a_spark_that_does_not_start_is_told_from_one_that_fails(monkeypatch):
    """It may be because of the settings that were given."""

    def refuses(*_asked):
        raise AnalysisException("spark.executor.cores should be int, but was many")

    monkeypatch.setattr(spark_session, "_start", refuses)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_HOME"):
        monkeypatch.setenv(name, "")

    with (
        pytest.raises(spark_session.NotStartedError, match="should be int"),
        spark_session.of_audit("local[2]", None, None, {"spark.executor.cores": "many"}),
    ):
        pass


@pytest.mark.parametrize(
    ("master", "records", "machine_mb", "expected_mb"),
    [
        pytest.param("local[2]", None, 24_000, 3 * 1024, id="two cores"),
        pytest.param("local[16]", None, 64_000, 17 * 1024, id="a gigabyte for each core"),
        pytest.param("local[16]", 1_000_000, 64_000, 3 * 1024, id="a log that keeps two cores busy"),
        pytest.param("local[16]", 20_000_000, 64_000, 6 * 1024, id="a log that keeps five busy"),
        pytest.param("local[64]", None, 32_000, 16_000, id="half of the machine at most"),
        pytest.param("local", None, 24_000, 3 * 1024, id="one core"),
        pytest.param("local[3, 2]", None, 24_000, 4 * 1024, id="tasks that are tried again"),
        pytest.param("spark://h:7077", None, 24_000, 3 * 1024, id="executors elsewhere"),
    ],
)
def test_the_heap_of_a_driver(monkeypatch, master, records, machine_mb, expected_mb):
    monkeypatch.setattr(sizes, "_memory_mb", lambda: machine_mb)

    assert sizes.driver_memory_mb(master, records) == expected_mb


@pytest.mark.parametrize(("theirs", "fits"), [("4.9.9", False), (spark_versions.here(), True), (None, False)])
def test_a_spark_home_of_another_version_starts_no_judge(monkeypatch, tmp_path, theirs, fits):
    """Who works with Spark often has one set; that of PySpark's own version may have further jars, and stays."""
    (tmp_path / "jars").mkdir()
    if theirs:
        (tmp_path / "jars" / f"spark-core_2.13-{theirs}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    started = []
    monkeypatch.setattr(spark_session, "launch_gateway", lambda *_given: started.append(os.environ["SPARK_HOME"]))

    spark_session._gateway(SparkConf(loadDefaults=False), tmp_path / "spark.log")

    assert started == [str(tmp_path if fits else spark_versions.home_here())]
    assert os.environ["SPARK_HOME"] == str(tmp_path), "what applications are started with is left as it was"
