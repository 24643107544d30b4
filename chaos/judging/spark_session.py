"""A Spark session of a command's own: Ctrl-C ends the command and nothing else, and its JVM has ended when the session has."""

import logging
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chaos.common import signals
from chaos.common.text import one_line

FAILURES = (PySparkException, Py4JError, ConnectionError)
_END_S = 20.0


@contextmanager
def session(start: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """A session for the main thread.

    Args:
        start: makes it; the session logs nothing from then on.
    """
    with _told_once(), _jvm_ends():
        before = signal.getsignal(signal.SIGINT)
        spark = start()
        signal.signal(signal.SIGINT, before)  # Spark's own asks the JVM, perhaps in the middle of another answer
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        except FAILURES as error:
            if _hides_interrupt(error):
                raise KeyboardInterrupt from error
            raise
        finally:
            with warnings.catch_warnings(action="ignore"), suppress(Py4JError, ConnectionError):  # it may have been killed
                spark.stop()


def failure(error: Exception) -> str:
    """One of `FAILURES`, in a line."""
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return f"Spark failed: its JVM has ended ({one_line(str(error))}): was it killed, or out of memory?"
    return f"Spark failed: {one_line(str(error))}"


def _hides_interrupt(error: BaseException | None) -> bool:
    """Whether it was raised by what an interrupt had left to clean up, on the connection that it cut."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or _hides_interrupt(error.__context__))


@contextmanager
def _jvm_ends() -> Iterator[None]:
    """Before its folder is removed, for it would go on to put files there; and also one of which pyspark does not know yet.

    One whose start is interrupted does not see that nobody is there any more, and would live for ever.
    """
    own = psutil.Process()
    before = set(own.children(recursive=True))
    try:
        yield
    finally:
        with signals.deferred():
            gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no function that ends its JVM
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - or the next session would look for it
            started = [one for one in own.children(recursive=True) if one not in before]
            if gateway is not None:
                gateway.proc.stdin.close()  # it ends then, as it does when this process ends
            else:
                _each(started, psutil.Process.terminate)
            _, alive = psutil.wait_procs(started, _END_S)
            _each(alive, psutil.Process.kill)
            psutil.wait_procs(alive, _END_S)


def _each(processes: Iterable[psutil.Process], end: Callable[[psutil.Process], None]) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            end(one)


@contextmanager
def _told_once() -> Iterator[None]:
    """Py4J logs what it raises, an interrupt too, with a traceback."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.addFilter(_is_not_raised)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _is_not_raised(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt | Py4JError | ConnectionError))
