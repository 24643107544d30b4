"""Declaration of the loader: it writes the integers 0, 1, 2, … as key and value at a steady rate, and keeps a ledger.

Integers are decimal strings; id ``i`` goes to partition ``i mod P``. The user's own rows come from a file
(`chaos.loader.rows_file`). `chaos.loader.plain` describes the ledger, and `chaos.loader.transactions` what transactions change.
The process is `chaos.loader.process`. `chaos.loader.user_loader` runs a loader of the user.
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
from chaos.contract.variables import held_back
from chaos.loader import user_loader
from chaos.loader.plain import Producing
from chaos.loader.transactions import transactional_id

LEDGER = "ledger.csv"
PLACEHOLDERS = (
    *("bootstrap", "source", "records", "rate", "seed", "folder", "prefix", "suffix"),
    *("java", "kafka_tools", "python", "project"),
)
"""Placeholders in the command of a user's own loader."""


def marked(file: str, mark: str) -> str:
    """Add the mark of its topic to a file's name (`chaos.scenario.model.Scenario.marks`): ``ledger-customers.csv``."""
    return f"{Path(file).stem}{mark}{Path(file).suffix}"


@dataclass(frozen=True, slots=True)
class FillSource:
    """The loader of this project.

    Attributes:
        records: number of ids, or of rows.
        rate_per_s: records per second.
        rows: the file with the user's own rows; None for the integers.
        ledger: the ledger's file name, in the folder of the run.
    """

    records: int
    rate_per_s: float
    producing: Producing = field(default_factory=Producing)
    rows: Path | None = None
    ledger: str = LEDGER

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """Return the command of the process, which ends by itself; its orders are in a file beside its ledger."""
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
        """Repeat the loader's one transactional.id for every partition; empty without transactions."""
        return (transactional_id(topics.source),) * topics.partitions if self.producing.transaction_records else ()

    def expected(self, spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
        """Read from the ledger what the source must contain; for integers only.

        Returns:
            id long, partition int, value string, required boolean (False if the outcome is unknown), position long (null).
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
    """A loader of the user's own: it writes to the topic itself, and reports the outcomes (docs/adapters.md).

    Attributes:
        words: the command, with `PLACEHOLDERS` and names of topics.
        records: number of records that it must send.
        rate_per_s: records per second that it should send; the rate is passed on, and not enforced.
        programs: values of ``{java}`` and ``{kafka_tools}``.
        environment: its variables, whose values may have placeholders, too.
        working_directory: the folder in which it runs; "" for the folder of the run.
        ledger: the ledger's file name, in the folder of the run.
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
        """Return the command of the process that runs the loader, and writes its ledger when it has ended."""
        numbers = {"records": str(self.records), "rate": f"{self.rate_per_s:g}", "seed": str(self.seed)}
        places = {"bootstrap": endpoints.kafka, "folder": str(folder), "python": sys.executable, "source": topics.source}
        known = {**of_topics(topics), **self.programs, **numbers, **places}
        words = [substituted(word, known) for word in self.words]
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        run = user_loader.command(words, self.records, topics.partitions, folder / self.ledger, self.working_directory)
        return Command(run, {**held_back(environment), **option_variables(endpoints)})

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:  # noqa: ARG002
        """Return none: whether a user's loader has one is unknown."""
        return ()
