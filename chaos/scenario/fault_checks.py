"""Checks for faults that could never happen: their target does not exist, or nothing passes where they wait.

Only a certain mistake is an error when the file is read; everything else is left to the run.
"""

from collections.abc import Iterable, Iterator

from chaos.cluster.kafka import STATE_TOPICS
from chaos.faults.base import FaultBase, LinkFault, RequestsFault, ends_of
from chaos.faults.broker_disks import PowerLoss
from chaos.faults.kafka_state import HangingTransaction
from chaos.faults.pipeline_process import PausePipeline
from chaos.faults.services import CrashService
from chaos.grammar.base import Message, Problem, did_you_mean, within
from chaos.grammar.targets import CLIENTS, BrokerTarget, ExecutorTarget, LinkPattern, ServiceTarget, WorkerTarget
from chaos.grammar.triggers import (
    OF_BROKERS,
    OF_CLIENTS,
    TRANSACTIONAL,
    After,
    AfterFault,
    AtBatch,
    OnRequest,
    Trigger,
)
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability
from chaos.scenario import fault_limits, services, topics
from chaos.scenario.model import Scenario
from chaos.scenario.sinks import TableSink
from chaos.scenario.system import SystemSpec

_LATE_S = 60.0  # the latest trigger, after the planned end of the workload


