"""`verifiers.audit`: is the sink exactly what the source demands?"""

from pyspark.sql import DataFrame

from verifiers.frames import judging, question, sums
from verifiers.frames.question import Expected, Key, Named, RowsError
from verifiers.frames.report import Report


def audit(
    source: DataFrame,
    sink: DataFrame,
    *,
    key: Key,
    order: Named = None,
    expected: Expected = None,
    columns: Named = None,
) -> Report:
    """Judge whether the sink holds each record of the source exactly once.

    Both frames are multisets: a record that is demanded n times and there m times is m - n duplicates, or n - m lost records.
    A row with the key of a record and other values is wrong, one with another key a phantom. `verifiers.duplicates`, `gaps`,
    `ordering` and `values` define the anomalies.

    The frames are read once if they agree; three times if they do not; once or twice more for the order, and again if it is
    wrong. They must have the same rows each time: what depends on chance or changes meanwhile cannot be judged. A cached
    frame, or a version of a table, holds still. Rows stay on the executors; only the first 32 examples of each finding come
    to the driver.

    Args:
        source: what went in; of any session, also of Spark Connect.
        sink: what came out; of the same session.
        key: what identifies a record: a column, several, SQL over the columns of both frames, or a `Column` (``F.col("id")``,
            not ``source.id``). It may recur. No demanded row may have a null in it.
        order: the column of the position, which rises in a group: an integer, a timestamp or a date; before it the columns of
            the group, if there are groups: ``("partition", "offset")`` for topics. Both frames need them. Rows of one group of
            the sink must have the order of their records, if these are in one group of the source. None: order is not judged.
        expected: the rows that the sink must hold: None for the source itself, SQL over a table ``source``, or a function of
            the source that returns a frame.
        columns: the columns that must be equal; None for all that both frames have, but those of key and order.

    Returns:
        The report; `Report.valid` says whether all is right.

    Raises:
        AuditError: the frames cannot be compared as asked; its subclass RowsError: the source is empty, a row has no key or
            position, or a frame was different when it was read again. The message says what to do. Errors of Spark's jobs,
            and of ``expected``, are not caught.
    """
    asked = question.ask(source, sink, key, order, expected, columns)
    found = sums.of(asked)
    if not found.records and source.isEmpty():
        raise RowsError("source is empty, so that nothing can be compared: read another one")
    return judging.report(asked, found)
