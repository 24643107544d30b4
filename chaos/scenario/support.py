"""Decides which faults are possible: the pipeline and the system must offer what a fault needs, or it is refused.

Both state what they offer as `Capability`: a pipeline by its kind (`chaos.scenario.pipelines`), a system by its runtime. The
check is made when a file is read; a fault is never skipped later. An external system, which exists before the run, has limits:

* Only the links of Spark's JVMs can be led through our proxies: a JVM can be told which address a name stands for
  (``jdk.net.hosts.file``). librdkafka cannot: it connects to the addresses that brokers advertise.
* Executors can be signalled if they run on this machine; brokers can be broken by declared hooks.
"""

from collections.abc import Collection, Iterator, Mapping

from chaos.contract.placeholders import names_in
from chaos.external.declaration import External
from chaos.faults.base import FaultBase, LinkFault, RequestsFault
from chaos.grammar.base import Location, Message, Problem, within
from chaos.grammar.targets import BrokerTarget, ExecutorTarget, LinkPattern, ServiceTarget
from chaos.grammar.triggers import OnRequest, Trigger
from chaos.install import spark_versions
from chaos.runtime.capabilities import OF_PIPELINES, OF_SYSTEMS, OFFERED, Capability
from chaos.scenario.model import Scenario
from chaos.scenario.system import SystemSpec
from chaos.scenario.verifiers import PRECEDENCE

POSSIBLE_OUTSIDE = frozenset(
    {
        Capability.LINKS,
        Capability.PLAIN_CONNECTIONS,
        Capability.KILL_BROKERS,
        Capability.PAUSE_BROKERS,
        Capability.EXECUTOR_PROCESSES,
    }
)
"""Capabilities that an external system can declare."""
_OF_SERVICES = frozenset({Capability.SERVICES})  # `unavailable` refuses services where there can be none
_READS = frozenset({"Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"})
_WRITES = _READS | {"Produce", "InitProducerId"}
_OF_JVMS = ("spark", "pipeline")
_OF_SINK = ("transaction_coordinator", "group_coordinator")
_PREFIXED = ("{prefix}", "{source}", "{sink}")  # and every topic: its name on the wire begins with the prefix

_NO_NETWORK = Message(
    "container-outside",
    "kind: container joins the network of a run, and only a system in containers has one; use --chaos-runtime containers, "
    "which needs Docker, or run the program itself: kind: command",
)
_LACKING: Mapping[Capability, Message] = {
    Capability.PIPELINE: Message(
        "no-pipeline-to-break",
        "this scenario has no pipeline, only the loader, which cannot be killed because it writes the ledger",
    ),
    Capability.CONSUMER_GROUP: Message(
        "no-group-to-break", "this pipeline does not keep its position in a consumer group, so there is no group to break"
    ),
    Capability.GROUP_MEMBERS: Message(
        "no-group-members",
        "the group of this pipeline only stores positions and has no members, so it cannot be rebalanced; "
        "use this fault with kind: command",
    ),
    Capability.SPARK: Message("no-executors", "this pipeline does not run on Spark, so there is no executor to crash"),
    Capability.CHECKPOINT: Message(
        "no-checkpoint", "this pipeline has no known checkpoint; only a Spark job has one, unless it declares positions: none"
    ),
    Capability.PYTHON_WORKERS: Message(
        "no-python-workers",
        "this pipeline declares no sink in Python workers; if its tasks run and commit there, write python_workers: true",
    ),
    Capability.COMMITTING_TASKS: Message(
        "no-committing-tasks",
        "this pipeline declares no tasks that commit in its sink; if they do, in Python workers, write "
        "python_workers: true, else write kind: damage_checkpoint, what: commit_deleted",
    ),
}
_NOT_OFFERED = Message(
    "not-offered-outside",
    "{kind} needs {needed}, which an external system does not offer; possible are faults of the links of Spark's JVMs, "
    "crashes and pauses of the pipeline and of executors on this machine, and declared hooks",
)
_NO_HOOK = "a broker of an external system can only be {done} by your own command; declare it in its file: hooks: {{{example}}}"
_NOT_OFFERED_OUTSIDE: Mapping[Capability, Message] = {
    Capability.KILL_BROKERS: Message(
        "no-kill-hook", _NO_HOOK.format(done="killed", example='kill: "kubectl delete pod {broker}"')
    ),
    Capability.PAUSE_BROKERS: Message("no-pause-hook", _NO_HOOK.format(done="paused", example="pause: …, resume: …")),
    Capability.PYTHON_PROCESSES: Message(
        "no-python-processes", "{kind} finds processes by addresses that only a local system has; write kind: crash_executor"
    ),
    Capability.PLAIN_CONNECTIONS: Message(
        "no-plain-connections", "the proof of {kind} needs a connection without TLS, but this cluster requires TLS"
    ),
}
_ELSEWHERE = (
    "Spark's executors run elsewhere: {reason}; write executors: here in the external file if they run on this machine, "
    "or master: local[4]"
)
_LIBRDKAFKA = (
    "connections of {client} cannot be led through a proxy: it uses librdkafka, which connects to the addresses that brokers "
    "advertise; only Spark's own JVMs can be redirected"
)


