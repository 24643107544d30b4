"""The question of an audit: two frames in one form, or an `AuditError` that says what is wrong with them.

Both frames are brought into these columns, so that names of the user's columns never meet names of the audit's:

    k      struct, the key; its fields are k0, k1, …
    v      struct, the compared columns c0, c1, …; a field that is always 0 if there are none
    g      struct, the group within which rows are ordered, g0, …; likewise
    n      long, the position in the group: the number itself, microseconds of a timestamp, or days; 0 without an order
    row    struct, all columns of the user's

Integers are compared as the wider type, and so are decimals. All other types must be equal.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it
from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType, StructType, UserDefinedType

Key = str | Column | Sequence[str | Column]
Named = str | Sequence[str] | None
Expected = str | Callable[[DataFrame], DataFrame] | None

_NAME = re.compile(r"\w+")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_POSITIONS = {
    **dict.fromkeys(_INTEGERS, "CAST({} AS BIGINT)"),
    "timestamp": "unix_micros({})",
    "date": "CAST(unix_date({}) AS BIGINT)",
}
_UNLIKE = {"MapType": "a map", "VariantType": "a variant"}  # what Spark neither groups nor sorts
_MOST_DIGITS = 38


class AuditError(ValueError):
    """The frames cannot be audited as asked; the message is one line that says what to do."""


class RowsError(AuditError):
    """The question is right, and the rows of the frames cannot be judged: no key, no rows, or others at the next reading."""


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of an audit, as people know them.

    Attributes:
        key: a name or an expression for each part of the key.
        compared: columns that must be equal.
        uncompared: columns that only one frame has, and in which.
        order: columns of groups, and last the position; empty if order is not asked.
        position: SQL type of the position.
    """

    key: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]
    order: tuple[str, ...]
    position: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Two frames in one form.

    Attributes:
        demanded, sink: frames of the user; ``demanded`` is the source, or what ``expected`` makes of it.
        ours, theirs: ``demanded`` and ``sink``, with the columns k, v, g, n and row.
        hashed: SQL over k and v; equal rows have equal values, and unlike rows differ in some.
    """

    demanded: DataFrame
    sink: DataFrame
    ours: DataFrame
    theirs: DataFrame
    names: Names
    hashed: tuple[str, ...]


def ask(source: DataFrame, sink: DataFrame, key: Key, order: Named, expected: Expected, columns: Named) -> Question:
    """Bring the frames into one form; no job is started.

    Raises:
        AuditError: they cannot be compared as asked.
    """
    _require_frame("source", source)
    _require_frame("sink", sink)
    _require_one_session(source, sink)
    demanded = source if expected is None else _demanded(source, sink, expected)
    sides = (_side("source" if expected is None else "expected", demanded), _side("sink", sink))
    keys, plain = _keys(sides, key)
    placed = _order(sides, order)
    compared, uncompared = _compared(sides, {*plain, *(name.casefold() for name in placed)}, columns)
    k = _pairs(sides, "key", "k", keys)
    v = _pairs(sides, "column", "c", [*map(_named, compared)])
    g = _pairs(sides, "order column", "g", [*map(_named, placed[:-1])])
    n, position = _positions(sides, placed)
    forms = [
        _formed(side, F.struct(*k[at]).alias("k"), _struct(v[at]).alias("v"), _struct(g[at]).alias("g"), n[at])
        for at, side in enumerate(sides)
    ]
    names = Names(tuple(label for label, _ in keys), compared, uncompared, placed, position)
    return Question(demanded, sink, forms[0], forms[1], names, tuple(_hashed(forms[1].schema)))


# frames and sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """One frame, and what messages call it.

    Attributes:
        columns: column in lower case, as Spark looks it up -> column.
    """

    name: str
    frame: DataFrame
    columns: Mapping[str, str]

    def quoted(self, name: str) -> str:
        """SQL: the column of this name."""
        return _quoted(self.columns[name.casefold()])


def _side(name: str, frame: DataFrame) -> _Side:
    return _Side(name, frame, {column.casefold(): column for column in frame.columns})


def _require_frame(name: str, frame: DataFrame) -> None:
    kind = type(frame)
    if not hasattr(frame, "sparkSession"):
        raise AuditError(f"{name} is a {kind.__module__}.{kind.__qualname__}, not a Spark DataFrame: use spark.createDataFrame")
    _require_alive(name, frame)
    if frame.isStreaming:
        raise AuditError(f"{name} is a streaming frame, which is never read twice: write it to a table, and audit that")
    lower = [column.casefold() for column in frame.columns]
    for column in frame.columns:
        if lower.count(column.casefold()) > 1:
            raise AuditError(f"{name} has two columns named {column}: rename or drop one of them")


def _require_alive(name: str, frame: DataFrame) -> None:
    try:
        _ = frame.sparkSession.range(1).schema
    except _OF_STOPPED_SESSIONS:
        raise AuditError(f"the Spark session of {name} is stopped: start one, and make the frame again") from None


def _gateway_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a lost JVM; a PySpark for Connect alone comes without Py4J, and has none."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - may be missing
    except ImportError:
        return ()
    return (Py4JError,)


_OF_STOPPED_SESSIONS: tuple[type[Exception], ...] = (AttributeError, ValueError, PySparkException, *_gateway_errors())


def _require_one_session(source: DataFrame, sink: DataFrame) -> None:
    if source is sink:
        raise AuditError("source and sink are the same frame: an audit of it would prove nothing")
    one, other = (_session(frame) for frame in (source, sink))
    if one is not other and one != other:
        raise AuditError("source and sink are of different Spark sessions: read both with one session")
    if source.sameSemantics(sink) and source.inputFiles():
        raise AuditError("source and sink read the same files with the same query: an audit of it would prove nothing")


def _session(frame: DataFrame) -> Any:
    """Return what is equal for equal sessions: PySpark may wrap one session of the JVM twice."""
    session = frame.sparkSession
    return getattr(session, "_jsparkSession", session)


def _demanded(source: DataFrame, sink: DataFrame, expected: str | Callable[[DataFrame], DataFrame]) -> DataFrame:
    if isinstance(expected, str):
        query = expected.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
        with_source = f"WITH source AS (SELECT * FROM {{source}}) SELECT * FROM (\n{query}\n)"  # noqa: S608 - it is the caller's own query
        try:
            demanded = source.sparkSession.sql(with_source, source=source)
            _ = demanded.schema
        except PySparkException as error:
            raise AuditError(f"expected: Spark refuses the query: {first_line(error)}") from None
    else:
        demanded = expected(source)
    if not hasattr(demanded, "sparkSession"):
        raise AuditError(f"expected returned {type(demanded).__name__}, not a DataFrame: return a frame made of the source")
    _require_frame("expected", demanded)
    if demanded is sink:
        raise AuditError("expected returned the sink: return a frame made of the source")
    return demanded


def changed_meanwhile() -> RowsError:
    """The error for frames that are not the same each time."""
    return RowsError(
        "source or sink had other rows when it was read again: it depends on chance or the time, or it grew; "
        "cache it, write it down, or read one version of the table"
    )


def first_line(error: Exception) -> str:
    """Return what an error of Spark says, without its query plan."""
    return str(error).strip().partition("\n")[0].rstrip(";")


# columns ---------------------------------------------------------------------------------------------------------------------

_Part = tuple[str, Callable[[_Side], Column]]
"""What people call it, and what it is in a frame."""


def _named(name: str) -> _Part:
    return name, lambda side: F.col(side.quoted(name))


def _made(label: str, column: Column) -> _Part:
    return label, lambda _: column


def _keys(sides: Sequence[_Side], key: Key) -> tuple[list[_Part], set[str]]:
    """Return the parts of the key, and the plain columns among them, in lower case."""
    asked = list(key) if isinstance(key, Sequence) and not isinstance(key, str) else [key]
    if not asked:
        raise AuditError("key is empty: name the columns that identify a record")
    parts: list[_Part] = []
    plain = set()
    for one in asked:
        if not isinstance(one, str):
            parts.append(_made(_text(one), one))
        elif any(one.casefold() in side.columns for side in sides) or _NAME.fullmatch(one):
            _require_column(sides, "key", one)
            parts.append(_named(one))
            plain.add(one.casefold())
        else:
            parts.append(_made(one, _expression(one)))
    return parts, plain


def _expression(text: str) -> Column:
    try:
        return F.expr(text)
    except PySparkException as error:
        raise AuditError(f"key {text}: Spark refuses it: {first_line(error)}") from None


def _text(column: Column) -> str:
    found = re.fullmatch(r"Column<b?'(.*)'>", str(column), re.DOTALL)
    return found[1] if found else str(column)


def _order(sides: Sequence[_Side], order: Named) -> tuple[str, ...]:
    placed = _names(order)
    for name in placed:
        _require_column(sides, "order", name)
    return placed


def _names(names: Any) -> tuple[Any, ...]:
    """Return one name or several as a tuple; what is no name, such as a `Column`, too."""
    if isinstance(names, str) or hasattr(names, "alias"):
        return (names,)
    return () if names is None else tuple(names)


def _compared(sides: Sequence[_Side], used: set[str], columns: Named) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns to be compared, and those that only one frame has."""
    ours, theirs = (side.columns for side in sides)
    if columns is not None:
        chosen = _names(columns)
        for name in chosen:
            _require_column(sides, "columns", name)
        return tuple(dict.fromkeys(name for name in chosen if name.casefold() not in used)), ()
    both = [name for lower, name in ours.items() if lower in theirs and lower not in used]
    alone = [
        f"{name} ({side.name})"
        for side, others in zip(sides, (theirs, ours), strict=True)
        for lower, name in side.columns.items()
        if lower not in others and lower not in used
    ]
    return tuple(both), tuple(alone)