def check(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    """Find every problem of the faults, with its location in the scenario."""
    yield from _fault_names(scenario)
    yield from fault_limits.check(scenario, system)
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield from within(("random", "pick", number, "fault"), _unreachable(scenario, pick.fault, system))
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            takes = spoken_seconds(round(scenario.workload.loading_s, 1))
            text = f"the workload takes {takes}, so this trigger would never come; choose an earlier time"
            yield ("faults", number, "when", "after"), Message("trigger-too-late", text)
        yield from within(("faults", number), _followed(scenario, fault))
        yield from within(("faults", number), _unreachable(scenario, fault, system))


def _fault_names(scenario: Scenario) -> Iterator[Problem]:
    names = [fault.name for fault in scenario.faults]
    for number, name in enumerate(names):
        if name in names[:number]:
            text = f"another fault of this scenario has the name {name!r}; choose another name"
            yield ("faults", number, "name"), Message("fault-name-taken", text)


def _followed(scenario: Scenario, fault: FaultBase) -> Iterator[Problem]:
    """Refuse the names of faults that do not exist."""
    names = [other.name for other in scenario.faults if other is not fault]
    wanted = {
        ("until",): getattr(fault, "until", None),
        ("when", "fault"): getattr(fault.when, "fault", None),
        ("when", "since"): getattr(fault.when, "since", None),
    }
    for place, name in wanted.items():
        if name is not None and name not in names:
            text = f"there is no other fault {name!r} in this scenario{did_you_mean(name, names)}"
            yield place, Message("no-such-fault", text)


_OF_HELD = ("receiver", "sender")
_NO_BATCHES = Message(
    "no-batches",
    "only a Spark job with a checkpoint has batches, and this pipeline is not declared as one; write kind: spark_submit "
    "in the pipeline, or when: {progress: 40%}",
)


def _unreachable(scenario: Scenario, fault: FaultBase, system: SystemSpec) -> Iterator[Problem]:
    aim = "link" if isinstance(fault, LinkFault) else "target"
    targets = fault.broker_targets
    place = aim if hasattr(fault, aim) else "kind"
    yield from _at(place, _brokers(scenario, targets, system))
    yield from _at(place, _held(scenario, fault.when, targets))
    if scenario.table is not None:
        yield from _of_topics_only(fault, scenario.table)
    yield from _at("target", _workers(getattr(fault, "target", None), system))
    if isinstance(fault, LinkFault):
        yield from _at("link", _client(scenario, fault.link))
        yield from _at("link", _service(fault.link, system, reads=isinstance(fault, RequestsFault)))
    if isinstance(fault, RequestsFault):
        yield from _at("request", _request(scenario, fault.request, fault.link))
    if isinstance(fault.when, OnRequest):
        yield from within(("when",), _trigger(scenario, fault.when, system))
    yield from _of_its_kind(scenario, fault, system)
    if isinstance(fault.when, AtBatch) and Capability.CHECKPOINT not in scenario.pipeline.capabilities:
        yield ("when", "batch"), _NO_BATCHES


def _of_its_kind(scenario: Scenario, fault: FaultBase, system: SystemSpec) -> Iterator[Problem]:
    """Check keys that single kinds of faults have."""
    if isinstance(fault, HangingTransaction) and scenario.sink in scenario.topics:
        yield from _at("partition", _partition(scenario, scenario.sink, fault.partition))
    if isinstance(fault, CrashService):
        yield from _at("service", _started(fault.service, system))
    if isinstance(fault, PausePipeline):
        yield from _at("outlasts", _outlasted(scenario, fault))
    if isinstance(fault, PowerLoss):
        unknown = (topics.unknown(name, scenario.topics) for name in fault.flushed if name not in STATE_TOPICS)
        yield from _at("flushed", filter(None, unknown))


def _at(key: str, messages: Iterable[Message]) -> Iterator[Problem]:
    return (((key,), message) for message in messages)


def _trigger(scenario: Scenario, when: OnRequest, system: SystemSpec) -> Iterator[Problem]:
    if when.link is not None:
        yield from _at("link", _brokers(scenario, ends_of(when.link), system))
        yield from _at("link", _client(scenario, when.link))
        yield from _at("link", _service(when.link, system, reads=True))
        if any(end.role in _OF_HELD for end in ends_of(when.link)):
            known = "receiver and sender are known only once the request is held"
            text = f"{known}, so they cannot say where to hold it; name another broker"
            yield ("link",), Message("link-of-held-request", text)
    yield from _at("request", _request(scenario, when.request, when.link))


def _brokers(scenario: Scenario, targets: list[BrokerTarget], system: SystemSpec) -> Iterator[Message]:
    brokers, has = system.kafka.brokers, scenario.pipeline.capabilities
    for target in targets:
        if target.number > brokers:
            yield Message("no-such-broker", f"there is no {target}; the brokers are broker-1 to broker-{brokers}")
    if any(target.role == "transaction_coordinator" for target in targets) and not _may_use_transactions(scenario):
        text = "this pipeline uses no transactions, so it has no transaction coordinator"
        yield Message("no-transaction-coordinator", text)
    if any(target.role == "group_coordinator" for target in targets) and Capability.CONSUMER_GROUP not in has:
        text = "this pipeline does not keep its position in a consumer group, so it has no group coordinator"
        yield Message("no-group-coordinator", text)
    for target in targets:
        if target.role in ("leader", "follower"):
            yield from _topic(scenario, target)
        elif target.role == "transaction_coordinator" and scenario.source in scenario.topics:
            yield from _partition(scenario, scenario.source, target.partition)


def _topic(scenario: Scenario, target: BrokerTarget) -> Iterator[Message]:
    """Refuse a topic or a partition that does not exist, or that this scenario does not use."""
    if message := topics.unknown(target.topic, scenario.topics):
        yield message
    elif target.topic not in scenario.used:
        used = [name for name in scenario.used if name in scenario.topics]
        text = f"nothing reads or writes {target.topic} in this scenario; its topics are: {', '.join(used)}"
        yield Message("topic-not-used", text)
    else:
        yield from _partition(scenario, target.topic, target.partition)


def _of_topics_only(fault: FaultBase, table: TableSink) -> Iterator[Problem]:
    """Refuse faults and triggers that need a topic as the sink."""
    if isinstance(fault, HangingTransaction):
        text = "this fault leaves a transaction open in the sink topic, but the sink is a table; leave it out"
        yield ("kind",), Message("transaction-in-table", text)
    if isinstance(fault.when, AtBatch) and fault.when.seen == "rows" and not table.tells_versions:
        text = f"new rows in {table.spoken} cannot be seen from outside in time; write seen: planned, or seen: done"
        yield ("when", "seen"), Message("rows-not-seen", text)


def _partition(scenario: Scenario, topic: str, partition: int) -> Iterator[Message]:
    if message := topics.no_partition(topic, partition, scenario.topics):
        yield message


def _held(scenario: Scenario, when: Trigger, targets: list[BrokerTarget]) -> Iterator[Message]:
    """Refuse the ends of a request that no trigger holds, and a sender that is a client."""
    roles = [target.role for target in targets if target.role in _OF_HELD]
    request = _request_of(scenario, when)
    if roles and request is None:
        text = f"{roles[0]} is an end of a held request, but the trigger holds none; write when: {{request: EndTxn, nth: 20}}"
        yield Message("no-request-held", text)
    if "sender" in roles and request is not None and _sent_by_client(request):
        text = f"{request.request} is sent by a client, not by a broker; to crash the client, write kind: crash_pipeline"
        yield Message("sender-is-a-client", text)


def _request_of(scenario: Scenario, when: Trigger) -> OnRequest | None:
    """The request that this trigger holds, or that the trigger of the followed fault holds."""
    if isinstance(when, AfterFault):
        followed = next((fault.when for fault in scenario.faults if fault.name == when.fault), None)
        return followed if isinstance(followed, OnRequest) else None
    return when if isinstance(when, OnRequest) else None


def _sent_by_client(when: OnRequest) -> bool:
    if when.link is not None and when.link.left != "*":
        return when.link.left in CLIENTS
    return when.request not in OF_BROKERS and (when.link is None or when.request in OF_CLIENTS)


def _workers(target: object, system: SystemSpec) -> Iterator[Message]:
    workers = system.spark.workers
    if isinstance(target, ExecutorTarget | WorkerTarget) and target.number > workers:
        text = f"there is no worker-{target.number}; the workers are worker-1 to worker-{workers}"
        yield Message("no-such-worker", text)


def _outlasted(scenario: Scenario, fault: PausePipeline) -> Iterator[Message]:
    """Refuse timeouts that are not declared, or that are not shorter than the pause."""
    for name in fault.outlasts:
        after_s = scenario.pipeline.timeouts.get(name)
        if after_s is None:
            text = f"this pipeline declares no {name}; declare it there, or leave it out here"
            yield Message("timeout-not-declared", text)
        elif fault.for_s <= after_s:
            text = f"the pause must be longer than {name}, {spoken_seconds(after_s)}; write a longer `for`"
            yield Message("pause-too-short", text)


def _client(scenario: Scenario, link: LinkPattern) -> Iterator[Message]:
    has = scenario.pipeline.capabilities
    if link.left == "spark" and Capability.SPARK not in has:
        text = "this pipeline does not run on Spark, so nothing would pass this link; write pipeline->…"
        yield Message("no-spark-client", text)
    if link.left == "app" and (Capability.SPARK in has or Capability.PIPELINE not in has):
        text = "no client app runs here, so nothing would pass this link; write pipeline->…"
        yield Message("no-app-client", text)


def _service(link: LinkPattern, system: SystemSpec, *, reads: bool) -> Iterator[Message]:
    """Refuse a service that is not declared, and requests in a protocol that the proxy does not know."""
    if not isinstance(link.right, ServiceTarget):
        return
    if message := services.unknown(link.right.name, system.services):
        yield message
    elif reads:
        text = (
            f"{link.right} does not speak Kafka's protocol, so the proxy cannot see its requests; break its link with cut_link"
        )
        yield Message("request-of-service", text)


def _started(name: str, system: SystemSpec) -> Iterator[Message]:
    """Refuse a service that does not exist, or that the run does not start, and so cannot start again."""
    if message := services.unknown(name, system.services):
        yield message
    elif not system.services[name].run:
        text = f"the run does not start {name}, so it must not kill it; declare run: […], or break its link with cut_link"
        yield Message("service-not-started", text)


def _request(scenario: Scenario, api: str, link: LinkPattern | None) -> Iterator[Message]:
    """Refuse a request that is never sent there; a scenario that expects just that is left to the run."""
    between_brokers = link is not None and (isinstance(link.left, BrokerTarget) or link.left == "broker-*")
    of_a_client = link is not None and not between_brokers and link.left != "*"
    if between_brokers and api in OF_CLIENTS:
        text = f"brokers do not send {api} to each other, so this would never come; name a link of a client, e.g. pipeline->*"
        yield Message("request-of-clients", text)
    if of_a_client and api in OF_BROKERS:
        text = f"clients do not send {api}, so this would never come; name a link between brokers, e.g. broker-*->broker-*"
        yield Message("request-of-brokers", text)
    if api in TRANSACTIONAL and not _may_use_transactions(scenario) and scenario.expect != "not_sent":
        text = f"this pipeline uses no transactions, so {api} is never sent; to check that, write expect: not_sent"
        yield Message("request-never-sent", text)


def _may_use_transactions(scenario: Scenario) -> bool:
    """Whether anything may use transactions: a pipeline may unless it declares otherwise; our loader's setting is known."""
    return scenario.pipeline.transactions or scenario.workload.may_use_transactions
