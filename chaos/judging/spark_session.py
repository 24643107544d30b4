"""The judges' Spark sessions: a run's session reads small logs, again and again; an audit's reads large ones, once.

A judge's session is outside the broken system: a JVM of its own, with local executors unless an audit names a master.
"""

import logging
import os
import re
import shlex
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Thread
from typing import Any

import psutil
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from chaos.common import processes, signals
from chaos.common.errors import InconclusiveError, one_line
from chaos.install import class_archives, preflight, spark_versions
from chaos.install.artifacts import Parts
from chaos.judging import sizes
from verifiers import VERIFIERS, arrow, evidence
from verifiers.base import Bounds, Evidence

FAILURES = (PySparkException, Py4JError, ConnectionError)
_NOTICED_WITHIN_S = 2.0
_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d{0,5})(\s*,\s*[1-9]\d{0,5})?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|(spark|k8s)://\S+"
)
_DEEPEST = 20
_LONGEST = 400
_WRAPS = ("Job aborted", "An error occurred while calling")
_PYTHON = "Traceback (most recent call last)"
_DETAILS = re.compile(r"\n\s*(at |== |JVM stacktrace|Driver stacktrace)")
_ENDED_WITH = re.compile(r'^Exception in thread "[^"]*" (?:[\w.$]+: )?(.+)$', re.MULTILINE)
_OF_ITS_START = re.compile(r"WARNING|NOTE:|Picked up |Using |\s|at ")
_LOGGED_BY_PYSPARK = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_CUT_SHORT = (LookupError, ValueError, TypeError, EOFError)
_COMPILED_FROM = 200_000  # records
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "true",  # the default from 4.0 on
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.broadcastTimeout": "3600",  # s; after the default of 300 a slow machine would make a verdict UNKNOWN
}
SMALL = {  # for hundreds of queries over small logs, which nobody looks at in Spark's UI
    "spark.ui.retainedJobs": "1",  # records of jobs fill the heap, which costs collections
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.ui.dagGraph.retainedRootRDDs": "1",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.buffer.pageSize": "256k",  # first memory of each sort, join and aggregate; else some MB, by the size of the heap
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # a stack trace of each column
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
}
_FEW_COLLECTIONS = "-Xmn400m"  # heap for new objects: with the default, seven collections take a quarter of a second
_ASKED_FOR = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
_WORKER_ENDS = {  # if a user's function does not return for one record; Spark before 4.1 would wait for ever
    f"{of}.{name}": value
    for of in ("spark.python.worker", "spark.sql.execution.pyspark.udf")
    for name, value in (("idleTimeoutSeconds", "300"), ("killOnIdleTimeout", "true"))
}
_HOME = "SPARK_HOME"
_OF_THE_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for the JVM that only puts the command together
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_HERE = ("local", "spark://127.", "spark://localhost:")  # masters whose executors are on this machine
_JOINED = {  # settings of which there may be several values, and what is between these
    "spark.jars": ",",
    "spark.sql.extensions": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
}
_PARTS = "spark.sql.shuffle.partitions"


class SparkFailedError(InconclusiveError):
    """Spark failed, or its JVM has ended; the message was made while the JVM could still give the reason."""


class NotStartedError(SparkFailedError):
    """Spark did not start, or not as it was asked to."""


# of a run ------------------------------------------------------------------------------------------------------------------