def _require_column(sides: Sequence[_Side], what: str, name: Any) -> None:
    if not isinstance(name, str):
        raise AuditError(f"{what}: {_text(name)} is no name of a column: add a column to both frames, and name it")
    for side in sides:
        if name.casefold() not in side.columns:
            near = get_close_matches(name, side.frame.columns, n=1)
            meant = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(side.frame.columns)}"
            raise AuditError(f"{what}: {side.name} has no column {name}; {meant}")


def _pairs(sides: Sequence[_Side], what: str, prefix: str, parts: Sequence[_Part]) -> tuple[list[Column], list[Column]]:
    """Return the columns of both frames, cast to their common types and named by prefix and number."""
    columns = [[column(side) for _, column in parts] for side in sides]
    types = [_types(side, what, parts, found) for side, found in zip(sides, columns, strict=True)]
    pairs: tuple[list[Column], list[Column]] = ([], [])
    for at, (label, _) in enumerate(parts):
        common = _common(f"{what} {label}", types[0][at], types[1][at], sides)
        for found, pair in zip(columns, pairs, strict=True):
            pair.append((found[at].cast(common) if common else found[at]).alias(f"{prefix}{at}"))
    return pairs


def _types(side: _Side, what: str, parts: Sequence[_Part], columns: Sequence[Column]) -> list[DataType]:
    """Return the types of the columns; in a struct, because Spark refuses there what is not one value for each row."""
    if not columns:
        return []
    try:
        both = side.frame.select(F.struct(*(one.alias(f"_{at}") for at, one in enumerate(columns))).alias("s"), F.col("*"))
        found = both.schema["s"].dataType
    except PySparkException as error:
        labels = ", ".join(label for label, _ in parts)
        hint = "; name a column by F.col(…), not by one of the frames" if "MISSING_ATTRIBUTES" in str(error) else ""
        raise AuditError(f"{what} {labels}: Spark refuses it for {side.name}: {first_line(error)}{hint}") from None
    return [field.dataType for field in found.fields] if isinstance(found, StructType) else []