def faults_of(scenario: Scenario) -> Iterator[tuple[Location, FaultBase]]:
    """Yield every declared fault, including random ones, with its location in the scenario."""
    yield from ((("faults", number), fault) for number, fault in enumerate(scenario.faults))
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        yield ("random", "pick", number, "fault"), pick.fault


def impossible(scenario: Scenario, runtime: str) -> Iterator[Problem]:
    """Find every fault that is impossible with this pipeline, or on a system of this runtime, with its location.

    Args:
        runtime: one of `RUNTIMES`; "" if the file is only read. For an external system, its declaration decides
            (`impossible_outside`).
    """
    if runtime and runtime != "containers":
        yield from _outside_of_containers(scenario)
    for place, fault in faults_of(scenario):
        lacking = fault.needs & OF_PIPELINES - scenario.pipeline.capabilities
        if lacking:
            yield (*place, "target" if hasattr(fault, "target") else "kind"), _LACKING[_first(lacking)]
        absent = fault.needs - OF_PIPELINES - _OF_SERVICES - OFFERED.get(runtime, OF_SYSTEMS)
        if absent:
            reason = f"{fault.kind} is possible in containers only: it needs {_first(absent)}"
            text = f"{reason}; here {fault.without}; or use --chaos-runtime containers"
            yield (*place, "kind"), Message("containers-only", text)


def _outside_of_containers(scenario: Scenario) -> Iterator[Problem]:
    if scenario.pipeline.joins_network:
        yield ("pipeline", "kind"), _NO_NETWORK


def unavailable(system: SystemSpec, runtime: str) -> Iterator[Problem]:
    """Find parts of a declared system that this runtime cannot offer, with their locations there."""
    if runtime == "containers" and system.services:
        text = "containers cannot reach services, which listen on loopback addresses of this machine; run the scenario locally"
        yield ("services",), Message("services-in-containers", text)
    ours = spark_versions.here()
    if runtime == "containers" and system.spark.version != ours:
        text = f"containers only run the Spark of this environment, {ours}; leave version out, or run the scenario locally"
        yield ("spark", "version"), Message("spark-of-containers", text)


def _first(capabilities: frozenset[Capability]) -> Capability:
    return next(capability for capability in Capability if capability in capabilities)


def impossible_outside(scenario: Scenario, external: External, services: Collection[str]) -> Iterator[Problem]:
    """Find every part of a scenario that is impossible on this external system, with its location in the scenario.

    Args:
        services: the names of services that the scenario declares for a system of our own.
    """
    yield from _outside_of_containers(scenario)
    yield from _names(scenario)
    yield from _services_in_texts(scenario, services)
    for name, reason in _unasked(external).items():
        if isinstance(scenario.expect, Mapping) and name in scenario.expect:
            text = f"expect names {name!r}, which does not run here: {reason}"
            yield ("expect", name), Message("expected-not-asked-outside", text)
    for place, fault in faults_of(scenario):
        yield from within(place, _fault(scenario, fault, external))
        yield from within(place, _trigger(scenario, fault.when, external))


_INTERNAL = "it reads __consumer_offsets, which shared clusters seldom allow"
_CLOCKS = "it compares times of brokers and of this machine, whose clocks may differ"
_PLAIN = "it needs plain connections to brokers, but this cluster requires TLS or a login"


def for_external(scenario: Scenario, external: External) -> Scenario:
    """Return the scenario without the verifiers that have nothing to judge on this external system."""
    for name, reason in _unasked(external).items():
        scenario = scenario.without([name], reason)
    return scenario


def _unasked(external: External) -> Mapping[str, str]:
    """Verifiers that do not run there, each with the reason."""
    of_plain = {} if external.is_plain else dict.fromkeys(("atomicity", "hanging"), _PLAIN)
    return {"commits": _INTERNAL, PRECEDENCE: _CLOCKS} | of_plain


def _names(scenario: Scenario) -> Iterator[Problem]:
    """Refuse names that a program chooses itself and that do not begin with the prefix."""
    pipeline = scenario.pipeline
    names = {pipeline.GROUP: pipeline.group} if pipeline.group else {}
    names |= {("transactional_ids", number): name for number, name in enumerate(pipeline.transactional_ids)}
    for place, name in names.items():
        if not name.startswith((*_PREFIXED, *(f"{{{topic}}}" for topic in scenario.topics))):
            text = f"on a shared cluster, names must begin with its prefix; write {_PREFIXED[0]}{name}"
            yield ("pipeline", *place), Message("name-without-prefix", text)


