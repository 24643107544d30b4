"""What `--identity` and `--model` say: what identifies a record, and which value its row must have.

``dense-key``   the key is a decimal number; id ``i`` is number ``i div P`` of line ``i mod P``
``key``         any key, which may recur; a record's place in the source is its id
``header:NAME`` a header, treated like a key (`chaos.audit.logs` lands it as the key)
an expression  SQL over key, value and headers, treated like a key; ``get_json_object(value, '$.order_id')`` for example

How rows answer records is in `chaos.audit.prepared`.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from traceback import extract_tb

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit.logs import AuditUsageError
from chaos.common import user_code
from chaos.common.errors import one_line
from chaos.expectation import expressions

DENSE, KEY = "dense-key", "key"
IDENTITY = "identity"
_HEADER = "header:"
_COLUMNS = {"key": "string", "value": "string"}
_HEADERS = {"headers": "array<struct<key: string, value: binary>>"}  # as Spark's Kafka source has them

_NOT_THEIRS = re.compile(rf"{re.escape(__file__)}|/chaos/common/|/contextlib\.py|/importlib/|<frozen |/pyspark/|/py4j/")

Model = Callable[[Column], Column]


def copied(value: Column) -> Column:
    """The model of a copy."""
    return value


def model(name: str) -> Model:
    """Load a model, ``identity`` or ``module:function``: it maps the source's value to the sink's, both string columns.

    Raises:
        AuditUsageError: there is no such function, or its module cannot be imported.
    """
    if name == IDENTITY:
        return copied
    module, _, function = name.partition(":")
    if not module or not function:
        raise AuditUsageError(f"--model {name}: must be identity, or module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with _told(name, "cannot be imported"):
            found = getattr(importlib.import_module(module), function, None)
    finally:
        with suppress(ValueError):  # the module may have changed it
            sys.path.remove(str(Path.cwd()))
    if not callable(found):
        there = "is not a function" if found is not None else "does not exist"
        raise AuditUsageError(f"--model {name}: {function} {there} in {module}; name one of its functions")
    return partial(_called, name, found)


def _called(name: str, function: Callable[[Column], object], value: Column) -> Column:
    """Apply the user's function to a column."""
    with _told(name, "failed"):
        found = function(value)
    if not isinstance(found, Column):
        returned = "None" if found is None else f"a value of type {type(found).__name__}"
        raise AuditUsageError(
            f"--model {name}: returned {returned}; it must return a Column derived from the Column that it is given"
        )
    return found


@contextmanager
def _told(name: str, what: str) -> Iterator[None]:
    """Turn whatever the user's code raises, also SystemExit, into one line."""
    try:
        with user_code.confined():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = f"exit({error.code!r}) was called" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        said = str(error) if isinstance(error, user_code.OverdueError) else said
        raise AuditUsageError(f"--model {name}: {what}: {one_line(said)}{_in_their_code(error)}; mend the model") from error


def _in_their_code(error: BaseException) -> str:
    """Return file and line of the user's code that failed, if the error came from there."""
    frames = (one for one in reversed(extract_tb(error.__traceback__)) if not _NOT_THEIRS.search(one.filename))
    return next((f" ({one.filename}:{one.lineno})" for one in frames), "")


def sql(identity: str) -> str:
    """Return the identity of a record as SQL over key and value (strings) and headers."""
    if identity in (DENSE, KEY):
        return "key"
    name = identity.removeprefix(_HEADER).replace("\\", "\\\\").replace("'", "\\'")
    return f"get(filter(headers, header -> header.key = '{name}'), 0).value" if identity.startswith(_HEADER) else identity


def require_known(spark: SparkSession, identity: str, demanded: Model, *, headers: bool) -> None:
    """Raise AuditUsageError unless Spark can resolve the identity and the model, and both depend on one record alone.

    Args:
        headers: whether records have headers: in topics they do, in folders they do not.
    """
    is_own = demanded is not copied
    if identity in (DENSE, KEY) and not is_own:
        return
    columns = _COLUMNS | (_HEADERS if headers else {})
    nothing = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    wrong = expressions.why_not(nothing, demanded(F.col("value")), may_be_constant=True) if is_own else ""
    if wrong:
        raise AuditUsageError(f"--model: its result cannot be judged: {wrong}")
    if identity in (DENSE, KEY):
        return
    wrong = expressions.why_no_sql(nothing, sql(identity))
    if wrong:
        raise AuditUsageError(f"--identity {identity}: {wrong} The columns are {', '.join(columns)}.")
