"""Faults at a request of Kafka's protocol: what can be declared, and what is known to be absent when the file is read."""

import json
import re
from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.faults.requests import DelayRequest, HoldRequests, LateRequest, LoseRequest, LoseResponse
from chaos.grammar import triggers
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import STOCK, errors_in, errors_in_fault, errors_of, head, loaded, read

TOXIC = Path(__file__).parents[3] / "toxiproxy" / "kafka" / "apis.go"
KNOWN = f"there are: {', '.join(sorted(triggers.NAMES))}"
HELD = "receiver and sender are known only once the request is held, so they cannot say where to hold it"
CLIENTS = "name a link of a client, e.g. pipeline->*"
PEERS = "name a link between brokers, e.g. broker-*->broker-*"
ANSWER = "the response to EndTxn 20 of app-*"
COMMIT = "the response to TxnOffsetCommit 1"
DECLARED = """\
faults:
      - {name: lost, kind: lose_request, when: {request: Produce}, connection: kept}
      - {kind: lose_response, when: {request: EndTxn, nth: 20, transactional_id: "app-*"}}
      - {kind: delay_request, when: {request: TxnOffsetCommit, at: response, client_id: "a*"}, for: 2s, until: lost}
      - {kind: late_request, when: {request: EndTxn, link: "pipeline->*", since: lost}, for: 9s}
      - {kind: hold_requests, request: Fetch, at: response, link: "broker-*->any", when: {fault: lost, after: 2s}, for: 3s}
      - {kind: hold_requests, request: EndTxn, transactional_id: "*-0", link: "pipeline->any", when: {fault: lost}, for: 3s}
      - {kind: kill_broker, target: receiver, when: {request: WriteTxnMarkers, then: lose}}
      - {kind: pause_broker, target: sender, when: {request: WriteTxnMarkers, at: response}, for: 1s}
      - {kind: crash_pipeline, when: {fault: lost}}
"""


def with_pipeline(pipeline: str, *lines: str) -> str:
    """One scenario with this pipeline, and these lines from line 6 on."""
    return head(pipeline) + "".join(f"    {line}\n" for line in lines)


def test_every_fault_of_a_request_is_read_into_a_value_of_its_own() -> None:
    """The first one, as a request, on the pipeline's links, and then let on: that is what is not declared."""
    lost, answer, delay, late, hold, *_ = read(DECLARED).scenarios[0].faults

    assert isinstance(lost, LoseRequest)
    assert (lost.when, lost.connection) == (OnRequest(request="Produce", nth=1, at="request", then="deliver"), "kept")
    assert isinstance(answer, LoseResponse)
    assert (answer.when.at, answer.when.nth, answer.when.transactional_id, answer.connection) == (
        "response",
        20,
        "app-*",
        "closed",
    )
    assert isinstance(delay, DelayRequest)
    assert (delay.for_s, delay.until, delay.when.client_id) == (2.0, "lost", "a*")
    assert isinstance(late, LateRequest)
    assert (str(late.when.link), late.when.since, late.for_s) == ("pipeline->*", "lost", 9.0)
    assert isinstance(hold, HoldRequests)
    assert (hold.request, hold.at, hold.when) == ("Fetch", "response", AfterFault(fault="lost", after="2s"))


def test_they_are_described_in_words() -> None:
    """What is on the wire, of whom, and what becomes of it."""
    assert describe(plan(read(DECLARED).scenarios[0], 7)) == [
        "while Produce 1 is on the wire: lose_request Produce 1, connection kept",
        f"while {ANSWER} is on the wire: lose_response {ANSWER}, connection closed",
        f"while {COMMIT} is on the wire: delay_request {COMMIT} for 2 s or until lost is proved",
        "while EndTxn 1 since lost is on the wire on pipeline->*: late_request EndTxn 1 since lost for 9 s",
        "2 s after lost is proved: hold_requests every response to Fetch on broker-*->any for 3 s",
        "once lost is proved: hold_requests every EndTxn of *-0 on pipeline->any for 3 s",
        "while WriteTxnMarkers 1 is on the wire, and is lost then: kill_broker receiver, restarted after 3 s",
        "while the response to WriteTxnMarkers 1 is on the wire: pause_broker sender for 1 s",
        "once lost is proved: crash_pipeline, restarted after 1 s",
    ]


