"""Requests that the proxy answers with an error code: what is armed, what proves it, and what is refused."""

from dataclasses import replace
from random import Random

import pytest

from chaos.cluster.protocol import ERROR_CODES
from chaos.faults.answer_error import AnswerError
from chaos.faults.base import prove
from tests.unit.faults.wire import FakeRules, context, interception
from tests.unit.scenario.declared import STOCK, errors_in_fault, errors_of, head

FAULT = {
    "kind": "answer_error",
    "name": "refused",
    "request": "EndTxn",
    "error": "CONCURRENT_TRANSACTIONS",
    "times": 2,
    "link": "app->*",
    "for": "50ms",
    "when": {"after": "0s"},
}
ANSWERED = replace(interception(), outcome="answered", error_code=51)


def injected(*answers):
    """The fault in force, and the requests that its rule has intercepted."""
    rules = FakeRules(sends=None)
    injection = AnswerError.model_validate(FAULT).prepare(context(rules), Random(1))
    injection.inject()
    rules.intercepted[injection.name] = list(answers)
    return injection, rules


def test_a_rule_is_armed_that_answers_so_many_requests():
    """On every link that is meant, with the code of the error."""
    injection, rules = injected(ANSWERED, ANSWERED)
    (rule,) = rules.armed.values()

    assert (rule.api, rule.at, rule.action, rule.error_code, rule.times) == ("EndTxn", "request", "answer", 51, 2)
    assert list(rule.links) == ["app->broker-1", "app->broker-2"]
    assert (injection.hold_s, injection.within_s) == (0.0, 0.05)


def test_it_is_proved_by_the_requests_that_the_proxy_answered():
    """Each is named, so that it is found in the client's log."""
    injection, _ = injected(ANSWERED, ANSWERED)

    proof = prove(injection)

    assert proof.effective
    assert (proof.facts["error"], proof.facts["error_code"]) == ("CONCURRENT_TRANSACTIONS", 51)
    assert [answered["correlation_id"] for answered in proof.facts["answered"]] == [17, 17]


@pytest.mark.parametrize(
    "answers",
    [(), (ANSWERED,), (ANSWERED, replace(ANSWERED, outcome="client gone")), (ANSWERED, replace(ANSWERED, error_code=0))],
    ids=["none", "too few", "one was not answered", "another code"],
)
def test_fewer_answers_than_declared_are_no_proof(answers):
    """The client sent too few such requests, or their answers did not reach it."""
    injection, _ = injected(*answers)

    proof = prove(injection)

    assert not proof.effective
    assert "2 EndTxn to answer with CONCURRENT_TRANSACTIONS" in proof.facts["problem"]


def test_requests_reach_the_broker_again_after_the_heal():
    """Also when it is healed twice."""
    injection, rules = injected(ANSWERED)

    injection.heal()
    injection.heal()

    assert rules.armed == {}
    assert [what for what, _ in rules.done].count("disarm") == 1


def test_it_is_told_in_words():
    """As `chaos plan` shows it."""
    declared = AnswerError.model_validate(FAULT)

    assert declared.describe() == "answer_error CONCURRENT_TRANSACTIONS to EndTxn on app->*, 2 times, within 50 ms"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (
            "request: EndTxn, error: CONCURENT_TRANSACTIONS",
            "unknown-error-name",
        ),
        ("request: EndTxn, error: 51", "unknown-error-name"),
        ("request: JoinGroup, error: UNKNOWN_MEMBER_ID", "unknown-choice"),
        ("request: EndTxn, error: NOT_COORDINATOR, times: 0", "too-small"),
        ("request: EndTxn", "missing-key"),
    ],
)
def test_a_wrong_declaration_is_refused(fields, code):
    """With what was perhaps meant."""
    fault = f"{{kind: answer_error, link: 'pipeline->*', for: 5s, when: {{after: 1s}}, {fields}}}"

    assert errors_in_fault(fault)[0][1] == code


def test_a_pipeline_without_transactions_sends_none_of_their_requests():
    """The fault would wait in vain."""
    fault = "{kind: answer_error, request: EndTxn, error: NOT_COORDINATOR, link: 'pipeline->*', for: 1s, when: {after: 1s}}"
    stock = head(STOCK)

    assert errors_of(f"{stock}    faults: [{fault}]\n")[0][1] == "request-never-sent"


def test_the_names_are_kafkas():
    """Also where the library that holds the table has an older name."""
    assert (ERROR_CODES["NOT_LEADER_OR_FOLLOWER"], ERROR_CODES["COORDINATOR_LOAD_IN_PROGRESS"]) == (6, 14)
    assert (ERROR_CODES["PRODUCER_FENCED"], ERROR_CODES["INVALID_TXN_STATE"], ERROR_CODES["UNKNOWN_SERVER_ERROR"]) == (
        90,
        48,
        -1,
    )
