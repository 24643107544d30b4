"""`verifiers.audit`: any two DataFrames of any Spark session, judged by the definitions of the verifiers.

It uses the DataFrame API only, so that it works on Spark Connect too, and no row reaches the driver but the shown examples.

    question    what the caller asks: columns, keys, order, expected rows; bad input is refused here
    sums        one aggregation that proves buckets of keys equal, so that only the others are compared row by row
    matching    which row of the sink answers which record of the source
    order       which rows are out of place
    report      what a person, a notebook and a program read
"""

from verifiers.frames.auditing import audit
from verifiers.frames.question import AuditError, RowsError
from verifiers.frames.report import Report

__all__ = ["AuditError", "Report", "RowsError", "audit"]