def _common(what: str, one: DataType, other: DataType, sides: Sequence[_Side]) -> str:
    """Return the SQL type in which both are compared; "" if they are equal already."""
    for side, kind in zip(sides, (one, other), strict=True):
        if unlike := _unlike(kind):
            mend = "compare other columns (columns=…)" if what.startswith("column") else "use another one"
            raise AuditError(f"{what} of {side.name} is {unlike}, which does not compare: {mend}, or make it text with to_json")
    names = one.simpleString(), other.simpleString()
    if names[0] == names[1]:
        return ""
    if set(names) <= set(_INTEGERS):
        return max(names, key=_INTEGERS.index)
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        if digits <= _MOST_DIGITS:
            return f"decimal({digits},{scale})"
    told = " and ".join(f"{name} in {side.name}" for name, side in zip(names, sides, strict=True))
    raise AuditError(f"{what} is {told}: cast one of them")


def _unlike(kind: DataType) -> str:
    """Name what Spark cannot group and sort in a type; empty if there is nothing."""
    if isinstance(kind, ArrayType):
        return _unlike(kind.elementType)
    if isinstance(kind, StructType):
        return next(filter(None, (_unlike(field.dataType) for field in kind.fields)), "")
    if isinstance(kind, UserDefinedType):
        return "of a user's own type"
    if isinstance(kind, StringType) and "collate" in kind.simpleString():
        return "a string with a collation"
    return _UNLIKE.get(type(kind).__name__, "")


def _positions(sides: Sequence[_Side], order: Sequence[str]) -> tuple[list[Column], str]:
    """Return the columns ``n``, and the SQL type of the position."""
    if not order:
        return [F.expr("0L AS n")] * len(sides), ""
    found = []
    for side in sides:
        name = side.quoted(order[-1])
        kind = side.frame.selectExpr(name).schema.fields[0].dataType.simpleString()
        if kind not in _POSITIONS:
            what = f"order: {order[-1]}, the position, is {kind} in {side.name}"
            raise AuditError(f"{what}: it must be an integer, a timestamp or a date; cast it")
        found.append((F.expr(f"{_POSITIONS[kind].format(name)} AS n"), "bigint" if kind in _INTEGERS else kind))
    kinds = [kind for _, kind in found]
    if len(set(kinds)) > 1:
        told = " and ".join(f"{kind} in {side.name}" for kind, side in zip(kinds, sides, strict=True))
        raise AuditError(f"order: {order[-1]}, the position, is {told}: cast one of them")
    return [column for column, _ in found], kinds[0]


def _formed(side: _Side, *columns: Column) -> DataFrame:
    row = F.struct(*(F.col(_quoted(name)) for name in side.frame.columns)).alias("row")
    return side.frame.select(*columns, row)


def _struct(columns: Sequence[Column]) -> Column:
    return F.struct(*columns) if columns else F.expr("struct(0 AS none)")


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _hashed(schema: StructType) -> Iterator[str]:
    """SQL over k and v. Spark's hashes skip nulls, so whether a value is null is hashed, too; of a nested one also its text."""
    for side in ("k", "v"):
        kind = schema[side].dataType
        for field in kind.fields if isinstance(kind, StructType) else ():
            name = f"{side}.{field.name}"
            yield from (name, f"{name} IS NULL")
            if isinstance(field.dataType, ArrayType | StructType):
                yield f"CAST({name} AS STRING)"
