"""What may be under test, as a scenarios file declares it: any command, image or Spark job, or the loader alone.

How names and parameters are resolved: `chaos.scenario.declared`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from chaos.grammar.base import Declared, Location, WrongValueError, shown
from chaos.grammar.units import SomeSeconds, text_of_setting
from chaos.runtime.capabilities import Capability
from chaos.scenario.expected import Expected, ExpectedRows, HowManyRows
from chaos.scenario.rows import Written
from chaos.scenario.sinks import Sink
from chaos.scenario.topics import Reads, TopicSink
from chaos.subject import command, container, spark_submit
from chaos.subject.placeholders import names_in, partly_substituted

_IN_GROUP = frozenset({Capability.PIPELINE, Capability.CONSUMER_GROUP, Capability.GROUP_MEMBERS})
_ON_SPARK = frozenset({Capability.PIPELINE, Capability.SPARK, Capability.CHECKPOINT})
_IN_PYTHON = frozenset({Capability.PYTHON_WORKERS, Capability.COMMITTING_TASKS})


class Text(NamedTuple):
    """A text with placeholders, and those that there are at its place beside the names of topics."""

    text: str
    known: tuple[str, ...]


def _listed(key: str, texts: Iterable[str], known: tuple[str, ...]) -> dict[Location, Text]:
    return {(key, number): Text(text, known) for number, text in enumerate(texts)}


def _named(key: str, texts: Mapping[str, str], known: tuple[str, ...]) -> dict[Location, Text]:
    return {(key, name): Text(text, known) for name, text in texts.items()}


class NoPipeline(Declared):
    """``pipeline: none``: only the loader is under test, and the source topic is judged against its ledger."""

    kind: Literal["none"]

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The loader offers nothing that a fault may need."""
        return frozenset()

    @property
    def has_positions(self) -> bool:
        """There is nothing that could have any."""
        return False

    @property
    def keeps_headers(self) -> bool:
        """There is nothing that could change them."""
        return True

    @property
    def transactions(self) -> bool:
        """There is nothing that could use any."""
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        """Nothing is read."""
        return ()

    @property
    def sink(self) -> None:
        """Nothing is written."""
        return

    @property
    def texts(self) -> Mapping[Location, Text]:
        """Nothing has placeholders."""
        return {}


def _package(coordinates: str) -> str:
    if len([part for part in coordinates.split(":") if part]) != len(("group", "artifact", "version")) or " " in coordinates:
        example = "group:artifact:version, e.g. org.apache.spark:spark-avro_2.13:4.2.0"
        raise WrongValueError("not-a-package", f"{shown(coordinates)} does not name a package; write {example}")
    return coordinates


Package = Annotated[str, AfterValidator(_package)]
OwnName = Annotated[str, StringConstraints(min_length=1)]
Setting = Annotated[str, BeforeValidator(text_of_setting)]
Word = Annotated[str, StringConstraints(min_length=1)]
Model = Literal["identity", "square"]
Delivery = Literal["exactly_once", "at_least_once", "at_most_once"]
Restarts = Annotated[int, Field(strict=True, ge=0, le=100)]


