"""Reading the table of a pipeline with the pipeline's own Spark, when the pipeline has ended.

`chaos.contract.read_table` reads it. The driver and its executors are gone then, so nothing is added to the table meanwhile; if
the format has versions or snapshots, the last one is read.
"""

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InconclusiveError, one_line
from chaos.contract.read_table import ABOUT
from chaos.engine.error_lines import last_line
from chaos.engine.pipelines import endpoints
from chaos.engine.run_plan import RunPlan
from chaos.matching import table_rows
from chaos.runtime.base import Process, ProcessSpec

_READ_WITHIN_S = 300.0  # minutes for tables of some gigabytes; a database that does not answer takes no longer
_ENDED_WITHIN_S = 120.0  # a second on a quiet machine
_PLACE = "table"
_LOG = "table.log"
_ERROR = re.compile(r"(Error|Exception)\b")


def reading(plan: RunPlan, system: System) -> Callable[[], table_rows.Landed] | None:
    """Return a function that reads the table; None if a topic is written."""
    return None if plan.table is None else partial(read, plan, system)


def read(plan: RunPlan, system: System) -> table_rows.Landed:
    """Read the table; the rows are in the folder of the run.

    Raises:
        InconclusiveError: the table cannot be read; the message says what to mend.
    """
    pipeline, table = plan.pipeline, plan.table
    assert pipeline is not None  # noqa: S101 - a slip of ours, not of the user
    assert table is not None  # noqa: S101 - likewise
    place, scratch = plan.folder / _PLACE, plan.folder / "tmp"
    shutil.rmtree(place, ignore_errors=True)
    scratch.mkdir(exist_ok=True)
    _require_rest(system)
    command = pipeline.reader(endpoints(system, plan.client), plan.topics, plan.folder, place)
    env = {**command.env, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    log, hosts = plan.folder / "logs" / _LOG, (command.env["SPARK_LOCAL_IP"],)
    spec = ProcessSpec(_PLACE, tuple(command.argv), plan.folder, log, env, hosts)
    what = f"pipeline, sink, {table.kind}"
    _wait(system.runtime.start(spec), place / ABOUT, what)
    if not (place / ABOUT).exists():
        raise InconclusiveError(f"{what}: Spark could not read the table; logs/{_LOG}: {_error_in(log)}")
    return table_rows.read(place, table)


def _require_rest(system: System) -> None:
    """Wait until no task can add rows any more: executors that have lost their driver end by themselves, a little later.

    On a cluster that others use there is no wait: executors of others run there, too.
    """
    if not system.kafka.cluster.prefix:
        clock.wait_until(lambda: not system.spark.executors(), within_s=_ENDED_WITHIN_S, reason="the executors to end")


def _error_in(log: Path) -> str:
    """Return the last error of a log full of Spark's other lines, shortened."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = (line for line in reversed(lines) if _ERROR.search(line) and not line[:1].isspace())
    return one_line(next(errors, last_line(log)), 300)


def _wait(process: Process, about: Path, what: str) -> None:
    """Wait for the result, or for the end of the process: its supervisor ends by itself only if the reading fails."""
    try:
        clock.wait_until(lambda: about.exists() or not process.alive(), within_s=_READ_WITHIN_S, reason="the table to be read")
    except DeadlineError:
        raise InconclusiveError(f"{what}: Spark did not read the table within {_READ_WITHIN_S:g} s; see logs/{_LOG}") from None
    finally:
        process.stop()
