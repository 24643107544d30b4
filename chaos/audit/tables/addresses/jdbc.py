"""``jdbc:URL#TABLE``: a table of a database, or a query in parentheses with a name: ``#(SELECT … FROM orders) AS large``.

The table is read once, by one query, and so in one snapshot of the database; Spark keeps its rows on disk for the audit. The
password is in the environment, because every user of a machine can read command lines.
"""

import os
import re
import socket
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from chaos.audit.logs import ASK_S
from chaos.audit.tables.addresses.base import Address, Reading
from chaos.audit.tables.connectors import Connector
from chaos.common.errors import InconclusiveError

_URL = re.compile(r"(?P<system>[\w-]+):(?://(?P<hosts>[^/?;#]*))?.*", re.DOTALL)
_SECRET = re.compile(r"[?&;](password|pwd)=", re.IGNORECASE)
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "sqlserver": 1433}
_OF_DRIVERS: Mapping[str, Mapping[str, str]] = {"postgresql": {"loginTimeout": "30", "connectTimeout": "10"}}  # seconds
_SERVICES = "META-INF/services/java.sql.Driver"
_ROWS_AT_ONCE = "10000"  # else the driver of PostgreSQL holds all rows in memory


class JdbcAddress(Address):
    """A table of a database."""

    KIND = "jdbc"
    FORM: ClassVar[str] = "jdbc:URL#TABLE"
    ABSENT: ClassVar[tuple[str, ...]] = ("does not exist", "doesn't exist")

    def __post_init__(self) -> None:
        super().__post_init__()
        url, _, table = self.place.partition("#")
        if _SECRET.search(url):
            raise self.__class__(self.option, _SECRET.split(url)[0] + "#" + table).wrong(
                f"leave the password out, since every user of this machine can read it; put it into {self.variable}"
            )
        if not table.strip() or not _URL.fullmatch(url):
            raise self.wrong("name the table behind #, as in jdbc:postgresql://HOST/DATABASE?user=NAME#orders")

    @property
    def url(self) -> str:
        """The URL of the database."""
        return f"jdbc:{self.place.partition('#')[0]}"

    @property
    def table(self) -> str:
        """The table, or a query with a name."""
        return self.place.partition("#")[2]

    @property
    def system(self) -> str:
        """The kind of database, as its URL names it."""
        return _URL.fullmatch(self.place)["system"]  # type: ignore[index] # `__post_init__`

    @property
    def variable(self) -> str:
        """The environment variable with the password."""
        return f"CHAOS_{self.option.removeprefix('--').upper()}_PASSWORD"

    @property
    def connector(self) -> Connector | None:
        return Connector("PostgreSQL", "postgresql", "org.postgresql:postgresql") if self.system == "postgresql" else None

    def look(self, master: str) -> int | None:  # noqa: ARG002 - this machine asks for the table's columns in any case
        addresses = list(self._addresses())
        for host, port in addresses:
            with suppress(OSError, UnicodeError), socket.create_connection((host, port), ASK_S):
                return None
        if addresses:
            raise InconclusiveError(
                f"{self.option} {self}: the database does not answer within {ASK_S:g} s: is it up, and reachable?"
            )
        return None

    def _addresses(self) -> Iterator[tuple[str, int]]:
        """Yield the addresses in the URL, if it is of the usual form."""
        hosts = _URL.fullmatch(self.place)["hosts"]  # type: ignore[index] # `__post_init__`
        if hosts is None or self.system not in _PORTS:
            return
        for one in (hosts.rpartition("@")[2] or "localhost").split(","):
            host, colon, port = one.rpartition(":") if re.search(r":\d+$", one) else (one, "", "")
            yield (host or "localhost").strip("[]"), int(port) if colon else _PORTS[self.system]

    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:
        driver = _driver(self.system, jars)
        if driver is None:
            raise self.wrong(f"Spark has no driver for {self.system}; name its package: --packages GROUP:ARTIFACT:VERSION")
        own = {"url": self.url, "dbtable": self.table, "driver": driver, "fetchsize": _ROWS_AT_ONCE}
        password = {"password": os.environ[self.variable]} if self.variable in os.environ else {}
        with self.refused():
            frame = spark.read.format("jdbc").options(**_OF_DRIVERS.get(self.system, {}), **own, **password).load()
            kept = frame.persist(StorageLevel.DISK_ONLY)
            return Reading(kept, str(self), kept.count())

    def mend(self, kind: str) -> str:
        if kind == "absent":
            return "check the names of database and table, quoted as the database requires"
        return f"a password is read from {self.variable}" if kind == "failed" else super().mend(kind)


def _driver(system: str, jars: Sequence[Path]) -> str | None:
    """Return the class of the driver for a kind of database among those that jars announce."""
    found = [name for jar in jars for name in _announced(jar)]
    return next((name for name in found if system in name.lower()), next(iter(found), None))


def _announced(jar: Path) -> Sequence[str]:
    """Return the drivers that a jar announces to Java (`java.util.ServiceLoader`)."""
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(_SERVICES).decode().splitlines()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ()
    return tuple(filter(None, (line.partition("#")[0].strip() for line in lines)))
