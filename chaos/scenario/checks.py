"""What the grammar alone cannot say: names that occur twice, targets that cannot be, moments that cannot come."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations

from chaos.faults.base import FaultBase, LinkFault, RequestsFault, ends_of
from chaos.faults.broker_disks import PowerLoss
from chaos.faults.leadership import UncleanElection
from chaos.faults.network_partitions import PartitionNetwork
from chaos.grammar.base import did_you_mean
from chaos.grammar.targets import CLIENTS, BrokerTarget, ExecutorTarget, LinkPattern, WorkerTarget
from chaos.grammar.triggers import OF_BROKERS, OF_CLIENTS, TRANSACTIONAL, After, AfterFault, OnRequest, Trigger
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability
from chaos.scenario.model import Scenario, Workload

Wrong = tuple[tuple[str | int, ...], str]
_LATE_S = 60.0
_MAX_LOADING_S = 600.0
# With these marks pytest would skip the scenario, run it several times, or not know what `-m` selects.
_SPECIAL_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "timeout", "tryfirst", "trylast")
_MISSPELT_MARKS = ("parameterize", "parametrise", "parameterise")  # pytest refuses these by name
_OTHER_TESTS = ("chaos", "integration")
_OPERATORS = ("and", "or", "not")
_TAKEN_TAGS = frozenset((*_SPECIAL_MARKS, *_MISSPELT_MARKS, *_OTHER_TESTS, *_OPERATORS))


def check(scenarios: Mapping[int, Scenario], brokers: int, workers: int) -> Iterator[Wrong]:
    """Every mistake, with its place.

    Args:
        scenarios: place in the file -> what is declared there; those that break the grammar are left out.
        brokers, workers: how many there are.
    """
    first: dict[str, int] = {}
    for number, scenario in scenarios.items():
        here = ("scenarios", number)
        if scenario.name in first:
            yield (
                (*here, "name"),
                f"{scenario.name!r} is the name of scenario {first[scenario.name] + 1} already; names are unique",
            )
        first.setdefault(scenario.name, number)
        for location, message in _scenario(scenario, brokers, workers):
            yield (*here, *location), message


def _scenario(scenario: Scenario, brokers: int, workers: int) -> Iterator[Wrong]:
    yield from _tags(scenario)
    yield from _workload(scenario.workload)
    yield from _verifiers(scenario)
    yield from _fault_names(scenario)
    yield from beyond(scenario, brokers)
    for number, pick in enumerate(scenario.random.pick if scenario.random else ()):
        for place, message in unreachable(scenario, pick.fault, brokers, workers):
            yield ("random", "pick", number, "fault", *place), message
    for number, fault in enumerate(scenario.faults):
        here = ("faults", number)
        if isinstance(fault.when, After) and fault.when.after_s > scenario.workload.loading_s + _LATE_S:
            takes = spoken_seconds(round(scenario.workload.loading_s, 1))
            yield (*here, "when", "after"), f"the workload takes {takes}: this moment would never come"
        for place, message in (*_others(scenario, fault), *unreachable(scenario, fault, brokers, workers)):
            yield (*here, *place), message


def _tags(scenario: Scenario) -> Iterator[Wrong]:
    for number, tag in enumerate(scenario.tags):
        if tag in _TAKEN_TAGS:
            yield ("tags", number), f"{tag!r} means something to pytest already; choose another tag"


def _workload(workload: Workload) -> Iterator[Wrong]:
    """What is declared runs in every night; a soak is made longer on the command line."""
    if workload.loading_s > _MAX_LOADING_S:
        takes = f"{workload.records} records at {workload.rate_per_s:g}/s take {workload.loading_s:.0f} s"
        yield ("workload",), f"{takes}; a workload must end within 10 minutes: fewer records, or a higher rate"


def _verifiers(scenario: Scenario) -> Iterator[Wrong]:
    for number, name in enumerate(scenario.verify):
        if name in scenario.verify[:number]:
            yield ("verify", number), f"{name!r} is here twice; keep one"
    if scenario.expect == "not_sent" and not any(isinstance(fault.when, OnRequest) for fault in scenario.faults):
        yield ("expect",), "no fault waits for a request: which one is not sent? Write when: {request: EndTxn}"
    for name in scenario.expect if isinstance(scenario.expect, Mapping) else ():
        if name not in scenario.verify:
            yield ("expect", name), f"{name!r} is expected to say something but is not in `verify`; add it there"


def _fault_names(scenario: Scenario) -> Iterator[Wrong]:
    names = Counter[str]()
    for number, fault in enumerate(scenario.faults):
        if names[fault.name]:
            yield ("faults", number, "name"), f"{fault.name!r} is the name of another fault of this scenario; names are unique"
        names[fault.name] += 1


def _others(scenario: Scenario, fault: FaultBase) -> Iterator[tuple[tuple[str, ...], str]]:
    """Other faults of the scenario that this one names."""
    names = [other.name for other in scenario.faults if other is not fault]
    wanted = {
        ("until",): getattr(fault, "until", None),
        ("when", "fault"): getattr(fault.when, "fault", None),
        ("when", "since"): getattr(fault.when, "since", None),
    }
    for place, name in wanted.items():
        if name is not None and name not in names:
            yield place, f"there is no other fault {name!r} in this scenario{did_you_mean(name, names)}"


LimitsWrong = tuple[tuple[str | int, ...], str]
_PATIENCE_S = 45.0  # the shortest limit of a phase is 60 s (chaos.engine.phases), and recovery itself takes its share of it
_FEWEST_IN_A_RING = 4
_WAIT = f"clients wait for about {spoken_seconds(_PATIENCE_S)}"
_RING = (
    "in a ring of {brokers} brokers each sees both neighbours, so nothing would be cut: "
    "write system: {{kafka: {{brokers: 5}}}}, or shape: split"
)
_UNCLEAN = (
    "an unclean election throws away what was acknowledged: this cannot be valid; "
    "say what must be found, e.g. expect: {gaps: invalid}"
)
_NO_POWER = (
    "when all brokers lose power, what was acknowledged and not flushed is lost: this cannot be valid; "
    "say what must be found, e.g. expect: {ledger: invalid}"
)
_ALL_DOWN = f"all brokers are down for {{down}}, and {_WAIT}: this cannot be valid; let them be down for a shorter time"
_TWO_DOWN = (
    f"{{name}} keeps {{other}} down at the same time, both for {{both}}, and {_WAIT}: min ISR 2 of 3 bears one broker less"
)


def beyond(scenario: Scenario, brokers: int) -> Iterator[LimitsWrong]:
    """Every fault, or pair of faults, that breaks more than can be borne, with its place in the scenario."""
    for number, fault in enumerate(scenario.faults):
        if isinstance(fault, PartitionNetwork) and fault.shape == "ring" and brokers < _FEWEST_IN_A_RING:
            yield ("faults", number, "shape"), _RING.format(brokers=brokers)
        for key, message in _alone(fault) if _must_be_valid(scenario) else ():
            yield ("faults", number, key), message
    if _must_be_valid(scenario):
        yield from _together(scenario)


def _must_be_valid(scenario: Scenario) -> bool:
    return not isinstance(scenario.expect, Mapping) and scenario.expect == "valid"


def _alone(fault: FaultBase) -> Iterator[tuple[str, str]]:
    if isinstance(fault, UncleanElection):
        yield "kind", _UNCLEAN
    if isinstance(fault, PowerLoss) and fault.target.role == "all":
        yield "target", _NO_POWER
    elif fault.down_s > _PATIENCE_S and any(target.role == "all" for target in fault.broker_targets):
        yield _key(fault), _ALL_DOWN.format(down=spoken_seconds(fault.down_s))


def _together(scenario: Scenario) -> Iterator[LimitsWrong]:
    named = [(number, fault) for number, fault in enumerate(scenario.faults) if _is_named(fault)]
    for (_, first), (number, second) in combinations(named, 2):
        overlap_s = _overlap_s(first, second)
        if first.broker_targets != second.broker_targets and overlap_s > _PATIENCE_S:
            other = first.broker_targets[0]
            message = _TWO_DOWN.format(name=first.name, other=other, both=spoken_seconds(overlap_s))
            yield ("faults", number, "target"), message


def _is_named(fault: FaultBase) -> bool:
    return (
        fault.down_s > 0 and all(target.role == "broker" for target in fault.broker_targets) and isinstance(fault.when, After)
    )


def _overlap_s(first: FaultBase, second: FaultBase) -> float:
    ends_s = [_after_s(fault) + fault.down_s for fault in (first, second)]
    return min(ends_s) - max(_after_s(first), _after_s(second))


def _after_s(fault: FaultBase) -> float:
    return fault.when.after_s if isinstance(fault.when, After) else 0.0


def _key(fault: FaultBase) -> str:
    return "for" if hasattr(fault, "for_s") else "restart_after"


ReachWrong = tuple[tuple[str, ...], str]
_OF_HELD = ("receiver", "sender")
_ON_SPARK = ("spark",)
_NOT_ON_SPARK = ("app",)


def unreachable(scenario: Scenario, fault: FaultBase, brokers: int, workers: int) -> Iterator[ReachWrong]:
    """Every mistake in what a fault is aimed at, with its place in the fault.

    Args:
        brokers, workers: how many there are.
    """
    aim = ("link",) if isinstance(fault, LinkFault) else ("target",)
    targets = fault.broker_targets
    for message in (*_brokers(scenario, targets, brokers), *_held(scenario, fault.when, targets)):
        yield aim if hasattr(fault, aim[0]) else ("kind",), message
    yield from ((("target",), message) for message in _workers(getattr(fault, "target", None), workers))
    if isinstance(fault, LinkFault):
        yield from (((*aim,), message) for message in _client(scenario, fault.link))
    if isinstance(fault, RequestsFault):
        yield from ((("request",), message) for message in _request(scenario, fault.request, fault.link))
    if isinstance(fault.when, OnRequest):
        yield from ((("when", *place), message) for place, message in _moment(scenario, fault.when, brokers))


def _moment(scenario: Scenario, when: OnRequest, brokers: int) -> Iterator[ReachWrong]:
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
    if _reach_alone(scenario) and any(target.topic == "datasink" for target in targets):
        yield "this pipeline writes to datasource only"


def _held(scenario: Scenario, when: Trigger, targets: list[BrokerTarget]) -> Iterator[str]:
    """The ends of a request that nothing holds, and a sender that is a client."""
    roles = [target.role for target in targets if target.role in _OF_HELD]
    request = _request_of(scenario, when)
    if roles and request is None:
        yield f"the {roles[0]} of which request? Write when: {{request: EndTxn, nth: 20}}"
    if "sender" in roles and request is not None and _sent_by_client(request):
        yield f"a client sends {request.request}, and that is no broker; to crash it, write kind: crash_pipeline"


def _request_of(scenario: Scenario, when: Trigger) -> OnRequest | None:
    """The request that is on the wire then: of this fault's trigger, or of the fault that it follows."""
    if isinstance(when, AfterFault):
        followed = next((fault.when for fault in scenario.faults if fault.name == when.fault), None)
        return followed if isinstance(followed, OnRequest) else None
    return when if isinstance(when, OnRequest) else None