def test_they_survive_the_way_through_a_file() -> None:
    """A schedule is written with its run and read when the run is judged again; links and globs survive that."""
    schedule = plan(read(DECLARED).scenarios[0], 7)

    assert from_json(json.loads(json.dumps(to_json(schedule)))) == schedule


def test_every_request_that_can_be_named_is_known_to_the_toxic() -> None:
    """The toxic would refuse the rule in the middle of a run."""
    toxic = re.findall(r'^\t\d+: +\{"(\w+)",', TOXIC.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(toxic) > 80
    assert [name for name in triggers.NAMES if name not in toxic] == []
    assert len(set(triggers.NAMES)) == len(triggers.NAMES)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("EndTx", f"'EndTx' is not a request of Kafka's protocol (did you mean EndTxn?); {KNOWN}"),
        ("endtxn", f"'endtxn' is not a request of Kafka's protocol (did you mean EndTxn?); {KNOWN}"),
        ("initProducer", f"'initProducer' is not a request of Kafka's protocol (did you mean InitProducerId?); {KNOWN}"),
        ("Frobnicate", f"'Frobnicate' is not a request of Kafka's protocol; {KNOWN}"),
        ("26", f"26 is not a request of Kafka's protocol; {KNOWN}"),
    ],
)
def test_an_unknown_request_is_refused_with_those_that_there_are(name: str, message: str) -> None:
    """In a trigger, and in a fault that holds all of a kind."""
    assert errors_in_fault(f"{{kind: lose_request, when: {{request: {name}}}}}") == [f"scenarios.yaml:6:51: {message}"]
    assert errors_in_fault(f"{{kind: hold_requests, request: {name}, link: '*->*', for: 1s, when: {{after: 1s}}}}") == [
        f"scenarios.yaml:6:45: {message}"
    ]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "{kind: lose_request, when: {after: 1s}}",
            "6:41: this fault is done to a request: write when: {request: EndTxn, nth: 20}",
        ),
        ("{kind: lose_request, when: 5s}", "6:41: '5s' is not a mapping; write keys and values, e.g. {kind: …}"),
        (
            "{kind: lose_request, when: {request: EndTxn, nht: 2}}",
            "6:59: 'nht' is not known here (did you mean nth?)",
        ),
        (
            "{kind: kill_broker, target: receiver, when: {request: EndTxn, nht: 2}}",
            "6:76: 'nht' is not known here (did you mean nth?)",
        ),
        ("{kind: lose_request, when: {request: EndTxn, nth: 0}}", "6:64: 0 is too small; the least is 1"),
        ("{kind: lose_request, when: {request: EndTxn, transactional_id: ''}}", "6:77: this text must not be empty"),
        (
            "{kind: lose_request, when: {request: EndTxn, at: reply}}",
            "6:63: 'reply' is not known here; write request or response",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, at: response}}",
            "6:14: lose_request loses a request; to lose the answer, write kind: lose_response",
        ),
        (
            "{kind: lose_response, when: {request: EndTxn, at: request}}",
            "6:42: lose_response loses an answer; to lose the request, write kind: lose_request",
        ),
        (
            "{kind: lose_response, when: {after: 1s}}",
            "6:42: this fault is done to a request: write when: {request: EndTxn, nth: 20}",
        ),
        (
            "{kind: delay_request, when: {request: EndTxn, then: lose}, for: 1s}",
            "6:42: this fault itself decides what becomes of the request: leave out `then`",
        ),
        (
            "{kind: late_request, when: {request: EndTxn, at: response}, for: 1s}",
            "6:14: no answer outlives its client; write at: request, or kind: delay_request",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn}, connection: open}",
            "6:72: 'open' is not known here; write closed or kept",
        ),
        ("{kind: late_request, when: {request: EndTxn}}", "6:14: 'for' is missing"),
    ],
)
def test_a_mistake_in_a_fault_of_a_request_is_shown_where_it_is(fault: str, error: str) -> None:
    """And what to write instead."""
    assert errors_in_fault(fault) == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'broker-1->broker-2'}}",
            f"6:51: brokers do not send EndTxn to each other, so this would never come; {CLIENTS}",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'broker-*->controller'}}",
            f"6:51: brokers do not send EndTxn to each other, so this would never come; {CLIENTS}",
        ),
        (
            "{kind: lose_request, when: {request: WriteTxnMarkers, link: 'pipeline->*'}}",
            f"6:51: clients do not send WriteTxnMarkers, so this would never come; {PEERS}",
        ),
        (
            "{kind: hold_requests, request: Vote, link: 'loader->any', for: 1s, when: {after: 1s}}",
            f"6:45: clients do not send Vote, so this would never come; {PEERS}",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'app->*'}}",
            "6:65: this client does not run here, so nothing would pass this link; write pipeline->…",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'pipeline->broker-4'}}",
            "6:65: there is no broker-4; the brokers are broker-1 to broker-3",
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'pipeline->receiver'}}",
            f"6:65: {HELD}; name another broker",
        ),
        (
            "{kind: kill_broker, target: receiver, when: {after: 1s}}",
            "6:42: receiver is an end of a held request, and no request is held here; write when: {request: EndTxn, nth: 20}",
        ),
        (
            "{kind: cut_link, link: 'sender->*', for: 1s, when: {progress: 5%}}",
            "6:37: sender is an end of a held request, and no request is held here; write when: {request: EndTxn, nth: 20}",
        ),
        (
            "{kind: kill_broker, target: sender, when: {request: EndTxn}}",
            "6:42: EndTxn is sent by a client, not by a broker; to crash the client, write kind: crash_pipeline",
        ),
        (
            "{kind: kill_broker, target: sender, when: {request: Fetch, link: 'pipeline->*'}}",
            "6:42: Fetch is sent by a client, not by a broker; to crash the client, write kind: crash_pipeline",
        ),
    ],
)
def test_what_can_never_come_is_known_when_the_file_is_read(fault: str, error: str) -> None:
    """Better said now than after a run that waited for nothing."""
    assert errors_in_fault(fault) == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    "fault",
    [
        "{kind: lose_request, when: {request: EndTxn, link: '*->*'}}",
        "{kind: lose_request, when: {request: Fetch, link: 'broker-1->broker-2'}}",
        "{kind: lose_request, when: {request: Fetch, link: 'pipeline->*'}}",
        "{kind: lose_request, when: {request: WriteTxnMarkers, link: 'broker-*->any'}}",
        "{kind: kill_broker, target: sender, when: {request: WriteTxnMarkers}}",
        "{kind: kill_broker, target: sender, when: {request: Fetch, link: 'broker-*->broker-*'}}",
        "{kind: cut_link, link: 'pipeline->receiver', for: 1s, when: {request: EndTxn}}",
        "{kind: kill_broker, target: 'transaction_coordinator(1)', when: {request: EndTxn}}",
    ],
)
def test_what_can_come_is_left_to_the_run(fault: str) -> None:
    """Only what is knowable is an error."""
    assert read(f"faults: [{fault}]")


