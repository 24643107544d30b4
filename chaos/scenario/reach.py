"""What a fault can reach: errors for what is known, when the file is read, to be absent."""

from collections.abc import Iterator

from chaos.faults.declared import Fault, broker_targets
from chaos.faults.declared.base import LinkFault, ends_of
from chaos.faults.declared.client import OF_GROUP, OF_PIPELINE
from chaos.faults.declared.protocol import HoldRequests
from chaos.faults.declared.spark import OF_SPARK, PythonFault
from chaos.faults.declared.storage import CheckpointFault, CrashBeforeCommit
from chaos.grammar.targets import CLIENTS, BrokerTarget, ExecutorTarget, LinkPattern, WorkerTarget
from chaos.grammar.triggers import OF_BROKERS, OF_CLIENTS, TRANSACTIONAL, AfterFault, Moment, OnRequest
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import FillSourcePipeline, SparkSquarePipeline

Wrong = tuple[tuple[str, ...], str]
_OF_HELD = ("receiver", "sender")
_ON_SPARK = ("spark",)
_NOT_ON_SPARK = ("app",)


def unreachable(scenario: Scenario, fault: Fault, brokers: int, workers: int) -> Iterator[Wrong]:
    """Every mistake in what a fault is aimed at, with its place in the fault.

    Args:
        brokers, workers: how many there are.
    """
    aim = ("link",) if isinstance(fault, LinkFault) else ("target",)
    targets = broker_targets(fault)
    for message in (*_brokers(scenario, targets, brokers), *_held(scenario, fault.when, targets), *_process(scenario, fault)):
        yield aim if hasattr(fault, aim[0]) else ("kind",), message
    yield from ((("target",), message) for message in _workers(getattr(fault, "target", None), workers))
    if isinstance(fault, LinkFault):
        yield from (((*aim,), message) for message in _client(scenario, fault.link))
    if isinstance(fault, HoldRequests):
        yield from ((("request",), message) for message in _request(scenario, fault.request, fault.link))
    if isinstance(fault.when, OnRequest):
        yield from ((("when", *place), message) for place, message in _moment(scenario, fault.when, brokers))


def _moment(scenario: Scenario, when: OnRequest, brokers: int) -> Iterator[Wrong]:
    if when.link is not None:
        for message in (*_brokers(scenario, ends_of(when.link), brokers), *_client(scenario, when.link)):
            yield ("link",), message
        if any(end.role in _OF_HELD for end in ends_of(when.link)):
            yield ("link",), "receiver and sender are known once the request is held: they cannot say where to hold it"
    yield from ((("request",), message) for message in _request(scenario, when.request, when.link))


def _brokers(scenario: Scenario, targets: list[BrokerTarget], brokers: int) -> Iterator[str]:
    for target in targets:
        if target.number > brokers:
            yield f"there is no {target}; the brokers are broker-1 to broker-{brokers}"
    if any(target.role == "transaction_coordinator" for target in targets) and not _transactional(scenario):
        yield "this pipeline uses no transactions: it has no transaction coordinator"
    if any(target.role == "group_coordinator" for target in targets) and not _grouped(scenario):
        yield "this pipeline keeps its position in no consumer group: it has no group coordinator"
    if _alone(scenario) and any(target.topic == "datasink" for target in targets):
        yield "this pipeline writes to datasource only"


def _held(scenario: Scenario, when: Moment, targets: list[BrokerTarget]) -> Iterator[str]:
    """The ends of a request that nothing holds, and a sender that is a client."""
    roles = [target.role for target in targets if target.role in _OF_HELD]
    request = _request_of(scenario, when)
    if roles and request is None:
        yield f"the {roles[0]} of which request? Write when: {{request: EndTxn, nth: 20}}"
    if "sender" in roles and request is not None and _sent_by_client(request):
        yield f"a client sends {request.request}, and that is no broker; to crash it, write kind: crash_pipeline"


