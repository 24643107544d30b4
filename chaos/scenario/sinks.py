"""`sink:` of a Spark job: a topic, or a table that the job's own Spark reads when the job has ended.

    sink: {topic: enriched}
    sink: {parquet: "{folder}/orders"}
    sink: {delta: "{folder}/orders"}
    sink: {iceberg: lake.shop.orders}                 # or a path
    sink: {jdbc: {url: "jdbc:postgresql://127.0.0.1:5432/shop", table: '"orders_{suffix}"', user: shop}}
    sink: {python: "shop.testing:read_orders"}
    sink: {reader: shop_table, with: {region: north}}  # a function of an installed package

What must be in a table is said by `expected`, whose rows have the table's columns. Its rows have no offsets, no order and no
transactions, so they are judged as a multiset: duplicates, gaps, values.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from chaos.grammar.base import Declared, Location, Message, Problem, WrongValueError, within
from chaos.grammar.units import text_of_setting
from chaos.scenario.expected import ExpectedRows
from chaos.scenario.rows import FOLDER_WITHOUT_PYTHON, FunctionName, Written, of_function
from chaos.scenario.texts import Template, Text, texts_of
from chaos.scenario.topics import STATE_HAS_NO_ROUTING, Form, TopicName
from chaos.scenario.verifiers import PRECEDENCE
from chaos.subject.placeholders import names_in, partly_substituted
from chaos.subject.tables import OF_A_RUN, PLACEHOLDERS, READERS, Table

_KINDS = ("topic", "parquet", "delta", "iceberg", "jdbc", "python", "reader")
_PATHS = ("parquet", "delta", "iceberg")
_DRIVERS = {"jdbc:postgresql:": "org.postgresql.Driver", "jdbc:mysql:": "com.mysql.cj.jdbc.Driver"}
NOT_ASKED = "the sink is a table, whose rows have neither offsets nor transactions"
"""Why verifiers of logs are not asked."""
OF_COMPACTED = "the sink is compacted: rows may be gone that were there"
NOT_OF_COMPACTED = ("atomicity", "stability")
"""Verifiers that would take what compaction has removed for something else."""
OF_LOGS_ONLY = ("atomicity", "offsets", "stability", "hanging", "commits", PRECEDENCE)


_Place = Annotated[Written, Template(PLACEHOLDERS)]


class JdbcTable(Declared):
    """A table of a database that Spark reads over JDBC, by one query.

    Attributes:
        url: of the database.
        table: its name, quoted as the database wants it.
        user: who reads it.
        password_in: the variable of the environment with the password, which is written nowhere then.
        driver: the class of the driver; that of PostgreSQL and of MySQL is known.
        options: further options of Spark's JDBC source.
    """

    url: _Place
    table: _Place
    user: Written | None = None
    password_in: Written | None = None
    driver: Written | None = None
    options: dict[str, Annotated[str, BeforeValidator(text_of_setting), Template(PLACEHOLDERS)]] = Field(default_factory=dict)

    @property
    def of_spark(self) -> dict[str, str]:
        """What Spark's JDBC source is told."""
        known = next((driver for start, driver in _DRIVERS.items() if self.url.startswith(start)), None)
        driver = self.driver or known
        own = {"url": self.url} | ({"user": self.user} if self.user else {}) | ({"driver": driver} if driver else {})
        return self.options | own