LATE = "{name: late, kind: late_request, when: {request: WriteTxnMarkers}, for: 1s}"


def test_the_ends_of_a_request_are_known_to_what_follows_its_fault() -> None:
    """A coordinator that dies while its marker is under way: which of them it is, the marker says."""
    assert read(f"faults: [{LATE}, {{kind: kill_broker, target: sender, when: {{fault: late, once: injected}}}}]")


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (
            LATE.replace("WriteTxnMarkers", "EndTxn"),
            "EndTxn is sent by a client, not by a broker; to crash the client, write kind: crash",
        ),
        (
            "{name: late, kind: pause_pipeline, when: {after: 1s}, for: 1s}",
            "sender is an end of a held request, and no request is held here; write when: {request",
        ),
    ],
)
def test_what_is_followed_must_hold_a_request_of_a_broker(first: str, error: str) -> None:
    """As for a trigger of its own."""
    with pytest.raises(ScenarioError, match=re.escape(error)):
        read(f"faults: [{first}, {{kind: kill_broker, target: sender, when: {{fault: late}}}}]")


@pytest.mark.parametrize(
    ("pipeline", "request_"),
    [
        (STOCK, "EndTxn"),
        ("{kind: command, run: [app], group: g, transactions: false}", "AddPartitionsToTxn"),
        ("{kind: command, run: [app], group: g, transactions: false}", "WriteTxnMarkers"),
        ("none", "AddOffsetsToTxn"),
    ],
)
def test_a_transactional_request_of_a_pipeline_without_transactions(pipeline: str, request_: str) -> None:
    """It is an error, unless the scenario says itself that it is never sent; then the run must show it."""
    fault = f"faults: [{{kind: lose_request, when: {{request: {request_}}}}}]"

    error = f"this pipeline uses no transactions, so {request_} is never sent; to have that checked, write expect: not_sent"
    assert errors_of(with_pipeline(pipeline, fault)) == [f"scenarios.yaml:6:51: {error}"]
    assert loaded(with_pipeline(pipeline, fault, "expect: not_sent"))


