"""Faults of requests: what is done to the request, and what proves that the fault was effective."""

from random import Random

import pytest

from chaos.common.errors import InjectionError
from chaos.faults import requests
from chaos.faults.requests import (
    DelayedRequest,
    DelayRequest,
    HoldRequests,
    LateRequest,
    LoseRequest,
    LoseResponse,
    LostRequest,
)
from tests.unit.faults.wire import FakeHeldRequest, FakeRules, context, interception
from tests.unit.wording import keep

WHEN = {"request": "EndTxn"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Waits end at once, so that a late event never comes."""
    monkeypatch.setattr(requests, "_WITHIN_S", 0.05)
    monkeypatch.setattr(requests, "_ANSWERED_WITHIN_S", 0.05)
    monkeypatch.setattr(requests, "_SEEN_WITHIN_S", 0.2)


def aimed(fault, held, ends=(0,)):
    """An injection of this fault at this request."""
    left = list(ends)

    def readable():
        return left.pop(0) if len(left) > 1 else left[0]

    return fault.prepare(context(FakeRules(), held=held, readable=readable), Random(1))


@pytest.mark.parametrize(("connection", "how"), [("closed", "close"), ("kept", "drop")])
@pytest.mark.parametrize(("model", "kind"), [(LoseRequest, "lose_request"), (LoseResponse, "lose_response")])
def test_a_lost_request_is_proved_by_what_the_proxy_reports_of_it(model, kind, connection, how):
    """It came in and was not passed on; the ids lead to it in every log."""
    held = FakeHeldRequest(interception())
    lost = aimed(model.model_validate({"kind": kind, "when": WHEN, "connection": connection}), held)

    lost.inject()
    proof = lost.proof()
    lost.heal()

    assert held.done == [how]
    assert (lost.target, lost.hold_s, proof.effective) == ("EndTxn on app->broker-1", 0.0, True)
    assert (proof.facts["correlation_id"], proof.facts["transactional_id"]) == (17, "app-0")


@pytest.mark.parametrize(
    "known",
    [
        interception(outcome="client gone"),
        interception(outcome="max_hold"),
        interception(outcome="delivered"),
        interception(),
        None,
    ],
)
def test_a_request_that_we_did_not_swallow_is_not_lost(known):
    """Its client may have closed the connection first, or the toxic may have let it go by itself."""
    proof = LostRequest("request", 0.0, FakeHeldRequest(known), "drop").proof()

    assert proof.effective is False
    assert proof.facts.get("outcome") == (known.outcome if known else None)


@pytest.mark.parametrize(
    ("known", "effective"), [(interception(), True), (interception(outcome="client gone"), False), (None, False)]
)
def test_a_delayed_request_is_effective_while_it_is_held(known, effective):
    """At the moment of the proof it must wait on the wire."""
    held = FakeHeldRequest(known)
    delayed = aimed(DelayRequest.model_validate({"kind": "delay_request", "when": WHEN, "for": "2s"}), held)

    delayed.inject()

    assert (delayed.proof().effective, delayed.hold_s, held.done) == (effective, 2.0, [])


def late(held, ends=(0,), **fields):
    """A late request, 50 ms for its client to give up."""
    declared = {"kind": "late_request", "when": WHEN, "for": "50ms", **fields}
    return aimed(LateRequest.model_validate(declared), held, ends)


def test_a_late_request_is_effective_once_its_client_has_gone():
    """How long the client waited is a fact, in milliseconds since the request was held."""
    proof = late(FakeHeldRequest(interception(client_gone_ns=3_005_000_000))).proof()

    assert proof.effective
    assert proof.facts["client_gone_after_ms"] == 3000


@pytest.mark.parametrize("known", [interception(), interception(outcome="delivered"), None])
def test_a_late_request_whose_client_still_waits_is_not_effective(known):
    """Then it is a delayed one, and proves nothing about zombies."""
    proof = late(FakeHeldRequest(known)).proof()

    assert proof.effective is False
    assert "client" in keep(str(proof.facts["problem"]))


def test_a_late_request_that_was_let_go_is_not_waited_for():
    """The run ended and the fault was healed: its client will not outwait the proxy any more."""
    held = FakeHeldRequest(interception(outcome="delivered"))
    injection = DelayedRequest("request", 0.0, held, client_gone_within_s=600.0)

    assert injection.proof().effective is False


def test_a_late_request_goes_on_when_its_client_has_gone_unless_another_fault_ends_it():
    """Without `until` nothing is left to wait for after the proof."""
    assert late(FakeHeldRequest(interception())).hold_s == 0.0
    assert late(FakeHeldRequest(interception()), until="other").hold_s == 0.05


@pytest.mark.parametrize("error_code", [0, 47, None])
def test_the_heal_delivers_the_request_and_reports_the_brokers_answer(error_code):
    """Whether the broker took the late request or refused it is the whole point."""
    held = FakeHeldRequest(interception(client_gone_ns=9), {"answered_ns": 7, "error_code": error_code})

    outcome = late(held).heal()

    assert held.done == ["deliver"]
    assert (outcome["outcome"], outcome["error_code"]) == ("delivered", error_code)
    assert "effective" not in outcome


@pytest.mark.parametrize("outcome", ["delivered", "closed", "client gone"])
def test_a_late_request_that_no_broker_answers_had_no_effect(outcome):
    """It was passed on, or its connection was closed; whether a broker ever saw it is not known."""
    facts = late(FakeHeldRequest(interception(client_gone_ns=9), {"outcome": outcome})).heal()

    assert facts["effective"] is False
    assert "no broker" in keep(str(facts["problem"]))
    assert facts["outcome"] == outcome
    assert facts.get("error_code") is None


def test_a_delayed_request_without_an_answer_was_delayed_all_the_same():
    """It is proved by being held; a Produce with acks=0 has no answer at all."""
    held = FakeHeldRequest(interception())
    delayed = aimed(DelayRequest.model_validate({"kind": "delay_request", "when": WHEN, "for": "2s"}), held)

    assert "effective" not in delayed.heal()


@pytest.mark.parametrize(
    ("code", "answered", "problem"),
    [
        (0, "accepted", ""),
        (47, "refused", ""),
        (0, "refused", "the broker accepted "),
        (47, "accepted", "the broker refused "),
        (None, "refused", "the proxy "),
    ],
)
def test_a_late_request_must_be_answered_as_declared(code, answered, problem):
    """A late commit that is accepted where the scenario is about one that is refused shows something else."""
    held = FakeHeldRequest(interception(client_gone_ns=9), {"answered_ns": 7, "error_code": code})

    facts = late(held, answered=answered).heal()

    assert (facts.get("effective", True), "problem" in facts) == (not problem, bool(problem))
    if problem:
        assert keep(str(facts["problem"])).startswith(problem)


@pytest.mark.parametrize(
    ("code", "ends", "seen"),
    [
        (0, (6, 6, 9), {"readable_before": 6, "readable_after": 9, "see": "KIP-890"}),
        (47, (6,), {"readable_before": 6, "readable_after": 6}),
    ],
)
def test_the_heal_of_a_late_request_reports_what_a_reader_saw_of_it(monkeypatch, code, ends, seen):
    """Rows that can be read after a late commit are of an undecided transaction; a commit that is refused does no harm."""
    if ends[-1] > ends[0]:
        monkeypatch.setattr(requests, "_SEEN_WITHIN_S", 120)
    outcome = late(FakeHeldRequest(interception(client_gone_ns=9), {"answered_ns": 7, "error_code": code}), ends).heal()

    assert {key: outcome[key] for key in outcome if key in ("readable_before", "readable_after", "see")} == seen


def held_requests(rules, link="app->*", **fields):
    """A hold of all requests of a kind."""
    declared = {
        "kind": "hold_requests",
        "name": "hold",
        "request": "EndTxn",
        "link": link,
        "for": "50ms",
        "when": {"after": "0s"},
        **fields,
    }
    return HoldRequests.model_validate(declared).prepare(context(rules), Random(1))


def test_all_requests_of_a_kind_are_held_until_the_heal():
    """Every one on every link meant, by one rule that lasts longer than the fault."""
    rules = FakeRules()
    injection = held_requests(rules, "app->broker-1")

    injection.inject()
    (rule,) = rules.armed.values()
    proof = injection.proof()
    injection.heal()

    assert (rule.api, rule.at, rule.times, rule.links, rule.action) == ("EndTxn", "request", 0, ["app->broker-1"], "hold")
    assert rule.max_hold_ms > 50
    assert (proof.effective, proof.facts) == (True, {"held": ["app->broker-1"]})
    assert (rules.armed, rules.done) == ({}, [("arm", "hold"), ("disarm", "hold")])


def test_requests_that_are_held_can_be_lost_at_the_end():
    """Their connections end first, the rule is removed then: none of them is delivered."""
    rules = FakeRules()
    injection = held_requests(rules, then="lose")

    injection.inject()
    injection.heal()

    assert rules.done == [("arm", "hold"), ("close", "hold"), ("disarm", "hold")]
    assert [one.outcome for interceptions in rules.intercepted.values() for one in interceptions] == ["closed"]

    injection.heal()
    assert rules.done[-1] == ("disarm", "hold"), "a rule that is gone is not released again"


@pytest.mark.parametrize(
    ("sends", "carried", "effective", "held"),
    [
        (interception(), 5, False, ["app->broker-1"]),
        (interception(), 0, True, ["app->broker-1"]),
        (None, 5, False, []),
        (None, 0, False, []),
    ],
)
def test_a_hold_is_effective_when_every_link_that_carries_such_requests_holds_one(sends, carried, effective, held):
    """A link that carries such requests and holds none is not proved to be held; one that carries none need not hold any."""
    injection = held_requests(FakeRules(sends=sends, passed=carried))

    injection.inject()
    proof = injection.proof()

    assert (proof.effective, proof.facts) == (effective, {"held": held})


@pytest.mark.parametrize(("sends", "effective"), [(interception(), True), (None, False)])
def test_requests_of_one_transactional_id_are_held(sends, effective):
    """Other links may carry those of others."""
    rules = FakeRules(sends=sends, passed=5)
    injection = held_requests(rules, transactional_id="*-0")

    injection.inject()
    (rule,) = rules.armed.values()

    assert (rule.transactional_id, injection.proof().effective) == ("*-0", effective)


@pytest.mark.parametrize(
    "fault",
    [
        LoseRequest.model_validate({"kind": "lose_request", "when": WHEN}),
        DelayRequest.model_validate({"kind": "delay_request", "when": WHEN, "for": "1s"}),
        LateRequest.model_validate({"kind": "late_request", "when": WHEN, "for": "1s"}),
    ],
)
def test_a_fault_of_a_request_needs_one_that_is_held(fault):
    """The message says which trigger it needs."""
    with pytest.raises(InjectionError, match=r"\{request: ") as caught:
        aimed(fault, None)
    keep(str(caught.value))
