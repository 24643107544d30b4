"""Faults at a request of Kafka's protocol: what can be declared, and what is known to be absent when the file is read."""

import json
import re
from pathlib import Path

import pytest

from chaos.faults.requests import DelayRequest, HoldRequests, LateRequest, LoseRequest, LoseResponse
from chaos.grammar import triggers
from chaos.grammar.triggers import AfterFault, OnRequest
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import STOCK, errors_in, errors_in_fault, errors_of, head, loaded, read

TOXIC = Path(__file__).parents[3] / "toxiproxy" / "kafka" / "apis.go"
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
    """The text says what is on the wire, from whom, and what becomes of it."""
    assert describe(plan(read(DECLARED).scenarios[0], 7)) == [
        "while Produce 1 is on the wire: lose_request Produce 1, connection kept",
        f"while {ANSWER} is on the wire: lose_response {ANSWER}, connection closed",
        f"while {COMMIT} is on the wire: delay_request {COMMIT} for 2 s or until lost is proved",
        "while EndTxn 1 since lost is on the wire on pipeline->*: late_request EndTxn 1 since lost for 9 s",
        "2 s after lost is proved: hold_requests every response to Fetch on broker-*->any for 3 s",
        "once lost is proved: hold_requests every EndTxn of *-0 on pipeline->any for 3 s",
        "while WriteTxnMarkers 1 is on the wire, and is then lost: kill_broker receiver, restarted after 3 s",
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
    "name",
    [
        "EndTx",
        "endtxn",
        "initProducer",
        "Frobnicate",
        "26",
    ],
)
def test_an_unknown_request_is_refused_with_those_that_there_are(name: str) -> None:
    """In a trigger, and in a fault that holds all of a kind."""
    assert errors_in_fault(f"{{kind: lose_request, when: {{request: {name}}}}}") == [("6:51", "not-a-request")]
    assert errors_in_fault(f"{{kind: hold_requests, request: {name}, link: '*->*', for: 1s, when: {{after: 1s}}}}") == [
        ("6:45", "not-a-request")
    ]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "{kind: lose_request, when: {after: 1s}}",
            ("6:41", "trigger-without-request"),
        ),
        ("{kind: lose_request, when: 5s}", ("6:41", "not-a-mapping")),
        (
            "{kind: lose_request, when: {request: EndTxn, nht: 2}}",
            ("6:59", "unknown-key"),
        ),
        (
            "{kind: kill_broker, target: receiver, when: {request: EndTxn, nht: 2}}",
            ("6:76", "unknown-key"),
        ),
        ("{kind: lose_request, when: {request: EndTxn, nth: 0}}", ("6:64", "too-small")),
        ("{kind: lose_request, when: {request: EndTxn, transactional_id: ''}}", ("6:77", "empty-text")),
        (
            "{kind: lose_request, when: {request: EndTxn, at: reply}}",
            ("6:63", "unknown-choice"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, at: response}}",
            ("6:14", "request-not-awaited"),
        ),
        (
            "{kind: lose_response, when: {request: EndTxn, at: request}}",
            ("6:42", "answer-not-awaited"),
        ),
        (
            "{kind: lose_response, when: {after: 1s}}",
            ("6:42", "trigger-without-request"),
        ),
        (
            "{kind: delay_request, when: {request: EndTxn, then: lose}, for: 1s}",
            ("6:42", "request-decided-twice"),
        ),
        (
            "{kind: late_request, when: {request: EndTxn, at: response}, for: 1s}",
            ("6:14", "answer-without-client"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn}, connection: open}",
            ("6:72", "unknown-choice"),
        ),
        ("{kind: late_request, when: {request: EndTxn}}", ("6:14", "missing-key")),
    ],
)
def test_a_mistake_in_a_fault_of_a_request_is_shown_where_it_is(fault: str, error: tuple[str, str]) -> None:
    """And what to write instead."""
    assert errors_in_fault(fault) == [error]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'broker-1->broker-2'}}",
            ("6:51", "request-of-clients"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'broker-*->controller'}}",
            ("6:51", "request-of-clients"),
        ),
        (
            "{kind: lose_request, when: {request: WriteTxnMarkers, link: 'pipeline->*'}}",
            ("6:51", "request-of-brokers"),
        ),
        (
            "{kind: hold_requests, request: Vote, link: 'loader->any', for: 1s, when: {after: 1s}}",
            ("6:45", "request-of-brokers"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'app->*'}}",
            ("6:65", "no-app-client"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'pipeline->broker-4'}}",
            ("6:65", "no-such-broker"),
        ),
        (
            "{kind: lose_request, when: {request: EndTxn, link: 'pipeline->receiver'}}",
            ("6:65", "link-of-held-request"),
        ),
        (
            "{kind: kill_broker, target: receiver, when: {after: 1s}}",
            ("6:42", "no-request-held"),
        ),
        (
            "{kind: cut_link, link: 'sender->*', for: 1s, when: {progress: 5%}}",
            ("6:37", "no-request-held"),
        ),
        (
            "{kind: kill_broker, target: sender, when: {request: EndTxn}}",
            ("6:42", "sender-is-a-client"),
        ),
        (
            "{kind: kill_broker, target: sender, when: {request: Fetch, link: 'pipeline->*'}}",
            ("6:42", "sender-is-a-client"),
        ),
    ],
)
def test_what_can_never_come_is_known_when_the_file_is_read(fault: str, error: tuple[str, str]) -> None:
    """Better said now than after a run that waited for nothing."""
    assert errors_in_fault(fault) == [error]


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
            "sender-is-a-client",
        ),
        (
            "{name: late, kind: pause_pipeline, when: {after: 1s}, for: 1s}",
            "no-request-held",
        ),
    ],
)
def test_what_is_followed_must_hold_a_request_of_a_broker(first: str, error: str) -> None:
    """As for a trigger of its own."""
    errors = errors_in(f"faults: [{first}, {{kind: kill_broker, target: sender, when: {{fault: late}}}}]")

    assert [code for _, code in errors] == [error]


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

    assert errors_of(with_pipeline(pipeline, fault)) == [("6:51", "request-never-sent")]
    assert loaded(with_pipeline(pipeline, fault, "expect: not_sent"))


