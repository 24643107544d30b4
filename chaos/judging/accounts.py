"""Judge the transactions of a run: what its internal topics and proxies account for."""

from dataclasses import replace
from pathlib import Path

from chaos.common.errors import InconclusiveError
from chaos.scenario.model import Scenario
from chaos.scenario.verifiers import BY_TRANSACTIONS
from verifiers.base import Finding
from verifiers.transactions import logs
from verifiers.transactions.verifier import RowsPerRecord


def of_run(scenario: Scenario, place: Path) -> Finding:
    """Judge the landed internal topics of a run as its scenario declares them.

    Raises:
        InconclusiveError: they are missing, or a part of them.
    """
    rows = scenario.pipeline.rows_per_record
    said = None if rows is None else RowsPerRecord(rows.min, rows.max)
    return accounted(place, said, timers=scenario.pipeline.timers)


def accounted(place: Path, rows_per_record: RowsPerRecord | None = None, *, timers: bool = False) -> Finding:
    """Judge the landed internal topics of a run. No other application writes to a run's topics, and the run is over.

    Raises:
        InconclusiveError: they are missing, or a part of them; a run always lands the proxies' observations, too.
    """
    there = [name for name in logs.SCHEMAS if (place / name).is_dir()]
    absent = next((place / name for name in logs.FROM_THE_WIRE if there and name not in there), None)
    if absent is not None:
        raise InconclusiveError(f"{absent} is missing, though the logs beside it are there: run the scenario again")
    try:
        found = logs.load(place)
    except logs.LogsError as error:
        raise InconclusiveError(str(error)) from error
    read = {position.topic for position in found.rows("positions")} | {logs.OFFSETS, logs.STATES}
    alone = frozenset(extent.topic for extent in found.rows("extents")) - read
    return replace(BY_TRANSACTIONS, alone=alone, rows_per_record=rows_per_record, timers=timers, of_a_run=True).check(found)