def _request_of(scenario: Scenario, when: Moment) -> OnRequest | None:
    """The request that is on the wire then: of this fault's trigger, or of the fault that it follows."""
    if isinstance(when, AfterFault):
        followed = next((fault.when for fault in scenario.faults if fault.name == when.fault), None)
        return followed if isinstance(followed, OnRequest) else None
    return when if isinstance(when, OnRequest) else None


def _sent_by_client(when: OnRequest) -> bool:
    if when.link is not None and when.link.left != "*":
        return when.link.left in CLIENTS
    return when.request not in OF_BROKERS and (when.link is None or when.request in OF_CLIENTS)


def _process(scenario: Scenario, fault: Fault) -> Iterator[str]:
    if isinstance(fault, OF_PIPELINE) and _alone(scenario):
        yield "there is no pipeline to break: the loader alone is under test, and it keeps the ledger"
    elif isinstance(fault, OF_GROUP) and not _grouped(scenario):
        yield "this pipeline keeps its position in no consumer group: there is no group to break"
    yield from _of_spark(scenario, fault)


def _of_spark(scenario: Scenario, fault: Fault) -> Iterator[str]:
    if isinstance(fault, OF_SPARK) and not _spark(scenario):
        yield "this pipeline runs on no Spark: there is no executor to crash"
    elif isinstance(fault, CheckpointFault) and not _spark(scenario):
        yield "this pipeline runs on no Spark: it has no checkpoint"
    elif isinstance(fault, PythonFault) and not _grouped(scenario):
        yield "Spark's stock sink runs in the JVM: there is no Python worker"
    elif isinstance(fault, CrashBeforeCommit) and not _grouped(scenario):
        yield "the stock sink commits nothing; write kind: damage_checkpoint, what: commit_deleted"


def _workers(target: object, workers: int) -> Iterator[str]:
    if isinstance(target, ExecutorTarget | WorkerTarget) and target.number > workers:
        yield f"there is no worker-{target.number}; the workers are worker-1 to worker-{workers}"


def _client(scenario: Scenario, link: LinkPattern) -> Iterator[str]:
    if link.left in _ON_SPARK and not _spark(scenario):
        yield "this pipeline runs on no Spark: nothing would pass this link; write pipeline->…"
    if link.left in _NOT_ON_SPARK and (_spark(scenario) or _alone(scenario)):
        yield "no such client runs here: nothing would pass this link; write pipeline->…"


def _request(scenario: Scenario, api: str, link: LinkPattern | None) -> Iterator[str]:
    """A request that nobody can send there; a case that says so itself is left to the run."""
    between_brokers = link is not None and (isinstance(link.left, BrokerTarget) or link.left == "broker-*")
    of_a_client = link is not None and not between_brokers and link.left != "*"
    if between_brokers and api in OF_CLIENTS:
        yield f"brokers send no {api} to each other: this would never come; name a link of a client, e.g. pipeline->*"
    if of_a_client and api in OF_BROKERS:
        yield f"clients send no {api}: this would never come; name a link between brokers, e.g. broker-*->broker-*"
    if api in TRANSACTIONAL and _known_without_transactions(scenario) and scenario.expect != "not_sent":
        yield f"this pipeline uses no transactions: nobody sends {api}"


def _alone(scenario: Scenario) -> bool:
    return isinstance(scenario.pipeline, FillSourcePipeline)


def _spark(scenario: Scenario) -> bool:
    return isinstance(scenario.pipeline, SparkSquarePipeline)


def _grouped(scenario: Scenario) -> bool:
    pipeline = scenario.pipeline
    return not isinstance(pipeline, FillSourcePipeline) and not (
        isinstance(pipeline, SparkSquarePipeline) and pipeline.delivery == "at_least_once"
    )


def _known_without_transactions(scenario: Scenario) -> bool:
    return getattr(scenario.pipeline, "delivery", "none" if _alone(scenario) else "exactly_once") != "exactly_once"


def _transactional(scenario: Scenario) -> bool:
    return not _known_without_transactions(scenario)