class Sink(Declared):
    """What a Spark job writes: one of ``topic``, ``parquet``, ``delta``, ``iceberg``, ``jdbc``, ``python`` and ``reader``.

    Attributes:
        topic: one of ``topics``.
        parquet: the folder of Parquet files, written by a file sink of Spark's or by anything else.
        delta: the path of a Delta table.
        iceberg: the path of an Iceberg table, or its name in a catalog that is in ``configuration``.
        jdbc: a table of a database.
        python: ``module:function``, which is given the job's Spark session and a mapping from placeholders to their values, and
            returns a DataFrame: the rows of a table of any other kind.
        reader: such a function that an installed package has added (docs/plugins.md), by its name.
        arguments: what the function of ``python`` or the reader is given beside those two, by name.
        folder: where the module is looked for first; it begins at the folder of the scenarios file, which is the default.
        routing: of a topic: ``same`` if a record must be in the partition that it had in the source, ``any`` if the pipeline
            chooses one. Where it is left out: ``same``, if both topics have as many partitions, else ``any``.
        form: of a topic: what it is judged as: a ``log``, all of whose rows count, or a ``state``: of each key the last value,
            and none where that is null.
    """

    topic: TopicName | Literal[""] = ""
    parquet: _Place | None = None
    delta: _Place | None = None
    iceberg: _Place | None = None
    jdbc: JdbcTable | None = None
    python: FunctionName | None = None
    reader: Written | None = None
    arguments: dict[str, Annotated[JsonValue, Field(title="value")]] = Field(alias="with", default_factory=dict)
    folder: Written | None = None
    routing: Literal["same", "any"] | None = None
    form: Form = Field(alias="as", default="log")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind)]
        if len(given) != 1:
            found = f"this has {' and '.join(given)}" if given else "this has none of them"
            raise WrongValueError(
                "not-one-sink", f"a sink is one of {', '.join(_KINDS[:-1])} and {_KINDS[-1]}, and {found}; write one of them"
            )
        if self.folder is not None and self.python is None:
            raise WrongValueError(FOLDER_WITHOUT_PYTHON.code, FOLDER_WITHOUT_PYTHON)
        if self.arguments and self.python is None and self.reader is None:
            raise WrongValueError("with-without-reader", "with are arguments of python or of a reader; leave it out")
        if self.routing is not None and not self.topic:
            raise WrongValueError(
                "routing-of-table", "routing is about the partitions of a topic, and this sink is a table; leave it out"
            )
        if self.form == "state" and not self.topic:
            raise WrongValueError(
                "state-of-table",
                "as: state is about the rows of a topic; the rows of a table are its state anyway; leave it out",
            )
        if self.form == "state" and self.routing is not None:
            raise WrongValueError(STATE_HAS_NO_ROUTING.code, STATE_HAS_NO_ROUTING)
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind))

    @property
    def table(self) -> Table | None:
        """None for a topic."""
        if self.jdbc is not None:
            return Table("jdbc", self.jdbc.table, self.jdbc.of_spark, self.jdbc.password_in or "")
        if self.python is not None:
            return Table("python", self.python, {"folder": self.folder or "."}, arguments=self.arguments)
        if self.reader is not None:
            return Table("reader", self.reader, arguments=self.arguments)
        if self.parquet is not None:
            return Table("parquet", self.parquet)
        if self.delta is not None:
            return Table("delta", self.delta)
        return None if self.iceberg is None else Table("iceberg", self.iceberg)

    @property
    def texts(self) -> Mapping[Location, Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return texts_of(self)

    def below(self, folder: Path) -> Self:
        """The same with whole paths, and the folder of the scenarios file in place of ``{project}``."""
        project = {"project": str(folder.resolve())}
        places: dict[str, Any] = {
            kind: partly_substituted(path, project) for kind in _PATHS if (path := getattr(self, kind)) is not None
        }
        if self.python is not None:
            places["folder"] = str((folder / (self.folder or ".")).resolve())
        return self.model_copy(update=places)


def problems(sink: Sink, declared: Any, configuration: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with a pipeline that writes a table, with places in its declaration.

    Args:
        declared: the pipeline; its ``expected``, ``model`` and ``positions`` are looked at.
        configuration: of its Spark, where the place of a catalog may be.
    """
    if sink.topic:
        return
    if sink.reader is not None:
        functions = {name: reader.function for name, reader in READERS.things.items()}
        yield from within(("sink",), of_function("reader", sink.reader, functions, 2, sink.arguments))
    if declared.model is not None:
        yield (
            ("model",),
            Message(
                "model-of-table",
                "a model by name is of keys and values, and the sink is a table; write expected: {sql: SELECT …} instead",
            ),
        )
    if not isinstance(declared.expected, ExpectedRows):
        place: Location = () if declared.expected is None else ("expected",)
        said = "what the table must hold is not said; write expected: {sql: SELECT …}, or {python: module:function}"
        yield place, Message("table-without-expected", said)
    if declared.positions != "checkpoint":
        why = "no broker tells how far a job that writes a table is, and it must be known"
        yield ("positions",), Message("positions-of-table", f"{why}; leave positions out: it is read from the checkpoint")
    texts = [text for text, _ in sink.texts.values()]
    where = [*texts, *(configuration.values() if sink.kind == "iceberg" else ())]
    if texts and not any(name in OF_A_RUN for text in where for name in names_in(text)):
        own = ", ".join(f"{{{name}}}" for name in OF_A_RUN)
        said = f"all runs would write this one table; put {{folder}} or {{suffix}} into it (one of {own})"
        yield ("sink", sink.kind), Message("one-table-for-all", said)
