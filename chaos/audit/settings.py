"""Options that several audits read alike: ``--spark-conf`` and ``--expected-sql``.

Settings of Spark, for example ``spark.executor.memory=8g``, override the settings that an audit makes itself. It refuses those
that have an option of their own, and those that change the meaning of a query, a model or a comparison.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.audit.logs import AuditUsageError
from chaos.judging.spark_session import NotStartedError

OPTION = "--spark-conf"
_MEANS = "it changes the meaning of queries, so the audit itself sets it; leave it out"
_REFUSED = {
    "spark.master": "write --spark-master",
    "spark.submit.deployMode": "the driver of an audit is on this machine; leave it out",
    "spark.sql.ansi.enabled": _MEANS,
    "spark.sql.caseSensitive": _MEANS,
    "spark.sql.session.timeZone": _MEANS,
}
_LEGACY = "spark.sql.legacy."


def read(given: Sequence[str]) -> Mapping[str, str]:
    """Read settings by name.

    Args:
        given: each as ``NAME=VALUE``.

    Raises:
        AuditUsageError: one is not of this form, is given twice, or is refused.
    """
    found = dict[str, str]()
    for one in given:
        name, equals, value = (part.strip() for part in one.partition("="))
        if not equals or not value:
            raise AuditUsageError(f"{OPTION} {one}: must be NAME=VALUE, as in spark.executor.memory=8g")
        if not name.startswith("spark."):
            raise AuditUsageError(f"{OPTION} {one}: the names of Spark's settings begin with spark.; Spark ignores others")
        why = _MEANS if name.startswith(_LEGACY) else _REFUSED.get(name)
        if why:
            raise AuditUsageError(f"{OPTION} {name}: {why}")
        if name in found:
            raise AuditUsageError(f"{OPTION} {name} is given twice; leave one out")
        found[name] = value
    return found


def blamed(settings: Mapping[str, str], error: NotStartedError) -> NotStartedError:
    """Add the settings, which may be the reason, to the error of a Spark that did not start.

    Raises:
        AuditUsageError: Spark names one of them.
    """
    if not settings:
        return error
    said = str(error)
    given = ", ".join(f"{OPTION} {name}={value}" for name, value in settings.items())
    named = next((name for name in settings if name in said), None)
    if named is not None:
        raise AuditUsageError(f"{OPTION} {named}={settings[named]}: {said}; mend it, or leave it out") from error
    return NotStartedError(f"{said}; it was started with {given}: leave out what it does not take")


def query(given: str) -> str:
    """Return the query of ``--expected-sql``, or that in the file that it names as ``@file``.

    Raises:
        AuditUsageError: the file cannot be read, or the query is empty.
    """
    sql = given
    if given.startswith("@"):
        try:
            sql = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise AuditUsageError(f"--expected-sql {given}: cannot be read: {reason}") from None
    if not sql.strip():
        raise AuditUsageError(f"--expected-sql {given}: the query is empty")
    return sql
