"""Rows that a function yields, for `python` and `generator`. A separate process runs the function, which may do anything."""

import subprocess
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import pyarrow as pa
from pyarrow import parquet
from pydantic import Field, JsonValue

from chaos.common.errors import one_line
from chaos.grammar.base import Message
from chaos.loader import sources
from chaos.loader.rows_file import RowsError
from chaos.loader.sources import Function
from chaos.scenario.rows.base import Making, RowsBase

_MADE_WITHIN_S = 600.0


class FunctionRows(RowsBase):
    """Rows that a function yields."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {
        "with": Message("with-without-generator", "with has arguments for python or generator; leave `with` out")
    }

    arguments: dict[str, Annotated[JsonValue, Field(title="value")]] = Field(alias="with", default_factory=dict)
    """further arguments, by name, of the function of ``python`` or of the generator, beside the seed."""

    @property
    @abstractmethod
    def function(self) -> Function:
        """The function, for the process that runs it."""

    def make(self, making: Making) -> int:
        log = making.folder / "logs" / f"{making.path.stem}.log"
        _run(sources.command(self.function, making.seed, making.wanted, making.partitions, making.path), making.folder, log)
        try:
            return int(parquet.read_metadata(making.path).num_rows)
        except (OSError, pa.ArrowException):
            text = f"{self.function.name} ended its process before all rows were written; let it return instead"
            raise RowsError(text) from None


def _run(command: tuple[str, ...], folder: Path, log: Path) -> None:
    """Run the process that makes the rows; its log is beside the logs of others.

    Raises:
        RowsError: the process failed, and its last line says why; or it took too long.
    """
    log.parent.mkdir(exist_ok=True)
    try:
        with log.open("wb") as said:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder, timeout=_MADE_WITHIN_S, check=False
            )
    except subprocess.TimeoutExpired:
        raise RowsError(f"the rows were not complete within {_MADE_WITHIN_S:g} s; see {log}, or declare records") from None
    if ended.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"its process ended with {ended.returncode}"
        raise RowsError(one_line(reason, 300))
