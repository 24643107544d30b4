"""Choose who compares a sink with the demanded records: the driver if both logs are small, executors if they are large."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from chaos.matching.fast import alignment, are_off, on_executors
from chaos.matching.fast.alignment import Copied
from verifiers.single_scan.groups import Limits

_DEFAULT = Limits()


def compare(
    wanted: DataFrame,
    sink: DataFrame,
    positions: Mapping[int, int],
    records: int,
    limits: Limits = _DEFAULT,
    *,
    doubles: bool = False,
) -> Copied | None:
    """Compare the sink with the demanded records; None if nothing is certain, or accelerators are off.

    Args:
        wanted: partition, offset, key and value of demanded records; the sink has these columns, too.
        positions: how far each partition of the source was processed; 0 for a missing partition.
        records: number of records in both logs, roughly.
        doubles: whether the doubles of the demanded records are counted, too.
    """
    if are_off():
        return None
    large = records >= limits.driver_rows
    found = on_executors.compare(wanted, sink, positions, records, limits, doubles=doubles) if large else None
    return alignment.compare(wanted, sink, positions, limits, doubles=doubles) if found is None else found
