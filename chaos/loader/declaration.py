"""The loader: it writes the integers 0, 1, 2, … as decimal strings, as key and value, at a steady rate, and keeps a ledger.

Id ``i`` goes to partition ``i mod P``. Rows of one's own are in a file instead (`chaos.loader.rows_file`). The ledger is
described in `chaos.loader.plain`, and what transactions change in `chaos.loader.transactions`. The process is
`chaos.loader.process`. A loader of the user's own is run by `chaos.loader.user_loader`.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from chaos.common import files
from chaos.contract.base import Command, Endpoints, Topics
from chaos.contract.clients import option_variables
from chaos.contract.placeholders import of_topics, substituted
from chaos.loader import user_loader
from chaos.loader.plain import Producing
from chaos.loader.transactions import transactional_id

LEDGER = "ledger.csv"
PLACEHOLDERS = (
    *("bootstrap", "source", "records", "rate", "seed", "folder", "prefix", "suffix"),
    *("java", "kafka_tools", "python", "project"),
)
"""Of a loader of the user's own."""


def marked(file: str, mark: str) -> str:
    """The name of a file with the mark of its topic (`chaos.scenario.model.Scenario.marks`): ``ledger-customers.csv``."""
    return f"{Path(file).stem}{mark}{Path(file).suffix}"


@dataclass(frozen=True, slots=True)
class FillSource:
    """The loader.

    Attributes:
        records: how many ids, or rows.
        rate_per_s: records per second.
        rows: the file of rows of one's own; None for the integers.
        ledger: the name of its file, in the folder of the run.
    """

    records: int
    rate_per_s: float
    producing: Producing = field(default_factory=Producing)
    rows: Path | None = None
    ledger: str = LEDGER

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The process, which ends by itself; what it is told is in a file beside its ledger."""
        told = {
            "bootstrap": endpoints.kafka,
            "topic": topics.source,
            "partitions": topics.partitions,
            "records": self.records,
            "rate_per_s": self.rate_per_s,
            "rows": str(self.rows) if self.rows else None,
            "ledger": str(folder / self.ledger),
            "producing": asdict(self.producing),
        }
        file = (folder / self.ledger).with_suffix(".json")
        files.write_atomically(file, json.dumps(told, indent=1))
        return Command((sys.executable, "-m", "chaos.loader.process", str(file)), option_variables(endpoints))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """The same one for every partition; empty without transactions."""
        return (transactional_id(topics.source),) * topics.partitions if self.producing.transaction_records else ()

    def expected(self, spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
        """What the source must contain according to the ledger, where integers are sent.

        Returns:
            id long, partition int, value string, required boolean (False when the outcome is unknown), position long (null).
        """
        ledger = spark.read.csv(
            str(folder / self.ledger), header=True, schema="id long, outcome string, partition int, offset long"
        )
        return ledger.where("outcome <> 'fail'").selectExpr(
            "id",
            f"CAST(id % {partitions} AS INT) AS partition",
            "CAST(id AS STRING) AS value",
            "outcome = 'ok' AS required",
            "CAST(NULL AS BIGINT) AS position",
        )


@dataclass(frozen=True, slots=True)
class UserLoader:
    """A loader of the user's own, which writes to the topic itself, and says what it was told (docs/adapters.md).

    Attributes:
        words: the command, with `PLACEHOLDERS` and names of topics.
        records: how many it must send.
        rate_per_s: how many in a second it should send; it is told, and not held to it.
        programs: what ``{java}`` and ``{kafka_tools}`` stand for.
        environment: its variables, whose values may have placeholders, too.
        working_directory: where it runs; "" for the folder of the run.
        ledger: the name of its file, in the folder of the run.
    """

    words: tuple[str, ...]
    records: int
    rate_per_s: float
    seed: int
    programs: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = ""
    ledger: str = LEDGER

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The process that runs it, and writes its ledger when it has ended."""
        numbers = {"records": str(self.records), "rate": f"{self.rate_per_s:g}", "seed": str(self.seed)}
        places = {"bootstrap": endpoints.kafka, "folder": str(folder), "python": sys.executable, "source": topics.source}
        known = {**of_topics(topics), **self.programs, **numbers, **places}
        words = [substituted(word, known) for word in self.words]
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        run = user_loader.command(words, self.records, topics.partitions, folder / self.ledger, self.working_directory)
        return Command(run, {**environment, **option_variables(endpoints)})

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:  # noqa: ARG002
        """It does not say whether it has any."""
        return ()
