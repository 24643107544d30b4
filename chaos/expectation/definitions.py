"""Definitions of the rows that a sink must hold: a query, a function, a twin, or the source itself, which is copied.

The keys of each in a scenarios file, and the checks of them, are one class in `chaos.scenario.expected`.
"""

import importlib
import importlib.machinery
import json
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar, Self

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from chaos.common import user_code
from chaos.common.errors import one_line
from chaos.contract.read_table import NOT_THEIRS
from chaos.expectation import by_record, repeatable
from chaos.expectation.base import LONGEST, NOWHERE, Hold, IsApart, ModelError, Views, told
from chaos.expectation.forms import Log
from chaos.expectation.sources import OneTopic
from chaos.matching import row_ids
from chaos.matching.demanded import Demanded
from chaos.scenario.expected import ByFunction, ByQuery, ByTwin, Copied, Way

TWIN = "twin"
"""The folder, in a run or in the cache, with the output of a run without faults."""
ROWS = "rows"
ABOUT = "about.json"
"""The file beside the rows of a twin that identifies their source."""
_WITHIN_S = 600.0  # a function may count and collect the records
_OF_TWIN = "a run without faults does not show which source record a row comes from"


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a definition: the topics, the form of the sink, and the identity of rows.

    Attributes:
        views: the topics that the pipeline reads.
        identity: SQL over key and value, or over the columns of a table, that identifies a row; "" for none.
        hold, is_apart: see `chaos.expectation.base`.
    """

    spark: SparkSession
    views: Views
    form: Log
    sources: OneTopic
    identity: str = ""
    hold: Hold = row_ids.held
    is_apart: IsApart | None = None


@dataclass(frozen=True, slots=True)
class Definition(ABC):
    """One definition of the expected rows.

    Attributes:
        declared: the class of its declaration under `expected`.
        is_copy: whether the rows are the records of the source.
        keeps_headers: whether the headers of a record are part of the expected row.
    """

    declared: ClassVar[type[Way]]
    is_copy: ClassVar[bool] = False
    keeps_headers: ClassVar[bool] = False

    @classmethod
    def of(cls, way: Any, folder: Path) -> Self:  # noqa: ARG003 - most need nothing else
        """Create the definition from its declaration.

        Args:
            folder: the folder of the run, which has the rows of a twin.
        """
        return cls(*(getattr(way, field.name) or "" for field in fields(cls)))

    @property
    @abstractmethod
    def called(self) -> str:
        """The definition, in a sentence."""

    def require_known(self, asked: Question) -> None:  # noqa: B027 - most have nothing to check
        """Check as much as possible without records; the topics have none.

        Raises:
            ModelError: the definition has an error.
        """

    def require_same(self, asked: Question) -> None:  # noqa: B027 - only a twin was made from a source
        """Raise ModelError if the rows were made from another source."""

    def is_by_record(self, asked: Question, topic: str) -> bool:  # noqa: ARG002 - only a query can be inspected
        """Whether each record of a topic demands one row, with its key and place, and a value from this record alone.

        Args:
            asked: its topics are from `by_record.unread`.
        """
        return False

    def contracted(self, asked: Question) -> DataFrame:
        """Return the rows with the columns of the sink; nothing is computed yet.

        Raises:
            ModelError: the rows cannot be determined.
        """
        raise NotImplementedError

    @abstractmethod
    def demanded(self, asked: Question) -> Demanded:
        """Compute the rows.

        Raises:
            ModelError: the rows cannot be determined.
        """


@dataclass(frozen=True, slots=True)
class Copy(Definition):
    """The sink holds the records of the source."""

    declared: ClassVar[type[Way]] = Copied
    is_copy: ClassVar[bool] = True
    keeps_headers: ClassVar[bool] = True

    @property
    def called(self) -> str:
        return "a copy"

    def demanded(self, asked: Question) -> Demanded:
        copied = asked.sources.copied(asked.views)
        assert copied is not None  # noqa: S101 - with one topic, the source itself is compared
        return copied


@dataclass(frozen=True, slots=True)
class Twin(Definition):
    """The sink holds the rows that the same pipeline wrote for the same workload without faults.

    Attributes:
        place: the folder with these rows.
    """

    place: str
    declared: ClassVar[type[Way]] = ByTwin
    keeps_headers: ClassVar[bool] = True  # those that the pipeline writes

    @classmethod
    def of(cls, way: Any, folder: Path) -> Self:  # noqa: ARG003 - it is in the folder of the run
        return cls(str(folder / TWIN / ROWS))

    @property
    def called(self) -> str:
        return "the run without faults"

    def require_same(self, asked: Question) -> None:
        """Raise ModelError if the source differs from that of the twin: brokers may refuse some records."""
        then = json.loads((Path(self.place).parent / ABOUT).read_text(encoding="utf-8"))["source"]
        now = asked.sources.fingerprint(asked.views)
        if now != then:
            counts = f"{now['records']} records now, {then['records']} then"
            raise ModelError(f"the source differs from that of the run without faults ({counts}), so other rows may be due")

    def demanded(self, asked: Question) -> Demanded:
        """Read the rows; none has a place, because no one knows which source record demands it."""
        with told():
            written = asked.spark.read.schema("key string, value string").parquet(self.place)
            rows = written.selectExpr("*", *NOWHERE).localCheckpoint()
        return Demanded(rows, rows.count(), _OF_TWIN, placed=False)


class Computed(Definition):
    """The rows follow from the records of the source."""

    @abstractmethod
    def given(self, asked: Question) -> DataFrame:
        """Return the rows as the user defines them; they need not be computed yet.

        Raises:
            ModelError: the rows cannot be determined.
        """

    def contracted(self, asked: Question) -> DataFrame:
        return asked.form.contracted(self.given(asked), self.called, asked.sources, asked.identity)

    def demanded(self, asked: Question) -> Demanded:
        rows = self.contracted(asked)
        with told():
            held = asked.hold(rows)
        return asked.form.demand(held, self.called, asked.views, asked.sources, asked.is_apart)


@dataclass(frozen=True, slots=True)
class Query(Computed):
    """A query over the topics that the pipeline reads, each of which is a view of the same name."""

    sql: str
    declared: ClassVar[type[Way]] = ByQuery

    @property
    def called(self) -> str:
        return "the query"

    def require_known(self, asked: Question) -> None:
        """Let Spark read the query, and refuse one that may give other rows the next time: no sink could match it."""
        query = self.given(asked)
        asked.form.contracted(query, self.called, asked.sources, asked.identity)
        varies = repeatable.why_not(query)
        if varies:
            raise ModelError(f"the query does not give the same rows each time: {varies}; remove that")

    def is_by_record(self, asked: Question, topic: str) -> bool:
        query = self.given(asked)
        with told("sql"):
            return by_record.is_so(query, asked.views[topic])

    def given(self, asked: Question) -> DataFrame:
        spark = asked.spark
        with told("sql", asked.views), _seen(spark, asked.views):
            parser: Any = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark has no other way to it
            sql = self.sql.strip().rstrip(";")
            parser.parseQuery(sql)  # it refuses commands, which `sql` would execute
            return spark.sql(sql)


@contextmanager
def _seen(spark: SparkSession, views: Views) -> Iterator[None]:
    """Offer the topics as views of these names while the query is read."""
    names = {topic: "`" + topic.replace("`", "``") + "`" for topic in views}
    for topic, name in names.items():
        views[topic].createOrReplaceTempView(name)
    try:
        yield
    finally:
        for topic in names:
            spark.catalog.dropTempView(topic)  # it takes the plain name, and finds none in backquotes


@dataclass(frozen=True, slots=True)
class Function(Computed):
    """A Python function, which gets the topics as DataFrames by name, and the session.

    Attributes:
        python: ``module:function``.
        folder: the folder in which its module is looked for first.
    """

    python: str
    folder: str = ""
    declared: ClassVar[type[Way]] = ByFunction

    @property
    def called(self) -> str:
        return self.python

    def require_known(self, _asked: Question) -> None:
        """Import the function."""
        self._imported()

    def given(self, asked: Question) -> DataFrame:
        function = self._imported()
        asked.spark.sparkContext.pythonExec = sys.executable  # for Spark's Python workers, if the function needs them
        with _raised(self.python, "raised"):
            found = function(dict(asked.views), asked.spark)
        if not isinstance(found, DataFrame):
            raise ModelError(f"{self.python} returned a value of type {type(found).__name__}; return a Spark DataFrame")
        return found

    def _imported(self) -> Callable[..., Any]:
        module, _, name = self.python.partition(":")
        with _raised(self.python, "cannot be imported:"), _importable(module, self.folder):
            found = importlib.import_module(module)
            cloudpickle.register_pickle_by_value(found)  # type: ignore[no-untyped-call] # Spark's Python workers may not find it
        function: Callable[..., Any] | None = getattr(found, name, None)
        if not callable(function):
            raise ModelError(f"there is no function {name} in {module} ({getattr(found, '__file__', None) or 'built in'})")
        return function


@contextmanager
def _importable(module: str, folder: str) -> Iterator[None]:
    """Import from this folder first, and forget a module of this name that was imported from elsewhere."""
    top = module.partition(".")[0]
    there = importlib.machinery.PathFinder.find_spec(top, [folder]) if folder else None
    loaded = sys.modules.get(top)
    if there is not None and loaded is not None and getattr(loaded, "__file__", None) != there.origin:
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have changed it
            sys.path.remove(folder)


@contextmanager
def _raised(function: str, what: str) -> Iterator[None]:
    """Turn any exception of the user's code into a ModelError of one line.

    This is the third place with a broad ``except``: that code may raise anything. Its warnings are not errors, even where
    pytest turns warnings into errors.
    """
    try:
        with warnings.catch_warnings(), user_code.confined(_WITHIN_S):
            warnings.simplefilter("default")
            yield
    except (Exception, SystemExit) as error:
        frames = (one for one in reversed(extract_tb(error.__traceback__)) if not NOT_THEIRS.search(one.filename))
        place = next(
            (f" ({one.filename}:{one.lineno})" for one in frames if one.filename not in (__file__, user_code.__file__)), ""
        )
        said = f"{function} {what} {type(error).__name__}: {error}".splitlines()[0]
        raise ModelError(f"{one_line(said, LONGEST)}{place}") from error


_ALL: tuple[type[Definition], ...] = (Copy, Query, Function, Twin)


def of(way: Way, folder: Path) -> Definition:
    """Create the definition that a scenarios file declares.

    Args:
        folder: the folder of the run.
    """
    return next(said for said in _ALL if isinstance(way, said.declared)).of(way, folder)
