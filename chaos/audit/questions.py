"""How two logs are compared: by a model or by a query, and by which identity."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from chaos.audit import dense_keys, identity, prepared
from chaos.audit.logs import Logs
from chaos.audit.prepared import Prepared


@dataclass(frozen=True, slots=True)
class Question:
    """How two logs are compared.

    Attributes:
        require_known: raises AuditUsageError if Spark cannot resolve model, query or identity.
        ask: prepares the evidence for the verifiers from the logs.
    """

    require_known: Callable[[SparkSession], None]
    ask: Callable[[Logs], Prepared]


def by_query(sql: str, name: str, source: tuple[str, ...], *, state: bool, anywhere: bool) -> Question:
    """Compare the sink with the rows that a query demands.

    Args:
        name: the identity.
        source: the topics of the source.
        state: whether the query gives a state.
        anywhere: whether a row may be in any partition of the sink.
    """
    from chaos.audit import query  # noqa: PLC0415 - only this needs the grammar of scenarios: half a second

    demanded = query.model(sql, "" if name in (identity.DENSE, identity.KEY) else name, state=state)
    known = partial(query.require_known, asked=demanded, topics=source)
    return Question(known, partial(query.by_model, asked=demanded, anywhere=anywhere))


def by_model(model: str, name: str, *, headers: bool, anywhere: bool) -> Question:
    """Compare record by record. Dense keys depend on partitions, so with any routing they are keys like others.

    Args:
        model: as `identity.model` reads it.
        name: the identity.
        headers: whether records have headers.
        anywhere: as in `by_query`.
    """
    demanded = identity.model(model)
    known = partial(identity.require_known, identity=name, demanded=demanded, headers=headers)
    if name == identity.DENSE and not anywhere:
        return Question(known, partial(dense_keys.dense, demanded=demanded))
    return Question(known, partial(prepared.by_key, demanded=demanded, anywhere=anywhere))
