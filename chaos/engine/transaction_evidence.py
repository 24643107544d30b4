"""The evidence of transactions: internal topics of Kafka, and what the proxies saw."""

from dataclasses import replace
from pathlib import Path

from chaos.cluster.kafka import Kafka
from chaos.cluster.rules import RequestRules
from chaos.common.errors import InconclusiveError
from chaos.engine.run_plan import RunPlan
from chaos.judging import transaction_logs
from chaos.scenario.verifiers import TRANSACTIONS
from verifiers.transactions import logs


def land(plan: RunPlan, kafka: Kafka, rules: RequestRules, folder: Path) -> None:
    """Land the internal topics, as far as they concern the pipeline's group, and the batches of its transactions.

    The proxies' observations of the group's readers are landed with them. Nothing is landed unless `transactions` is asked.

    Raises:
        InconclusiveError: the group never committed in a transaction, or a broker does not answer.
    """
    if TRANSACTIONS not in plan.scenario.verify:
        return
    asked = transaction_logs.LandingRequest(
        kafka.bootstrap, (plan.group,), kafka.cluster.options, (plan.topics.sink,), with_sources=True
    )
    try:
        found = transaction_logs.land(asked)
    except transaction_logs.NotTransactionalError as error:
        raise InconclusiveError(f"transactions: {error}") from error
    names = kafka.topic_ids([plan.topics.names[name] for name in plan.scenario.pipeline.reads])
    seen = transaction_logs.Heard(rules.starts(), rules.unfenced(), rules.produced(), rules.forgotten())
    heard = transaction_logs.heard(seen, plan.group, names)
    logs.write(folder / TRANSACTIONS, replace(found, **heard))
