"""The rows that a sink must hold, defined by SQL over the source, by a Python function, or by a run without faults.

A query sees each topic that the pipeline reads as a view of the same name::

    key, value   string, as `chaos.matching.row_ids.text` writes bytes: UTF-8 as it is, anything else as 0x and hex
    partition    int, of the topic
    offset       long
    timestamp    timestamp

and returns the rows of the sink: ``key`` and ``value``, text or bytes, and optionally ``partition`` and ``offset``: the place
of the source record that demands the row. If each row has such a place, and no two share one, their order is known. A function
gets the same views as DataFrames by name, and the session, and returns such rows.

If the sink is a table, the rows have the columns of the table instead. They become text in the same way as the rows that were
read (`chaos.contract.read_table`).

A *twin* needs neither: its rows are those that the same pipeline wrote for the same workload without faults
(`chaos.engine.twins`). They are in the run's folder, already as text.

The rows are a multiset, and `chaos.matching.row_ids` decides which row of the sink answers which of them. A model has three
parts, each of which is one class: the definition of the rows (`said`), the form of the sink (`forms`), and the filled topics
(`sources`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from chaos.common.errors import one_line
from chaos.expectation import by_record, definitions, expressions, forms
from chaos.expectation.base import LONGEST, Hold, IsApart, ModelError, Views, all_of, nothing, told
from chaos.expectation.definitions import Copy, Definition, Question
from chaos.expectation.forms import Log, TableRows
from chaos.expectation.sources import OneTopic, SeveralTopics
from chaos.matching import fast, row_ids
from chaos.matching.demanded import Columns, Demanded
from chaos.matching.fast import integers
from chaos.matching.row_ids import Numbered, Numbering
from chaos.scenario.model import Scenario
from verifiers.findings import by_partition

_COPY, _LOG, _ONE_TOPIC = Copy(), Log(), OneTopic()


@dataclass(frozen=True, slots=True)
class Model:
    """The rows that a sink must hold.

    Attributes:
        identity: SQL over key and value; a row with an expected identity but another value has a wrong value, and any other
            row is unexpected; "" for none.
        stated_in: the place of the user's words: the declaration of a ``pipeline``, or the options of ``chaos audit topics``.
        integers: the topic that our own loader fills with integers; "" for the user's own rows.
    """

    said: Definition = _COPY
    form: Log = _LOG
    sources: OneTopic = _ONE_TOPIC
    identity: str = ""
    stated_in: Literal["pipeline", "options"] = "pipeline"
    integers: str = ""

    @property
    def is_source_itself(self) -> bool:
        """Whether each record of the source is a row of the sink, by its place."""
        return self.said.is_copy and not self.sources.unordered

    @property
    def compares_headers(self) -> bool:
        """Whether headers count as part of the value; queries and identities see values without headers."""
        return self.said.keeps_headers and not self.identity

    def of_columns(self, columns: Columns) -> "Model":
        """Return this model for a sink that is a table with these columns."""
        return replace(self, form=TableRows(columns))

    def told(self, error: ModelError) -> str:
        """Prefix an error with its key or option."""
        if self.stated_in == "options":
            return f"--identity {self.identity}: {error}" if error.of_identity else f"--expected-sql: {error}"
        key = "identity" if error.of_identity else f"expected, {self.said.declared.key}"
        return f"pipeline, {key}: {error}"

    def require_known(self, spark: SparkSession, topics: Sequence[str]) -> None:
        """Check what can be checked without records: Spark reads the query and the identity, the function is imported.

        Raises:
            ModelError: the model has an error.
        """
        self.said.require_known(self._question(spark, {topic: nothing(spark) for topic in topics}))
        if self.identity and not self.form.identity_is_key:
            wrong = expressions.why_no_sql(nothing(spark).select("key", "value"), self.identity)
            if wrong:
                raise ModelError(f"{one_line(wrong, LONGEST)} The columns are key, value.", of_identity=True)

    def is_by_record(self, spark: SparkSession, topics: Sequence[str]) -> bool:
        """Whether each integer demands one row with its own key and place, so that the keys of rows are their ids."""
        if not self.integers or self.identity or self.form.counts_records or fast.are_off():
            return False
        question = self._question(spark, {topic: by_record.unread(spark) for topic in topics})
        try:
            return self.said.is_by_record(question, self.integers)
        except ModelError:
            return False

    def by_keys(
        self, spark: SparkSession, views: Views, partitions: int, otherwise: Callable[[], Numbering], *, anywhere: bool
    ) -> Numbering:
        """Number rows by their keys, if the model `is_by_record`; `otherwise` is for keys that are not ids after all."""
        try:
            demanded = self.said.contracted(self._question(spark, views))
        except ModelError as error:
            return row_ids.unsaid(self.told(error))
        return integers.of_sink(demanded, partitions, anywhere=anywhere, otherwise=otherwise)

    def numbering(
        self, spark: SparkSession, views: Views, positions: Mapping[int, int], lines: int, *, anywhere: bool
    ) -> Numbering:
        """Number the expected rows of the sink, or give the reason why that is impossible.

        Args:
            views: the topics that are read; beside a single filled topic, the partitions of others have other numbers.
            positions: the positions of the pipeline in them.
            lines, anywhere: as in `chaos.matching.row_ids`.
        """
        if self.is_source_itself:
            of_source = row_ids.of_sink(all_of(views), positions, lines, anywhere=anywhere, identity=self.identity)
            return self._guarded(of_source)
        try:
            found = self.due(spark, views, positions)
        except ModelError as error:
            return row_ids.unsaid(self.told(error))
        return self.answering(found, positions, lines, anywhere=anywhere)

    def demanded(
        self, spark: SparkSession, views: Views, hold: Hold = row_ids.held, is_apart: IsApart | None = None
    ) -> Demanded:
        """Compute the rows that the sink must hold in the end. Not for a copy of one topic, whose rows are its records.

        Raises:
            ModelError: the rows cannot be determined.
        """
        return self.said.demanded(replace(self._question(spark, views), hold=hold, is_apart=is_apart))

    def due(
        self,
        spark: SparkSession,
        views: Views,
        positions: Mapping[int, int],
        hold: Hold = row_ids.held,
        is_apart: IsApart | None = None,
    ) -> Demanded:
        """Compute the rows that the sink must hold once the pipeline has reached these positions.

        Raises:
            ModelError: the rows cannot be determined.
        """
        self.said.require_same(self._question(spark, views))
        found = self.demanded(spark, views, hold, is_apart)
        left = self.sources.left(views, positions)
        if left:
            self._require_by_record(spark, views, positions, found, left)
        return replace(found, left=left)

    def answering(self, found: Demanded, positions: Mapping[int, int], lines: int, *, anywhere: bool) -> Numbering:
        """Find the rows of the sink that answer these; arguments as in `numbering`."""
        as_they_are = not self.said.is_copy
        number = self.form.answering(
            found, positions, lines, anywhere=anywhere, identity=self.identity, as_they_are=as_they_are
        )
        return number if self.form.identity_is_key else self._guarded(number)

    def _question(self, spark: SparkSession, views: Views) -> Question:
        return Question(spark, views, self.form, self.sources, self.identity)

    def _guarded(self, number: Numbering) -> Numbering:
        """Report an identity that cannot be computed for some row of the sink, instead of raising."""

        def guarded(observed: DataFrame) -> Numbered:
            try:
                with told("identity"):
                    return number(observed)
            except ModelError as error:
                return row_ids.unsaid(self.told(error))(observed)

        return guarded if self.identity else number

    def _require_by_record(
        self, spark: SparkSession, views: Views, positions: Mapping[int, int], found: Demanded, left: int
    ) -> None:
        """Raise ModelError unless the processed records demand the same rows whatever else is in the source.

        A total of all records is not the total of those that the pipeline has read so far.
        """
        processed, called = f"offset < {by_partition(positions)}", self.said.called
        reason = f"the pipeline has not reached the end of {self.sources.called} ({left} records are left), and"
        undue = self.form.undue(called, self.sources)
        if undue:
            raise ModelError(f"{reason} {undue}")
        if not found.placed:
            raise ModelError(
                f"{reason} {called} gives no partition and offset of the source, so it is unknown which rows are due"
            )
        now = self.demanded(spark, {topic: records.where(processed) for topic, records in views.items()}).rows
        then = found.rows.where(processed)
        if now.exceptAll(then).take(1) or then.exceptAll(now).take(1):
            raise ModelError(
                f"{reason} {called} gives other rows for the records read so far than for all, so it is unknown which are due"
            )


def of_scenario(scenario: Scenario, folder: Path = Path()) -> Model | None:
    """Create the model of a scenario's pipeline; None if integers are judged by their keys, or if there is no sink.

    Args:
        folder: the folder of the run, which has the rows of a twin.
    """
    pipeline = scenario.pipeline
    if pipeline.sink is None or not pipeline.way.compares_rows:
        return None
    identity, sources = pipeline.identity or "", OneTopic()
    if scenario.workload.also:
        sizes = [scenario.topics[topic].partitions for topic in scenario.filled]
        sources = SeveralTopics({topic: sum(sizes[:number]) for number, topic in enumerate(scenario.filled)})
    integers = "" if sources.unordered or scenario.workload.rows is not None else scenario.source
    if pipeline.way.gives_rows:
        return Model(definitions.of(pipeline.way, folder), forms.of_scenario(scenario), sources, identity, integers=integers)
    return Model(identity=identity, sources=sources) if identity or not integers else None


def compares_headers(scenario: Scenario) -> bool:
    """Whether headers count as part of the value."""
    model = of_scenario(scenario)
    return scenario.pipeline.keeps_headers and (model is None or model.compares_headers)
