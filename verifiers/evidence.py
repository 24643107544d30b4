"""Evidence on disk: what was observed and what was expected, as Parquet, so that it can be judged again without a cluster.

    <folder>/<subject>/expected/     id long, partition int, value string, required boolean, position long
    <folder>/<subject>/observed/     partition int, offset long, timestamp_ms long, key string, value string
    <folder>/<subject>/bounds.json   {"bounds": {"0": {"low": 0, "lso": 9, "hw": 9}, …}, "positions": {"0": 9, …}}

`bounds.json` is written last: where it is, the evidence is complete.
"""

import json
from dataclasses import asdict
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from verifiers.base import Bounds, Evidence

EXPECTED = {"id": "bigint", "partition": "int", "value": "string", "required": "boolean", "position": "bigint"}
OBSERVED = {"partition": "int", "offset": "bigint", "timestamp_ms": "bigint", "key": "string", "value": "string"}


class EvidenceError(ValueError):
    """Evidence is missing, incomplete or of another shape; the message says where and what to do."""


def write(folder: Path, evidence: Evidence) -> None:
    """Write one subject's evidence, replacing what was there.

    Raises:
        EvidenceError: a column is missing or of another type; nothing was written.
    """
    place = folder / evidence.subject
    expected = _columns(evidence.expected, EXPECTED, f"what is expected of the {evidence.subject}")
    observed = _columns(evidence.observed, OBSERVED, f"what was observed of the {evidence.subject}")
    place.mkdir(parents=True, exist_ok=True)
    (place / "bounds.json").unlink(missing_ok=True)
    expected.write.mode("overwrite").parquet(str(place / "expected"))
    observed.write.mode("overwrite").parquet(str(place / "observed"))
    bounds = {partition: asdict(ends) for partition, ends in evidence.bounds.items()}
    text = json.dumps({"bounds": bounds, "positions": dict(evidence.positions)}, indent=1)
    (place / "bounds.json").write_text(text + "\n", encoding="utf-8")


def load(spark: SparkSession, folder: Path, subject: str) -> Evidence:
    """Read one subject's evidence.

    Raises:
        EvidenceError: it is not there, was not completed, or is of another shape.
    """
    place = folder / subject
    try:
        meta = json.loads((place / "bounds.json").read_text(encoding="utf-8"))
        bounds = {int(partition): Bounds(**ends) for partition, ends in meta["bounds"].items()}
        positions = {int(partition): int(position) for partition, position in meta["positions"].items()}
    except FileNotFoundError:
        raise EvidenceError(f"{place} holds no complete evidence (bounds.json is missing): the run ended before it was landed; run it again") from None
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError(f"{place / 'bounds.json'} cannot be read ({error}): run the scenario again") from None
    return Evidence(subject, _read(spark, place / "expected", EXPECTED), _read(spark, place / "observed", OBSERVED), bounds, positions)


def _read(spark: SparkSession, place: Path, columns: dict[str, str]) -> DataFrame:
    try:
        return _columns(spark.read.parquet(str(place)), columns, str(place))
    except AnalysisException as error:
        raise EvidenceError(f"{place} is no Parquet folder ({error.getCondition()}): run the scenario again") from None


def _columns(frame: DataFrame, columns: dict[str, str], what: str) -> DataFrame:
    """The columns of the contract, in its order; others are left out."""
    types = dict(frame.dtypes)
    wrong = [f"{name} {kind} (there is {types.get(name, 'none')})" for name, kind in columns.items() if types.get(name) != kind]
    if wrong:
        raise EvidenceError(f"{what} lacks {', '.join(wrong)}; the contract is in verifiers/evidence.py")
    return frame.select(*columns)