def _services_in_texts(scenario: Scenario, services: Collection[str]) -> Iterator[Problem]:
    """Refuse services in the texts of a pipeline: nothing replaces these placeholders here."""
    for place, (text, _) in scenario.pipeline.texts.items():
        if named := sorted({*names_in(text)} & {*services}):
            where = "is a service, to which an external system has no link; write its address instead"
            yield ("pipeline", *place), Message("service-outside", f"{{{named[0]}}} {where}")


def _fault(scenario: Scenario, fault: FaultBase, external: External) -> Iterator[Problem]:
    absent = fault.needs - OF_PIPELINES - external.capabilities
    if any(target.role == "controller" for target in fault.broker_targets):
        text = "an external cluster does not tell its clients which broker is the controller; aim at a leader"
        yield ("kind",), Message("controller-outside", text)
    if isinstance(fault, LinkFault):
        yield from _link(scenario, fault, external)
    if Capability.EXECUTOR_PROCESSES in absent:
        yield ("kind",), _why_no_executors(external)
    elif absent:
        message = _NOT_OFFERED_OUTSIDE.get(_first(absent), _NOT_OFFERED)
        yield ("kind",), Message(message.code, message.replace("{kind}", fault.kind).replace("{needed}", _first(absent)))
    target = getattr(fault, "target", None)
    if isinstance(target, ExecutorTarget) and target.number and not absent:
        text = f"workers of an external system have no numbers here; write executor(any) instead of {target}"
        yield ("target",), Message("numbered-worker-outside", text)


def _why_no_executors(external: External) -> Message:
    """Explain why there is no executor whose process can be signalled."""
    if external.spark.is_local:
        text = f"{external.spark.master} has no executor beside its driver; write kind: crash_pipeline"
        return Message("no-executor-beside-driver", text)
    return Message("executors-elsewhere", _ELSEWHERE.format(reason="we cannot signal them"))


def _link(scenario: Scenario, fault: LinkFault, external: External) -> Iterator[Problem]:
    if isinstance(fault.link.right, ServiceTarget):
        text = f"an external system has no link to {fault.link.right}; only a system that the framework starts has one"
        yield ("link",), Message("service-link-outside", text)
    elif message := _not_led(scenario, fault.link, external):
        yield ("link",), message
    if isinstance(fault, RequestsFault):
        yield from ((("request",), message) for message in _request(scenario, fault.request, external))


def _trigger(scenario: Scenario, when: Trigger, external: External) -> Iterator[Problem]:
    if not isinstance(when, OnRequest):
        return
    if message := _not_led(scenario, when.link or LinkPattern("pipeline", "*"), external):
        yield ("when", "link" if when.link else "request"), message
    yield from ((("when", "request"), message) for message in _request(scenario, when.request, external))


def _not_led(scenario: Scenario, link: LinkPattern, external: External) -> Message | None:
    """Explain why this link does not lead through our proxies; None if it does."""
    if link.left not in _OF_JVMS or link.both_ways:
        if link.left in ("loader", "app"):
            return _by_librdkafka(f"the client {link.left}")
        text = f"{link} includes links that lead through no proxy: only those of Spark's JVMs do; write spark->…"
        return Message("link-beyond-jvms", text)
    if Capability.SPARK not in scenario.pipeline.capabilities:
        return _by_librdkafka(f"the pipeline {scenario.pipeline.kind}")
    if not external.spark.is_here:
        text = _ELSEWHERE.format(reason="our proxies listen on loopback addresses of this machine")
        return Message("jvms-elsewhere", text)
    if Capability.PYTHON_WORKERS in scenario.pipeline.capabilities and _of_sink(link.right, scenario.sink):
        text = f"only the sink connects to {link.right} in this role, and {_LIBRDKAFKA.format(client='a sink in Python')}"
        return Message("link-of-python-sink", text)
    return None


def _by_librdkafka(client: str) -> Message:
    return Message("link-of-librdkafka", _LIBRDKAFKA.format(client=client))


def _of_sink(end: str | BrokerTarget | ServiceTarget, sink: str) -> bool:
    """Whether a broker has this role because of what the sink sends to it."""
    return isinstance(end, BrokerTarget) and (end.topic == sink or end.role in _OF_SINK)


def _request(scenario: Scenario, api: str, external: External) -> Iterator[Message]:
    """Refuse a request that no JVM sends, or that cannot be read on the wire."""
    if external.tls is not None:
        text = "requests cannot be told apart under TLS; break whole connections instead, e.g. kind: cut_link"
        yield Message("request-under-tls", text)
        return
    pipeline = scenario.pipeline
    if Capability.SPARK not in pipeline.capabilities:
        return
    if Capability.PYTHON_WORKERS in pipeline.capabilities and api not in _READS:
        text = f"Spark's JVMs do not send {api} here, the sink does, and {_LIBRDKAFKA.format(client='a sink in Python')}"
        yield Message("request-of-python-sink", text)
    elif not pipeline.transactions and api not in _WRITES:
        text = f"a job without transactions never sends {api}"
        yield Message("request-of-transactions", text)