@pytest.mark.parametrize(
    ("pipeline", "fault", "error"),
    [
        (
            STOCK,
            "{kind: kill_broker, target: group_coordinator, when: {after: 1s}}",
            "6:42: this pipeline does not keep its position in a consumer group, so it has no group coordinator",
        ),
        (
            "none",
            "{kind: crash_pipeline, when: {after: 1s}}",
            "6:21: there is no pipeline to break: only the loader is under test, and it must live to keep the ledger",
        ),
        (
            "{kind: command, run: [app], group: g}",
            "{kind: crash_executor, when: {after: 1s}}",
            "6:14: this pipeline does not run on Spark, so there is no executor to crash",
        ),
        (
            "{kind: command, run: [app], group: g}",
            "{kind: cut_link, link: 'spark->any', for: 1s, when: {after: 1s}}",
            "6:37: this pipeline does not run on Spark, so nothing would pass this link; write pipeline->…",
        ),
        (
            "none",
            "{kind: cut_link, link: 'app->any', for: 1s, when: {after: 1s}}",
            "6:37: this client does not run here, so nothing would pass this link; write pipeline->…",
        ),
    ],
)
def test_a_fault_that_this_pipeline_offers_nothing_to(pipeline: str, fault: str, error: str) -> None:
    """Clients, coordinators and processes that do not exist in this scenario."""
    assert errors_of(with_pipeline(pipeline, f"faults: [{fault}]")) == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("{fault: lots}", "8:46: there is no other fault 'lots' in this scenario (did you mean lost?)"),
        ("{fault: crash_pipeline-1}", "8:46: there is no other fault 'crash_pipeline-1' in this scenario"),
        ("{request: EndTxn, since: lots}", "8:63: there is no other fault 'lots' in this scenario (did you mean lost?)"),
    ],
)
def test_a_trigger_after_a_fault_that_does_not_exist_or_is_its_own(when: str, error: str) -> None:
    """It would never come."""
    assert errors_in(
        "faults:",
        "  - {name: lost, kind: lose_request, when: {request: Produce}}",
        f"  - {{kind: crash_pipeline, when: {when}}}",
    ) == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        (
            "{kind: command, run: [a], group: g, speaks: [transaction]}",
            "5:60: 'transaction' is not known here (did you mean transactions?); write started, transactions or deliveries",
        ),
        ("{kind: command, run: [a], group: g, restarts: -1}", "5:61: -1 is too small; the least is 0"),
        (
            "{kind: command, run: [a], group: g, session_timeout: 6}",
            "5:68: 6 is not a duration; write a number with a unit, e.g. 400ms, 5s or 2m",
        ),
        (
            "{kind: command, run: [a], group: g, environment: {A: '{sinc}'}}",
            (
                "5:68: {sinc} in '{sinc}' is not a placeholder; there are {bootstrap}, {source}, {sink}, {folder}, {prefix}, "
                "{suffix}, {java}, {kafka_tools}, {packages}, {partition}, {instance}, {python}, {project}, {datasource}, "
                "{datasink}, and {{word}} for a literal {word}"
            ),
        ),
        (
            "{kind: spark_submit, application: a.jar, arguments: ['{checkpoint}']}",
            "5:15: a jar needs main_class: the class whose main is the job",
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{source}']}",
            "5:66: {checkpoint} is missing: the job must keep its checkpoint there, where it is read, and damaged by faults",
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}', '{java}']}",
            (
                "5:83: {java} in '{java}' is not a placeholder; there are {bootstrap}, {source}, {sink}, {checkpoint}, "
                "{folder}, {prefix}, {suffix}, {project}, {datasource}, {datasink}, and {{word}} for a literal {word}"
            ),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], configuration: {spark.a: '{sinc}'}}",
            (
                "5:109: {sinc} in '{sinc}' is not a placeholder; there are {bootstrap}, {source}, {sink}, {checkpoint}, "
                "{folder}, {prefix}, {suffix}, {project}, {datasource}, {datasink}, and {{word}} for a literal {word}"
            ),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: here}",
            "5:95: 'here' is not a place of positions; write checkpoint, or the consumer group: {group: NAME}, or none",
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: {group: '{partition}'}}",
            (
                "5:103: {partition} in '{partition}' is not a placeholder; there are {source}, {sink}, {prefix}, {suffix}, "
                "{datasource}, {datasink}, and {{word}} for a literal {word}"
            ),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], transactional_ids: ['{bootstrap}']}",
            (
                "5:104: {bootstrap} in '{bootstrap}' is not a placeholder; there are {source}, {sink}, {prefix}, {suffix}, "
                "{partition}, {datasource}, {datasink}, and {{word}} for a literal {word}"
            ),
        ),
    ],
)
def test_a_mistake_in_a_pipeline_of_clients(pipeline: str, error: str) -> None:
    """Each is shown at its value. That there is no such job is another mistake."""
    found = [one for one in errors_of(with_pipeline(pipeline)) if "is not a file" not in one]

    assert found == [f"scenarios.yaml:{error}"]


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        ("{acks: 1}", "6:26: an idempotent producer needs acks: all; write that, or idempotence: false"),
        ("{acks: 0}", "6:33: 0 is not known here; write all or 1"),
        (
            "{idempotence: false, transaction_records: 9}",
            "6:26: transaction_records needs idempotence: true and acks: all; write these, or leave it out",
        ),
        ("{transaction_records: 0}", "6:48: 0 is too small; the least is 1"),
        ("{in_flight: 6}", "6:38: 6 is too large; the most is 5"),
        ("{batch_records: 0}", "6:42: 0 is too small; the least is 1"),
        ("{idempotence: 'no'}", "6:40: 'no' is neither true nor false"),
        ("{delivery: exactly_once}", "6:27: 'delivery' is not known here"),
    ],
)
def test_a_mistake_in_the_producer_of_the_loader(producer: str, error: str) -> None:
    """Whatever the pipeline is."""
    assert errors_in(f"workload: {{producer: {producer}}}") == [f"scenarios.yaml:{error}"]


def test_a_wrong_key_of_positions_is_shown_with_the_one_that_is_missing() -> None:
    """As in every mapping."""
    pipeline = "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: {grup: g}}"

    assert errors_of(with_pipeline(pipeline)) == [
        "scenarios.yaml:5:95: 'group' is missing",
        "scenarios.yaml:5:96: 'grup' is not known here (did you mean group?)",
    ]


def test_exact_counts_are_read_beside_what_must_be_said() -> None:
    """An exact anomaly is a control; the other verifiers must be satisfied."""
    (scenario,) = read("expect: {duplicates: {duplicate: 1}, gaps: invalid}").scenarios

    assert scenario.is_control
    assert scenario.expected["duplicates"] == scenario.expected["gaps"] == "invalid"
    assert scenario.expected["ordering"] == "valid"
    assert scenario.exactly == {"duplicates": {"duplicate": 1}}