@pytest.mark.parametrize(
    ("pipeline", "fault", "error"),
    [
        (
            STOCK,
            "{kind: kill_broker, target: group_coordinator, when: {after: 1s}}",
            ("6:42", "no-group-coordinator"),
        ),
        (
            "none",
            "{kind: crash_pipeline, when: {after: 1s}}",
            ("6:21", "no-pipeline-to-break"),
        ),
        (
            "{kind: command, run: [app], group: g}",
            "{kind: crash_executor, when: {after: 1s}}",
            ("6:14", "no-executors"),
        ),
        (
            "{kind: command, run: [app], group: g}",
            "{kind: cut_link, link: 'spark->any', for: 1s, when: {after: 1s}}",
            ("6:37", "no-spark-client"),
        ),
        (
            "none",
            "{kind: cut_link, link: 'app->any', for: 1s, when: {after: 1s}}",
            ("6:37", "no-app-client"),
        ),
    ],
)
def test_a_fault_that_this_pipeline_offers_nothing_to(pipeline: str, fault: str, error: tuple[str, str]) -> None:
    """Clients, coordinators and processes that do not exist in this scenario."""
    assert errors_of(with_pipeline(pipeline, f"faults: [{fault}]")) == [error]


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("{fault: lots}", ("8:46", "no-such-fault")),
        ("{fault: crash_pipeline-1}", ("8:46", "no-such-fault")),
        ("{request: EndTxn, since: lots}", ("8:63", "no-such-fault")),
    ],
)
def test_a_trigger_after_a_fault_that_does_not_exist_or_is_its_own(when: str, error: tuple[str, str]) -> None:
    """It would never come."""
    assert errors_in(
        "faults:",
        "  - {name: lost, kind: lose_request, when: {request: Produce}}",
        f"  - {{kind: crash_pipeline, when: {when}}}",
    ) == [error]


@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        (
            "{kind: command, run: [a], group: g, speaks: [transaction]}",
            ("5:60", "unknown-choice"),
        ),
        ("{kind: command, run: [a], group: g, restarts: -1}", ("5:61", "too-small")),
        (
            "{kind: command, run: [a], group: g, session_timeout: 6}",
            ("5:68", "not-a-duration"),
        ),
        (
            "{kind: command, run: [a], group: g, environment: {A: '{sinc}'}}",
            (("5:68", "unknown-placeholder")),
        ),
        (
            "{kind: spark_submit, application: a.jar, arguments: ['{checkpoint}']}",
            ("5:15", "main-class-missing"),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{source}']}",
            ("5:66", "checkpoint-missing"),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}', '{java}']}",
            (("5:83", "unknown-placeholder")),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], configuration: {spark.a: '{sinc}'}}",
            (("5:109", "unknown-placeholder")),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: here}",
            ("5:95", "not-positions"),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: {group: '{partition}'}}",
            (("5:103", "unknown-placeholder")),
        ),
        (
            "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], transactional_ids: ['{bootstrap}']}",
            ("5:104", "unknown-placeholder"),
        ),
    ],
)
def test_a_mistake_in_a_pipeline_of_clients(pipeline: str, error: tuple[str, str]) -> None:
    """Each is shown at its value. That there is no such job is another mistake."""
    found = [one for one in errors_of(with_pipeline(pipeline)) if one[1] != "not-a-file"]

    assert found == [error]


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        ("{acks: 1}", ("6:26", "idempotence-without-acks")),
        ("{acks: 0}", ("6:33", "unknown-choice")),
        (
            "{idempotence: false, transaction_records: 9}",
            ("6:26", "transactions-without-idempotence"),
        ),
        ("{transaction_records: 0}", ("6:48", "too-small")),
        ("{in_flight: 6}", ("6:38", "too-large")),
        ("{batch_records: 0}", ("6:42", "too-small")),
        ("{idempotence: 'no'}", ("6:40", "not-true-or-false")),
        ("{delivery: exactly_once}", ("6:27", "unknown-key")),
    ],
)
def test_a_mistake_in_the_producer_of_the_loader(producer: str, error: tuple[str, str]) -> None:
    """Whatever the pipeline is."""
    assert errors_in(f"workload: {{producer: {producer}}}") == [error]


def test_a_wrong_key_of_positions_is_shown_with_the_one_that_is_missing() -> None:
    """As in every mapping."""
    pipeline = "{kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], positions: {grup: g}}"

    assert errors_of(with_pipeline(pipeline)) == [
        ("5:95", "missing-key"),
        ("5:96", "unknown-key"),
    ]


def test_exact_counts_are_read_beside_what_must_be_said() -> None:
    """An exact anomaly is a control; the other verifiers must be satisfied."""
    (scenario,) = read("expect: {duplicates: {duplicate: 1}, gaps: invalid}").scenarios

    assert scenario.is_control
    assert scenario.expected["duplicates"] == scenario.expected["gaps"] == "invalid"
    assert scenario.expected["ordering"] == "valid"
    assert scenario.exactly == {"duplicates": {"duplicate": 1}}