def _sent_by_client(when: OnRequest) -> bool:
    if when.link is not None and when.link.left != "*":
        return when.link.left in CLIENTS
    return when.request not in OF_BROKERS and (when.link is None or when.request in OF_CLIENTS)


def _workers(target: object, workers: int) -> Iterator[str]:
    if isinstance(target, ExecutorTarget | WorkerTarget) and target.number > workers:
        yield f"there is no worker-{target.number}; the workers are worker-1 to worker-{workers}"


def _client(scenario: Scenario, link: LinkPattern) -> Iterator[str]:
    if link.left in _ON_SPARK and not _spark(scenario):
        yield "this pipeline does not run on Spark: nothing would pass this link; write pipeline->…"
    if link.left in _NOT_ON_SPARK and (_spark(scenario) or _reach_alone(scenario)):
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


def _reach_alone(scenario: Scenario) -> bool:
    return Capability.PIPELINE not in scenario.pipeline.capabilities


def _spark(scenario: Scenario) -> bool:
    return Capability.SPARK in scenario.pipeline.capabilities


def _grouped(scenario: Scenario) -> bool:
    return Capability.CONSUMER_GROUP in scenario.pipeline.capabilities


def _known_without_transactions(scenario: Scenario) -> bool:
    return getattr(scenario.pipeline, "delivery", "none" if _reach_alone(scenario) else "exactly_once") != "exactly_once"


def _transactional(scenario: Scenario) -> bool:
    return not _known_without_transactions(scenario)