class _InGroup(Declared):
    """A program whose positions are in a consumer group, if it has any.

    Attributes:
        kind: which kind of pipeline it is.
        reads: topics; of several, the workload fills one or more, and the others stay empty.
        sink: where it writes.
        group: the consumer group that holds its positions; it is needed, unless there are none.
        positions: ``none`` if it has none that can be asked for; in place of ``group``.
        delivery: what it promises: ``exactly_once``, ``at_least_once`` or ``at_most_once``. A pipeline that promises at most
            once may commit a position before its rows are there (`precedence`).
        model: what it makes of a value, by name: the same, which is the default, or its square.
        expected: what the sink must hold, in place of ``model``: ``source`` (a copy), or by a query or a function; or
            ``transactions``, where that is not said.
        rows_per_record: how many rows of the sink one record makes, at least and at most, or always; with it, transactions are
            asked too, also beside a model.
        timers: true if it writes rows that no record causes, by a timer or when a window closes by the clock; then transactions
            may write rows without moving a position, and more rows than their records make.
        identity: SQL over ``key`` and ``value``, beside the key: a row with both of a row that is expected, and not its value,
            is a wrong value. The default is the key alone.
        keeps_headers: false if it does not promise to copy the headers of a record; then they are not compared.
        transactional_ids: by source partition, or one with ``{partition}`` in it, for ``transaction_coordinator``; without them
            that is the coordinator of the id that was on the wire last.
        restarts: how often a copy that ended with an error is started again.
        environment: variables of the command.
        transactions: false if it uses none; then no fault may wait for their requests.
        speaks: what it reports on its standard output (docs/adapters.md).
        session_timeout_s: after which its group excludes a member that is silent, for ``outlasts`` of a pause.
        transaction_timeout_s: after which the coordinator aborts its transaction, for ``outlasts`` of a pause.
    """

    kind: str
    reads: Reads
    sink: TopicSink
    group: Word | Literal[""] = ""
    positions: Literal["none"] | None = None
    delivery: Delivery = "exactly_once"
    model: Model | None = None
    expected: Expected | None = None
    rows_per_record: HowManyRows | None = None
    timers: Annotated[bool, Field(strict=True)] = False
    identity: Written | None = None
    keeps_headers: Annotated[bool, Field(strict=True)] = True
    transactional_ids: tuple[Word, ...] = ()
    restarts: Restarts = 3
    environment: dict[str, Word] = Field(default_factory=dict)
    transactions: Annotated[bool, Field(strict=True)] = True
    speaks: tuple[Literal["started", "transactions", "deliveries"], ...] = ()
    session_timeout_s: SomeSeconds | None = Field(alias="session_timeout", default=None)
    transaction_timeout_s: SomeSeconds | None = Field(alias="transaction_timeout", default=None)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this pipeline offers to faults."""
        return _IN_GROUP if self.has_positions else frozenset({Capability.PIPELINE})

    @property
    def has_positions(self) -> bool:
        """Whether it can be asked how far it is."""
        return self.positions is None

    def texts_with(self, known: tuple[str, ...]) -> dict[Location, Text]:
        """Where all such programs may have these placeholders."""
        of_ids = tuple(dict.fromkeys((*known, "partition")))
        return {
            **_named("environment", self.environment, known),
            **({("group",): Text(self.group, known)} if self.group else {}),
            **_listed("transactional_ids", self.transactional_ids, of_ids),
        }

    @field_validator("group")
    @classmethod
    def _one_group(cls, group: str) -> str:
        if "partition" in names_in(group):
            raise WrongValueError(
                "group-with-partition",
                "the group must not contain {partition}: its positions in all partitions are read at once",
            )
        return group

    @model_validator(mode="after")
    def _positions_are_somewhere(self) -> Self:
        if self.has_positions and not self.group:
            raise WrongValueError(
                "positions-nowhere", "group is missing: the consumer group that holds its positions; or write positions: none"
            )
        if self.group and not self.has_positions:
            raise WrongValueError(
                "positions-denied",
                "group holds its positions, and positions: none says that there are none; leave one of them out",
            )
        return self

    def places(self, folder: Path) -> dict[str, Any]:
        """The values with paths that begin at this folder, as whole paths."""
        return {"expected": self.expected.below(folder)} if isinstance(self.expected, ExpectedRows) else {}


class CommandPipeline(_InGroup):
    """Any command that reads topics and writes one, in any language.

    Attributes:
        run: the command, word by word; with ``{partition}`` in it, one copy for each source partition.
        repeat: start a copy that ended without an error again, too: some commands stop at the end that the source had at
            their start.
        working_directory: where it runs; the path begins at the folder of the scenarios file. The default is the folder of the
            run.
        packages: what it needs from Maven Central, as ``group:artifact:version``, with all that these need; fetched once,
            before the run. ``{packages}`` is their class path.
    """

    kind: Literal["command"]
    run: Annotated[tuple[Word, ...], Field(min_length=1)]
    repeat: Annotated[bool, Field(strict=True)] = False
    working_directory: Word | None = None
    packages: tuple[Package, ...] = ()

    @model_validator(mode="after")
    def _packages_are_used(self) -> Self:
        named = any("packages" in names_in(text) for text in (*self.run, *self.environment.values()))
        if named and not self.packages:
            raise WrongValueError(
                "packages-missing",
                "packages is missing: {packages} is their class path; write packages: [group:artifact:version]",
            )
        if self.packages and not named:
            raise WrongValueError(
                "packages-not-named",
                "packages are a class path, and nothing here names it; write {packages} where it is needed",
            )
        return self

    @property
    def texts(self) -> Mapping[Location, Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return {**_listed("run", self.run, command.PLACEHOLDERS), **self.texts_with(command.PLACEHOLDERS)}

    def below(self, folder: Path) -> Self:
        """The same with the folder of the scenarios file in place of ``{project}``."""
        project = {"project": str(folder.resolve())}
        places: dict[str, Any] = {
            "run": tuple(partly_substituted(word, project) for word in self.run),
            "environment": {name: partly_substituted(value, project) for name, value in self.environment.items()},
            "working_directory": _whole(folder, self.working_directory),
        }
        return self.model_copy(update=places | self.places(folder))


class ContainerPipeline(_InGroup):
    """An image that reads topics and writes one: a container on the network of the run (``--chaos-runtime containers``).

    It sees no folder of this machine, so what it needs is in the image, which must be on this machine and have an ``sh``.
    Its user is that of the image.

    Attributes:
        image: its name. Nothing is pulled.
        command: what is given to the entrypoint of the image, word by word; the default is what the image has for it.
        restarts: how often the entrypoint is run again, in the same container, after it has ended with an error.
        environment: variables of the container.
    """

    kind: Literal["container"]
    image: Word
    command: tuple[Word, ...] = ()

    @property
    def texts(self) -> Mapping[Location, Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        known = container.PLACEHOLDERS
        return {**_listed("command", self.command, known), **self.texts_with(known)}

    def below(self, folder: Path) -> Self:
        """The same with whole paths."""
        return self.model_copy(update=self.places(folder))


def _whole(folder: Path, path: str | None) -> str | None:
    return None if path is None else str((folder / path).resolve())


class InGroup(Declared):
    """Positions that the job commits itself, in a consumer group.

    Attributes:
        group: the name of the group.
    """

    group: OwnName


def _positions(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in ("checkpoint", "none") or isinstance(value, Mapping | InGroup):
        return value
    known = "write checkpoint, or the consumer group: {group: NAME}, or none"
    raise WrongValueError("not-positions", f"{shown(value)} is not a place of positions; {known}")


class SparkSubmitPipeline(Declared):
    """Any Spark job that reads topics and writes one, or a table, in Python or in a jar.

    Attributes:
        kind: which kind of pipeline it is.
        reads: topics; of several, the workload fills one or more, and the others stay empty.
        sink: where it writes: a topic, or a table.
        application: a Python script or a jar; the path begins at the folder of the scenarios file.
        positions: where it says how far it is: in its checkpoint; in a consumer group, if it commits positions there itself; or
            nowhere, ``none``.
        delivery: what it promises: ``exactly_once``, ``at_least_once`` or ``at_most_once``. A pipeline that promises at most
            once may commit a position before its rows are there (`precedence`).
        arguments: of the application; ``{checkpoint}`` must be among them, unless there are no positions.
        main_class: of a jar, which needs it.
        configuration: settings of Spark.
        environment: variables of the driver.
        packages: what the job needs from Maven Central, as ``group:artifact:version``, with all that these need; fetched once,
            before the run, and put into ``spark.jars``.
        working_directory: where the driver runs; the path begins at the folder of the scenarios file. The default is the folder
            of the run.
        model: what it makes of a value, by name: the same, which is the default, or its square.
        expected: what the sink must hold, in place of ``model``: ``source`` (a copy), or by a query or a function; or
            ``transactions``, where that is not said.
        rows_per_record: how many rows of the sink one record makes, at least and at most, or always; with it, transactions are
            asked too, also beside a model.
        timers: true if it writes rows that no record causes, by a timer or when a window closes by the clock; then transactions
            may write rows without moving a position, and more rows than their records make.
        identity: SQL over ``key`` and ``value``, beside the key: a row with both of a row that is expected, and not its value,
            is a wrong value. The default is the key alone. Of a table: SQL over its columns, by which its rows are told apart.
        keeps_headers: false if it does not promise to copy the headers of a record; then they are not compared.
        transactional_ids: by source partition, or one with ``{partition}`` in it, for ``transaction_coordinator``; without them
            that is the coordinator of the id that was on the wire last.
        python_workers: true if the tasks of its sink run in Python workers, and commit there.
        transactions: false if it uses none; then no fault may wait for their requests.
        restarts: how often a driver that ended with an error is started again.
    """

    kind: Literal["spark_submit"]
    reads: Reads
    sink: Sink
    application: Annotated[str, StringConstraints(min_length=1)]
    positions: Annotated[Literal["checkpoint", "none"] | InGroup, BeforeValidator(_positions)] = "checkpoint"
    delivery: Delivery = "exactly_once"
    arguments: tuple[str, ...]
    main_class: str = ""
    configuration: dict[str, Setting] = Field(default_factory=dict)
    environment: dict[str, Setting] = Field(default_factory=dict)
    packages: tuple[Package, ...] = ()
    working_directory: Word | None = None
    model: Model | None = None
    expected: Expected | None = None
    rows_per_record: HowManyRows | None = None
    timers: Annotated[bool, Field(strict=True)] = False
    identity: Written | None = None
    keeps_headers: Annotated[bool, Field(strict=True)] = True
    transactional_ids: tuple[OwnName, ...] = ()
    python_workers: Annotated[bool, Field(strict=True)] = False
    transactions: Annotated[bool, Field(strict=True)] = True
    restarts: Restarts = 3

    @property
    def group(self) -> str:
        """Its consumer group; "" if its positions are in the checkpoint."""
        return self.positions.group if isinstance(self.positions, InGroup) else ""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this pipeline offers to faults; its group has no members."""
        of_group = {Capability.CONSUMER_GROUP} if self.group else set()
        unknown = set() if self.has_positions else {Capability.CHECKPOINT}
        return (_ON_SPARK | of_group | (_IN_PYTHON if self.python_workers else set())) - unknown

    @property
    def has_positions(self) -> bool:
        """Whether it can be asked how far it is."""
        return self.positions != "none"

    @property
    def texts(self) -> Mapping[Location, Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        known, of_names = spark_submit.PLACEHOLDERS, spark_submit.OF_NAMES
        return {
            **_listed("arguments", self.arguments, known),
            **_named("configuration", self.configuration, known),
            **_named("environment", self.environment, known),
            **({("positions", "group"): Text(self.group, of_names)} if self.group else {}),
            **_listed("transactional_ids", self.transactional_ids, (*of_names, "partition")),
            **{("sink", *place): Text(*text) for place, text in self.sink.texts.items()},
        }

    @field_validator("arguments")
    @classmethod
    def _with_checkpoint(cls, arguments: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        needed = others.data.get("positions") != "none"
        if needed and not any("checkpoint" in names_in(word) for word in arguments):
            raise WrongValueError(
                "checkpoint-missing",
                "{checkpoint} is missing: the job must keep its checkpoint there, where it is read, and damaged by faults",
            )
        return arguments

    @model_validator(mode="after")
    def _jars_have_a_class(self) -> Self:
        if self.application.endswith(".jar") and not self.main_class:
            raise WrongValueError("main-class-missing", "a jar needs main_class: the class whose main is the job")
        return self

    def below(self, folder: Path) -> Self:
        """The same with the whole path of its application, and the folder in place of ``{project}``."""
        project = {"project": str(folder.resolve())}
        places: dict[str, Any] = {
            "application": str((folder / self.application).resolve()),
            "arguments": tuple(partly_substituted(word, project) for word in self.arguments),
            "configuration": {name: partly_substituted(value, project) for name, value in self.configuration.items()},
            "environment": {name: partly_substituted(value, project) for name, value in self.environment.items()},
            "working_directory": _whole(folder, self.working_directory),
            "sink": self.sink.below(folder),
        }
        if isinstance(self.expected, ExpectedRows):
            places["expected"] = self.expected.below(folder)
        return self.model_copy(update=places)


Pipeline = Annotated[
    NoPipeline | CommandPipeline | ContainerPipeline | SparkSubmitPipeline,
    Field(discriminator="kind"),
]