def of_run(parts: Parts | None, scratch: Path) -> SparkSession:
    """Start a small local session: the brokers and workers under test need the rest of the machine.

    Args:
        parts: with the Kafka connector and a class archive; None if no topic is read and they are not there.
        scratch: for its temporary files; it is made.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    java_options = (*class_archives.options(parts.spark.archive if parts else None), f"-Djava.io.tmpdir={scratch}")
    settings = {"spark.driver.extraJavaOptions": " ".join(java_options), "spark.local.dir": str(scratch)}
    if parts:
        settings["spark.driver.extraClassPath"] = class_archives.extra_class_path(parts.spark.home, parts.spark.connector)
    spark = _start("chaos judge", "local[2]", SMALL | settings, scratch)
    spark.sparkContext.setLogLevel("ERROR")
    suit(spark, records=1)
    return spark


def of_run_warmed_up(parts: Parts, scratch: Path) -> SparkSession:
    """Start the session of a run and judge one record: the first scenario need not wait for the loading of classes."""
    spark = of_run(parts, scratch)
    expected = spark.range(1).selectExpr("id", "0 AS partition", "'0' AS value", "true AS required", "id AS position")
    observed = spark.range(1).selectExpr("0 AS partition", "id AS offset", "id AS timestamp_ms", "'0' AS key", "'0' AS value")
    evidence.write(scratch, Evidence("warm-up", expected, observed, {0: Bounds(0, 1, 1)}, {0: 1}))
    landed = evidence.load(spark, scratch, "warm-up")
    for verifier in VERIFIERS.values():
        verifier.check(landed)
    return spark


def suit(spark: SparkSession, records: int, given: Collection[str] = ()) -> None:
    """Compile queries to Java code only if there are so many records that compiling saves time.

    Args:
        given: names of settings that are left as they are.
    """
    compiled = records >= _COMPILED_FROM
    suited = {
        "spark.sql.codegen.wholeStage": str(compiled).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiled else "NO_CODEGEN",
        _PARTS: "1",  # makes no idle tasks
    }
    if compiled:  # by now the executors of a cluster are known
        suited[_PARTS] = str(sizes.shuffle_partitions(records, spark.sparkContext.defaultParallelism))
    for name, value in suited.items():
        if name not in given:
            spark.conf.set(name, value)


def suit_logs(spark: SparkSession, logs: Iterable[Mapping[int, Bounds]]) -> None:
    """Call `suit` for the largest of these logs: a pipeline may write a million rows for one record."""
    suit(spark, max((sum(ends.hw - ends.low for ends in log.values()) for log in logs), default=0))


def remember_classes(spark: SparkSession) -> None:
    """Keep the Java classes that PySpark looks up for each column and each frame.

    Py4J remembers none of them: each time it looks for a name in every jar of the class path, several times if it has no
    package. That is a twentieth of the processor time of queries of few rows.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    for name in _ASKED_FOR:
        setattr(jvm, name, getattr(jvm, name))


def beside(spark: SparkSession) -> SparkSession:
    """Start a session in the same Spark for many queries over few rows; it does not see the other session's views.

    A query over few rows spends most of its time in the compiler of its code, which the session of a large log needs.
    """
    found = spark.newSession()
    suit(found, records=1)
    found.conf.set("spark.sql.leafNodeDefaultParallelism", "1")  # one task, and nothing is shuffled
    return found


# of an audit ---------------------------------------------------------------------------------------------------------------


