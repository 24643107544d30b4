"""Checks beyond the grammar: names that occur twice, faults that no pipeline survives, and faults that can never happen.

Only a certain mistake is an error when the file is read; everything else is left to the run. `chaos.scenario.support` checks
whether the pipeline and the system offer what a fault needs.

It imports more than fifteen modules: it checks rules between parts of the grammar, and each part is a module.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations

from chaos.faults.base import FaultBase, LinkFault, RequestsFault, ends_of
from chaos.faults.broker_disks import PowerLoss
from chaos.faults.kafka_state import DeleteGroupOffsets, HangingTransaction
from chaos.faults.leadership import UncleanElection
from chaos.faults.network_partitions import PartitionNetwork
from chaos.faults.pipeline_process import PausePipeline
from chaos.faults.services import CrashService
from chaos.grammar.base import Location, Message, Problem, did_you_mean, within
from chaos.grammar.targets import CLIENTS, BrokerTarget, ExecutorTarget, LinkPattern, ServiceTarget, WorkerTarget
from chaos.grammar.triggers import (
    OF_BROKERS,
    OF_CLIENTS,
    TRANSACTIONAL,
    After,
    AfterFault,
    AtBatch,
    OnRequest,
    Progress,
    Trigger,
)
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability
from chaos.scenario import services, topics
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.sinks import TableSink
from chaos.scenario.system import SystemSpec
from chaos.scenario.verifiers import anomalies_of
from chaos.scenario.workload import Filling, Workload

_LATE_S = 60.0  # the latest trigger, after the planned end of the workload
_MAX_LOADING_S = 600.0
# With these marks pytest would skip the scenario, run it several times, or not know what `-m` selects.
_SPECIAL_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "timeout", "tryfirst", "trylast")
_MISSPELT_MARKS = ("parameterize", "parametrise", "parameterise")  # pytest refuses these by name
_OTHER_TESTS = ("chaos", "integration")
_OPERATORS = ("and", "or", "not")
_TAKEN_TAGS = frozenset((*_SPECIAL_MARKS, *_MISSPELT_MARKS, *_OTHER_TESTS, *_OPERATORS))


def check(scenarios: Mapping[int, Scenario], system: SystemSpec) -> Iterator[Problem]:
    """Find every problem, with its location in the file.

    Args:
        scenarios: index in the file -> scenario, without those that break the grammar.
    """
    first: dict[str, int] = {}
    for number, scenario in scenarios.items():
        if scenario.name in first:
            text = f"{scenario.name!r} is already the name of scenario {first[scenario.name] + 1}; choose another name"
            yield ("scenarios", number, "name"), Message("name-taken", text)
        first.setdefault(scenario.name, number)
        yield from within(("scenarios", number), _scenario(scenario, scenario.system or system))


def _scenario(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    yield from _tags(scenario)
    yield from _topics(scenario, system)
    yield from _fillings_too_long(scenario.workload)
    if scenario.workload.also:
        yield from _several(scenario)
    yield from _rows(scenario)
    yield from _verifiers(scenario)
    yield from _predicted(scenario)
    yield from _fault_names(scenario)
    yield from _limits(scenario, system)
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield from within(("random", "pick", number, "fault"), _unreachable(scenario, pick.fault, system))
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            takes = spoken_seconds(round(scenario.workload.loading_s, 1))
            text = f"the workload takes {takes}, so this trigger would never come; choose an earlier time"
            yield ("faults", number, "when", "after"), Message("trigger-too-late", text)
        yield from within(("faults", number), _followed(scenario, fault))
        yield from within(("faults", number), _unreachable(scenario, fault, system))


def _tags(scenario: Scenario) -> Iterator[Problem]:
    for number, tag in enumerate(scenario.tags):
        if tag in _TAKEN_TAGS:
            yield ("tags", number), Message("tag-of-pytest", f"{tag!r} already has a meaning in pytest; choose another tag")


def too_long(filling: Filling) -> Message | None:
    """Explain why sending takes too long; None if it does not. Declared workloads run every night, so they are bounded."""
    if filling.sending_s <= _MAX_LOADING_S:
        return None
    takes = f"{filling.records} records at {filling.rate_per_s:g}/s take {filling.sending_s:.0f} s"
    text = f"{takes}; a workload must end within 10 minutes: declare fewer records, or a higher rate"
    return Message("workload-too-long", text)


def of_pipeline(pipeline: Pipeline, there: Mapping[str, topics.TopicSpec], beside: Collection[str] = ()) -> Iterator[Problem]:
    """Find mistakes in the topics, the expectation and the placeholders of a pipeline, with places in its declaration.

    Args:
        beside: the names of services.
    """
    yield from topics.of_pipeline(there, pipeline.reads, pipeline.sink)
    yield from pipeline.problems()
    yield from _placeholders(pipeline.texts, (*there, *beside))


def _placeholders(texts: Mapping[Location, tuple[str, tuple[str, ...]]], there: Collection[str]) -> Iterator[Problem]:
    for place, (text, known) in texts.items():
        if message := topics.unknown_placeholder(text, [*known, *there]):
            yield place, message


def _topics(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    pipeline, there = scenario.pipeline, scenario.topics
    yield from within(("pipeline",), of_pipeline(pipeline, there, system.services))
    yield from within(("system",), services.problems(system.services, there))
    yield from within(("workload",), topics.of_workload(there, pipeline.reads, scenario.workload.into))
    if message := topics.cannot_stay(there, scenario.source, pipeline.sink):
        yield ("pipeline", "sink", "routing"), message


def _fillings_too_long(workload: Workload) -> Iterator[Problem]:
    """Refuse long fillings; `--chaos-minutes` can make a soak longer."""
    for place, filling in fillings(workload):
        problem = too_long(filling)
        if problem:
            yield place, problem


def fillings(workload: Workload) -> Iterator[tuple[Location, Filling]]:
    """Yield each filling with its place in the scenario."""
    yield ("workload",), workload
    yield from ((("workload", "also", number), one) for number, one in enumerate(workload.also))


def _several(scenario: Scenario) -> Iterator[Problem]:
    """Refuse keys that need a single filled topic."""
    pipeline, more = scenario.pipeline, [one.into for one in scenario.workload.also]
    for number, message in topics.of_more(scenario.topics, pipeline.reads, scenario.source, more):
        yield ("workload", "also", number, "into"), message
    if pipeline.sink is None:
        return
    if pipeline.sink.routing == "same":
        text = "routing: same cannot be judged when several filled topics share partition numbers; leave routing out"
        yield ("pipeline", "sink", "routing"), Message("routing-of-several", text)
    if not pipeline.has_positions:
        why = "with positions: none, nothing shows when the pipeline has reached the end of several topics"
        text = f"{why}; write group or positions, or fill one topic: leave `also` out"
        yield ("pipeline", "positions"), Message("several-without-positions", text)
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, DeleteGroupOffsets) and fault.repair != "none":
            what = f"repair restores the positions in {scenario.source} only, but several topics are filled"
            yield ("faults", number, "repair"), Message("repair-of-several", f"{what}; leave repair out")


def _rows(scenario: Scenario) -> Iterator[Problem]:
    for place, filling in fillings(scenario.workload):
        rows, here = filling.rows, (*place, "rows")
        if rows is not None:
            yield from within(here, _placeholders(rows.texts, scenario.topics))
            if rows.SENDS_ITSELF:
                yield from within(here, _at(rows.kind, scenario.pipeline.way.refused_unknown(scenario.pipeline)))


def _verifiers(scenario: Scenario) -> Iterator[Problem]:
    known = scenario.applicable
    for name in scenario.leave_out:
        if name not in known:
            text = f"{name!r} does not apply to this pipeline; remove it from leave_out"
            yield ("leave_out", name), Message("leave-out-not-asked", text)
    if not scenario.verify:
        text = "leave_out names every verifier, so nothing would be judged; leave out fewer"
        yield ("leave_out",), Message("no-verifier-left", text)
    if scenario.expect == "not_sent" and not any(isinstance(fault.when, OnRequest) for fault in scenario.faults):
        text = "not_sent needs a fault that waits for a request, and there is none; write e.g. when: {request: EndTxn}"
        yield ("expect",), Message("not-sent-without-request", text)
    if scenario.ends and Capability.PIPELINE not in scenario.pipeline.capabilities:
        yield ("ends",), Message("end-without-pipeline", "ends needs a pipeline, and this scenario has none; leave ends out")
    for name in scenario.expect if isinstance(scenario.expect, Mapping) else ():
        if name not in scenario.verify:
            reason = "leave_out names it too" if name in scenario.leave_out else "it does not apply to this pipeline"
            yield ("expect", name), Message("expected-not-asked", f"expect names {name!r}, but {reason}")


def _predicted(scenario: Scenario) -> Iterator[Problem]:
    for name, counts in scenario.exactly.items():
        known = anomalies_of(name)
        for anomaly in counts:
            if anomaly not in known:
                hint = did_you_mean(anomaly, known)
                text = f"{anomaly!r} is not an anomaly of {name}{hint}; its anomalies are: {', '.join(known)}"
                yield ("expect", name, anomaly), Message("unknown-anomaly", text)


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


# ---- Faults after which the pipeline cannot go on, though the scenario is expected to be valid -----------------------------

_PATIENCE_S = 45.0  # well below the limits of phases (chaos.engine.run_plan), because recovery takes time, too
_FEWEST_IN_A_RING = 4
_WAIT = f"clients wait for about {spoken_seconds(_PATIENCE_S)}"
_RING = (
    "in a ring of {brokers} brokers every broker sees all others, so nothing would be cut; "
    "write system: {{kafka: {{brokers: 5}}}}, or shape: split"
)
_UNCLEAN = (
    "an unclean election discards acknowledged records, so this scenario cannot be valid; "
    "declare the anomaly, e.g. expect: {gaps: invalid}"
)
_NO_POWER = (
    "when all brokers lose power, acknowledged records that were not flushed are lost, so this scenario cannot be valid; "
    "declare the anomaly, e.g. expect: {ledger: {not written: some}}"
)
_ALL_DOWN = (
    f"all brokers are down for {{down}}, and {_WAIT}, so this scenario cannot be valid; let them be down for a shorter time"
)
_TWO_DOWN = (
    f"{{name}} keeps {{other}} down at the same time: both are down for {{both}}, {_WAIT}, and min ISR 2 of 3 tolerates "
    "the loss of one broker only; let the two faults overlap for a shorter time"
)
_TWO_MAY_BE_DOWN = (
    f"{{name}} ({{other}}) may keep another broker down at the same time: then two are down for {{both}}, {_WAIT}, and min ISR "
    "2 of 3 tolerates the loss of one broker only; "
    "let the two faults overlap for a shorter time, or write unsafe: true in the scenario"
)


def _limits(scenario: Scenario, system: SystemSpec) -> Iterator[Problem]:
    brokers = system.kafka.brokers
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, PartitionNetwork) and fault.shape == "ring" and brokers < _FEWEST_IN_A_RING:
            yield ("faults", number, "shape"), Message("ring-too-small", _RING.format(brokers=brokers))
    if scenario.expect == "valid":
        for number, fault in enumerate(scenario.faults):
            yield from within(("faults", number), _too_much(fault))
        yield from _too_much_together(scenario)


def _too_much(fault: FaultBase) -> Iterator[Problem]:
    if isinstance(fault, UncleanElection):
        yield ("kind",), Message("unclean-yet-valid", _UNCLEAN)
    if isinstance(fault, PowerLoss) and fault.target.role == "all":
        yield ("target",), Message("power-loss-yet-valid", _NO_POWER)
    elif fault.down_s > _PATIENCE_S and any(target.role == "all" for target in fault.broker_targets):
        text = _ALL_DOWN.format(down=spoken_seconds(fault.down_s))
        yield ("for" if hasattr(fault, "for_s") else "restart_after",), Message("all-down-too-long", text)


def _too_much_together(scenario: Scenario) -> Iterator[Problem]:
    """Refuse two brokers that are down at the same time: certainly, if both and their times are named, else possibly."""
    downs = [
        (number, fault, *_begins(scenario, fault))
        for number, fault in enumerate(scenario.faults)
        if fault.down_s > 0 and fault.broker_targets
    ]
    for (_, first, since, begin_s), (number, second, other_since, other_begin_s) in combinations(downs, 2):
        overlap_s = min(first.down_s, second.down_s)  # at most, because their beginnings are not known
        if since == other_since:
            overlap_s = min(begin_s + first.down_s, other_begin_s + second.down_s) - max(begin_s, other_begin_s)
        named = all(target.role == "broker" for target in (*first.broker_targets, *second.broker_targets))
        certain = named and isinstance(first.when, After) and isinstance(second.when, After)
        same = named and first.broker_targets == second.broker_targets
        if overlap_s > _PATIENCE_S and not same and (certain or not scenario.unsafe):
            known = {"name": first.name, "other": first.broker_targets[0], "both": spoken_seconds(round(overlap_s, 1))}
            if certain:
                yield ("faults", number, "target"), Message("two-down-too-long", _TWO_DOWN.format(**known))
            else:
                yield ("faults", number, "target"), Message("two-perhaps-down", _TWO_MAY_BE_DOWN.format(**known))


def _begins(scenario: Scenario, fault: FaultBase) -> tuple[str, float]:
    """Estimate the time of a fault: "" and seconds after the first output, or the fault that decides and seconds after it."""
    seen, later_s, first = {fault.name}, 0.0, fault
    while isinstance(when := first.when, AfterFault):
        followed = next((other for other in scenario.faults if other.name == when.fault and other.name not in seen), None)
        if followed is None:
            return first.name, later_s
        seen.add(followed.name)
        later_s, first = later_s + when.after_s, followed
    if isinstance(when, After):
        return "", later_s + when.after_s
    if isinstance(when, Progress):
        return "", later_s + when.percent / 100 * scenario.workload.loading_s
    return first.name, later_s


# ---- Faults that could never happen: their target does not exist, or nothing passes where they wait -------------------------

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
