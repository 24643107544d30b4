"""Where the two logs of an audit are, and what lands them there."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from chaos.audit import folders, logs
from chaos.audit.command import Echo
from chaos.audit.identity import KEY
from chaos.audit.logs import Fixed, Topics
from chaos.audit.small_logs import SmallLogs
from chaos.audit.where import Where
from chaos.install import artifacts
from chaos.judging import spark_session

Land = Callable[[SparkSession], Fixed | None]


def check(where: Where, master: str) -> None:
    """Raise AuditUsageError if the folder cannot hold the logs, or does not."""
    if where.landed:
        folders.check_landed(where.landed, master)
    elif where.landing:
        folders.check_landing(where.landing, master)


def parts(where: Where, master: str, records: int | None, echo: Echo) -> artifacts.Parts | None:
    """Return Spark's parts, which topics need; for small landed logs only what is there already, to start sooner."""
    if not where.landed:
        return artifacts.ensure(echo)
    return artifacts.at_hand() if spark_session.is_small(records, master) else None


@contextmanager
def folder(where: Where) -> Iterator[str]:
    """Yield the folder where the logs are, or will be landed."""
    if given := where.landed or where.landing:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="chaos-audit-", ignore_cleanup_errors=True) as own:
        yield own


@contextmanager
def landing(where: Where, master: str, topics: Topics | None, fixed: Fixed | None, folder: str) -> Iterator[Land]:
    """Yield the function that lands the topics; few records are landed while Spark starts, and folders need no landing."""
    if topics is None or fixed is None:
        yield lambda _spark: None
        return
    few = spark_session.is_small(fixed.records, master)
    if few and not where.landing and not topics.exact and topics.identity == KEY:
        with SmallLogs(topics, fixed, Path(folder)) as small:
            yield lambda _spark: small.landed()
    else:
        yield lambda spark: logs.land(spark, topics, fixed, folder)