@contextmanager
def of_audit(
    master: str, parts: Parts | None, records: int | None = None, given: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Hold (`held`) a session with compiled queries and a JVM that optimizes: millions of rows outweigh a slow start.

    A small log gets a session like that of a run, which starts quickly, if the executors are local.

    Args:
        master: any master of Spark.
        parts: with the Kafka connector, which remote executors get, too, and a class archive; None if no topic is read and
            there is no archive.
        records: number of records in both logs; None if it is not known yet.
        given: settings that replace the session's own, or join them if a setting takes several values.

    Raises:
        NotStartedError: it did not start, or cannot read one of these settings.
    """
    own, added = given or {}, os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ.setdefault("JAVA_HOME", str(preflight.find_java().parents[1]))
    os.environ.setdefault(_HOME, str(spark_versions.home_here()))  # else Spark's script starts a Python that looks for it
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _OF_THE_LAUNCHER)
    with tempfile.TemporaryDirectory(prefix="chaos-audit-spark-", ignore_cleanup_errors=True) as scratch:
        # A JVM that is killed removes nothing. This adds to the user's own settings of Java and Spark, and overrides none.
        os.environ["SPARK_SUBMIT_OPTS"] = f"{class_archives.NO_TRACE} -Djava.io.tmpdir={shlex.quote(scratch)} {added}"
        settings = joined(_of_audit(master, parts, records), own)
        started = False
        try:
            with held(lambda: _start("chaos audit", master, settings, Path(scratch))) as spark:
                arrow.require_alive(spark)  # its first answer needs all settings of SQL, which Spark reads late
                started = True
                if is_small(records, master):
                    suit(spark, records or 0, own)
                yield spark
        except SparkFailedError as error:
            if started:
                raise
            raise NotStartedError(str(error)) from error


def _of_audit(master: str, parts: Parts | None, records: int | None) -> Mapping[str, str]:
    """The settings that an audit makes itself."""
    small = is_small(records, master)
    settings = {
        "spark.driver.memory": f"{sizes.driver_memory_mb(master, records)}m",
        _PARTS: str(sizes.shuffle_partitions(records or 0, sizes.local_cores(master) or 1)),  # until `suit` knows better
        **_WORKER_ENDS,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",  # records of two or three integers; 10,000 by default
        "spark.sql.codegen.cache.maxEntries": "1000",  # one audit has more classes than the default of a hundred
        # Spark's default without kafka, whose V1 reader makes a Row of each record: a quarter of a scan's work
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    }
    if small:
        archived = class_archives.options(parts.spark.archive if parts else None)
        settings |= SMALL | {"spark.driver.extraJavaOptions": " ".join((*archived, _FEW_COLLECTIONS))}
    if parts and small:
        settings["spark.driver.extraClassPath"] = class_archives.extra_class_path(parts.spark.home, parts.spark.connector)
    elif parts:
        settings["spark.jars"] = ",".join(map(str, parts.spark.connector))
    return settings


def joined(*settings: Mapping[str, str]) -> dict[str, str]:
    """Merge settings; a later value replaces an earlier one, or is added to it if the setting takes several values."""
    found = dict[str, str]()
    for one in settings:
        for name, value in one.items():
            found[name] = f"{found[name]}{_JOINED[name]}{value}" if name in _JOINED and name in found else value
    return found


def is_master(url: str) -> bool:
    """Whether Spark accepts such a master; it is not contacted."""
    return _MASTER.fullmatch(url) is not None


def is_here(master: str) -> bool:
    """Whether it is certain that executors are on this machine, and have its folders."""
    return master.startswith(_HERE)


def is_small(records: int | None, master: str) -> bool:
    """Whether an audit of so many records (None: not known) gets a session that starts quickly."""
    return records is not None and records < _COMPILED_FROM and master.startswith("local")


# of any judge --------------------------------------------------------------------------------------------------------------


def _start(name: str, master: str, settings: Mapping[str, str], scratch: Path) -> SparkSession:
    """Start a session whose JVM writes its messages into a file: they are about Spark's start, and mean nothing to users.

    Args:
        scratch: the folder of that file.

    Raises:
        SparkFailedError: the JVM did not start.
    """
    here = is_here(master)
    settings = {**_ALWAYS, **(_LOCAL if here else {}), **settings}
    conf = SparkConf().setMaster(master).setAppName(name).setAll(list(settings.items()))
    context = SparkContext(conf=conf, gateway=SparkContext._gateway or _gateway(conf, scratch / "spark.log"))  # noqa: SLF001 - see `_jvm_ends`
    own = (
        sys.executable if here else context.pythonExec
    )  # for Spark's Python workers: python3 of the path may be another version
    context.pythonExec = settings.get("spark.pyspark.python", own)
    _expect_end(context)
    spark = SparkSession.builder.getOrCreate()
    remember_classes(spark)
    return spark


def _expect_end(context: Any) -> None:
    """Keep PySpark's server of accumulators from printing a stack trace if the JVM is killed; `held` reports that in a line.

    The JVM connects to it once executors have run Python code, whether that has accumulators or not.
    """
    server = context._accumulatorServer  # noqa: SLF001 - PySpark has no other way to it
    inherited = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            inherited(request, address)

    server.handle_error = handle_error


def _gateway(conf: SparkConf, log: Path) -> Any:
    try:
        with log.open("wb") as messages, _fitting_home():
            return launch_gateway(conf, {"stdout": messages, "stderr": messages})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        reason = _why_not_started(log.read_text(encoding="utf-8", errors="replace"))
        raise SparkFailedError(f"Spark failed: its JVM did not start ({reason})") from error


def _why_not_started(messages: str) -> str:
    """Find the reason among the messages of a JVM that has ended: its last exception, else its first message; in one line."""
    exceptions = _ENDED_WITH.findall(messages)
    others = (line for line in messages.splitlines() if line and not _OF_ITS_START.match(line))
    return one_line(exceptions[-1] if exceptions else next(others, "it wrote no reason"), _LONGEST)


@contextmanager
def _fitting_home() -> Iterator[None]:
    """Replace SPARK_HOME by PySpark's own Spark meanwhile, if it has another version, which would fail."""
    given = os.environ.get(_HOME)
    if given is None or any(Path(given, "jars").glob(f"spark-core_*-{spark_versions.here()}.jar")):
        yield
        return
    os.environ[_HOME] = str(spark_versions.home_here())
    try:
        yield
    finally:
        os.environ[_HOME] = given


@contextmanager
def held(start: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Hold the session of a command, in the main thread: Ctrl-C ends only the command, and the JVM ends with the block.

    Args:
        start: makes the session, which logs nothing from then on.

    Raises:
        SparkFailedError: the session did not start, or something in the block raised one of `FAILURES`.
    """
    with _raised_errors_not_logged(), _jvm_ends():
        before, spark = signal.getsignal(signal.SIGINT), None
        try:
            spark = start()
            signal.signal(signal.SIGINT, before)  # Spark's own handler asks the JVM, perhaps in the middle of another answer
            spark.sparkContext.setLogLevel("OFF")
            yield spark
            arrow.require_alive(spark)
        except FAILURES as error:
            if _hides_interrupt(error):
                raise KeyboardInterrupt from error
            raise SparkFailedError(_of_an_end(_said(error)) if _has_ended() else failure(error)) from error
        except _CUT_SHORT as error:
            if _has_ended():
                raise SparkFailedError(_of_an_end("an answer was cut short")) from error
            raise
        finally:
            with warnings.catch_warnings(action="ignore"), suppress(Py4JError, ConnectionError):  # it may have been killed
                if spark is not None:
                    _stop(spark)


def _stop(spark: SparkSession) -> None:
    """End the session without waiting for its server of accumulators, which takes up to half a second to end."""
    context: Any = spark.sparkContext
    server, context._accumulatorServer = context._accumulatorServer, None  # noqa: SLF001 - PySpark would wait for it
    try:
        spark.stop()
    finally:
        Thread(target=server.shutdown, daemon=True).start()


def failure(error: Exception) -> str:
    """Describe one of `FAILURES` in a line; it asks the JVM, so call it while the session is held."""
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return _of_an_end(str(error))
    return f"Spark failed: {one_line(_said(error), _LONGEST)}"


def _of_an_end(said: str) -> str:
    return f"Spark failed: its JVM has ended ({one_line(said)}): was it killed, or out of memory?"


def _said(error: Exception) -> str:
    """Return the message of an error, without the stack traces of those that wrap it."""
    try:
        java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
        texts = [str(error)] if java is None else _messages(java)
    except (Py4JError, ConnectionError):
        return type(error).__name__  # the JVM has ended meanwhile
    said = [one for one in map(_without_traces, texts) if one and not one.startswith(_WRAPS)]
    if not said:
        return type(error).__name__
    return said[0] if said[-1] in said[0] else f"{said[0].rstrip('.')}: {said[-1]}"


def _messages(java: Any) -> list[str]:
    """Return the messages of a Java exception and of its causes, outermost first; the class name if there is none."""
    messages = list[str]()
    while java is not None and len(messages) < _DEEPEST:
        messages.append(str(java.getMessage() or java.getClass().getSimpleName()))
        java = java.getCause()
    return messages


def _without_traces(message: str) -> str:
    """Return the first paragraph; if a Python function raised, its exception."""
    if _PYTHON in message:
        lines = message[message.index(_PYTHON) :].split("\n\tat ", maxsplit=1)[0].splitlines()
        return next((line for line in reversed(lines) if line.strip() and not line.startswith((" ", "\t"))), "")
    return _DETAILS.split(message, maxsplit=1)[0].strip()


def _has_ended() -> bool:
    """Whether the JVM has ended: some errors of Py4J and of its readers do not show it."""
    gateway = SparkContext._gateway  # noqa: SLF001 - see `_jvm_ends`
    if gateway is None:
        return False
    try:
        gateway.proc.wait(_NOTICED_WITHIN_S)
    except TimeoutExpired:
        return False
    return True


def _hides_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt had cut the connection, and the error comes from cleaning up after it."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _hides_interrupt(error.__context__))


@contextmanager
def _jvm_ends() -> Iterator[None]:
    """End the JVM before its folder is removed, or it would go on to put files there.

    Its session is stopped by then, so it has nothing left to do, and its hooks would take a third of a second more. This
    includes a JVM whose start was interrupted: PySpark does not know it yet, it does not notice that its parent is gone, and it
    would live for ever.
    """
    own = psutil.Process()
    before = set(own.children(recursive=True))
    try:
        yield
    finally:
        with signals.deferred():
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - or the next session would look for the JVM
            started = [one for one in own.children(recursive=True) if one not in before]
            processes.kill({str(one.pid): one for one in started})
            for one in started:
                with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                    one.wait(0)  # this process is the JVM's parent


@contextmanager
def _raised_errors_not_logged() -> Iterator[None]:
    """Silence errors that Py4J and PySpark also raise: the command reports them once, in its own words."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.addFilter(_is_not_raised)
    root.addHandler(handler)
    try:
        with pyspark_logs_nothing():
            yield
    finally:
        root.removeHandler(handler)


@contextmanager
def pyspark_logs_nothing() -> Iterator[None]:
    """Keep PySpark from logging each error that it raises as a line of JSON; whoever catches the error reports it."""
    loggers = _loggers_of_pyspark()
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def _loggers_of_pyspark() -> Sequence[logging.Logger]:
    """Return the loggers of PySpark's errors; version 3.5 has none."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - 3.5 lacks it
    except ImportError:
        return ()
    return tuple(map(PySparkLogger.getLogger, _LOGGED_BY_PYSPARK))


def _is_not_raised(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt | Py4JError | ConnectionError))
