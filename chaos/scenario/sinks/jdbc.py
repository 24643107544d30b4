"""A table of a database: ``{jdbc: {url: "jdbc:postgresql://127.0.0.1:5432/shop", table: '"orders_{suffix}"', user: shop}}``."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from chaos.grammar.base import Declared
from chaos.grammar.units import text_of_setting
from chaos.scenario.sinks.base import PLACEHOLDERS, Place, TableSink
from chaos.scenario.texts import Template, Written

_DRIVERS = {"jdbc:postgresql:": "org.postgresql.Driver", "jdbc:mysql:": "com.mysql.cj.jdbc.Driver"}


class JdbcTable(Declared):
    """A table of a database that Spark reads over JDBC, by one query."""

    url: Place
    """the URL of the database."""
    table: Place
    """the name of the table, quoted as the database requires."""
    user: Place | None = None
    """the user who reads the table."""
    password_in: Written | None = None
    """the environment variable with the password; the password itself is written nowhere."""
    driver: Written | None = None
    """the class of the driver; the default is known for PostgreSQL and MySQL."""
    options: dict[str, Annotated[str, BeforeValidator(text_of_setting), Template(PLACEHOLDERS)]] = Field(default_factory=dict)
    """further options of Spark's JDBC source."""


class JdbcSink(TableSink):
    """A table of a database."""

    FORMAT: ClassVar[str] = "jdbc"

    jdbc: JdbcTable
    """a table of a database."""

    @property
    def place(self) -> str:
        return self.jdbc.table

    @property
    def options(self) -> Mapping[str, str]:
        known = next((driver for start, driver in _DRIVERS.items() if self.jdbc.url.startswith(start)), None)
        own = {"url": self.jdbc.url, "user": self.jdbc.user, "driver": self.jdbc.driver or known}
        return self.jdbc.options | {name: value for name, value in own.items() if value}

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"password_in": self.jdbc.password_in or ""}

    @property
    def needs(self) -> str:
        return "the driver of the database"

    @property
    def look(self) -> str:
        return f"does a server answer at {self.jdbc.url}, and does it have the table {self.place}? See logs/table.log"
