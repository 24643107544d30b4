"""Faults of requests: what is done to the frame, and what proves that it bit."""

from random import Random

import pytest

from chaos.common.errors import InjectionError
from chaos.faults import requests
from chaos.faults.requests import (
    DelayRequest,
    HeldFrame,
    HoldRequests,
    LateRequest,
    LoseRequest,
    LoseResponse,
    LostFrame,
)
from tests.unit.faults.wire import FakeFrame, FakeRules, scene, trip

WHEN = {"request": "EndTxn"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """What does not come at once does not come."""
    monkeypatch.setattr(requests, "_WITHIN_S", 0.05)
    monkeypatch.setattr(requests, "_SEEN_WITHIN_S", 0.2)


def aimed(fault, frame, ends=(0,)):
    """An injection of this fault at this frame."""
    left = list(ends)

    def readable():
        return left.pop(0) if len(left) > 1 else left[0]

    return fault.prepare(scene(FakeRules(), held=frame, readable=readable), Random(1))


@pytest.mark.parametrize(("connection", "how"), [("closed", "close"), ("kept", "drop")])
@pytest.mark.parametrize(("model", "kind"), [(LoseRequest, "lose_request"), (LoseResponse, "lose_response")])
def test_a_lost_frame_is_proved_by_what_the_toxic_says_of_it(model, kind, connection, how):
    """It went in and did not come out; the ids lead to it in every log."""
    frame = FakeFrame(trip())
    lost = aimed(model.model_validate({"kind": kind, "when": WHEN, "connection": connection}), frame)

    lost.inject()
    proof = lost.proof()
    lost.heal()

    assert frame.done == [how]
    assert (lost.target, lost.hold_s, proof.effective) == ("EndTxn on app->broker-1", 0.0, True)
    assert (proof.facts["correlation_id"], proof.facts["transactional_id"]) == (17, "app-0")


@pytest.mark.parametrize(
    "known", [trip(outcome="client gone"), trip(outcome="max_hold"), trip(outcome="delivered"), trip(), None]
)
def test_a_frame_that_was_not_swallowed_by_us_did_not_bite(known):
    """Its client may have closed the connection first, or the toxic may have let it go by itself."""
    proof = LostFrame("frame", 0.0, FakeFrame(known), "drop").proof()

    assert proof.effective is False
    assert proof.facts.get("outcome") == (known.outcome if known else None)


@pytest.mark.parametrize(("known", "bit"), [(trip(), True), (trip(outcome="client gone"), False), (None, False)])
def test_a_delayed_frame_is_held_or_it_did_not_bite(known, bit):
    """At the moment of the proof, it stands on the wire."""
    frame = FakeFrame(known)
    delayed = aimed(DelayRequest.model_validate({"kind": "delay_request", "when": WHEN, "for": "2s"}), frame)

    delayed.inject()

    assert (delayed.proof().effective, delayed.hold_s, frame.done) == (bit, 2.0, [])


def late(frame, ends=(0,), **fields):
    """A late request, 50 ms for its client to give up."""
    declared = {"kind": "late_request", "when": WHEN, "for": "50ms", **fields}
    return aimed(LateRequest.model_validate(declared), frame, ends)


def test_a_late_frame_bites_once_its_client_has_gone():
    """How patient the client was is written down, in milliseconds since the frame was held."""
    proof = late(FakeFrame(trip(client_gone_ns=3_005_000_000))).proof()

    assert proof.effective
    assert proof.facts["client_gone_after_ms"] == 3000


@pytest.mark.parametrize("known", [trip(), trip(outcome="delivered"), None])
def test_a_late_frame_whose_client_still_waits_did_not_bite(known):
    """Then it is a delayed one, and proves nothing about zombies."""
    proof = late(FakeFrame(known)).proof()

    assert proof.effective is False
    assert proof.facts["problem"] == "its client never gave up on it"


def test_a_late_frame_that_was_let_go_is_not_waited_for():
    """The run ended and it was healed: nobody sits out the client's patience."""
    frame = FakeFrame(trip(outcome="delivered"))
    injection = HeldFrame("frame", 0.0, frame, patience_s=600.0)

    assert injection.proof().effective is False


def test_a_late_frame_goes_on_when_its_client_has_gone_unless_another_fault_ends_it():
    """Without `until` nothing is left to wait for after the proof."""
    assert late(FakeFrame(trip())).hold_s == 0.0
    assert late(FakeFrame(trip()), until="other").hold_s == 0.05


@pytest.mark.parametrize("error_code", [0, 47, None])
def test_the_heal_delivers_the_frame_and_says_what_the_broker_answered(error_code):
    """Whether the broker took the late request or refused it is the whole point."""
    frame = FakeFrame(trip(client_gone_ns=9), {"answered_ns": 7, "error_code": error_code})

    outcome = late(frame).heal()

    assert frame.done == ["deliver"]
    assert (outcome["outcome"], outcome["error_code"]) == ("delivered", error_code)


def test_the_heal_of_a_frame_that_no_broker_answers_ends_all_the_same():
    """It says what became of the frame, and claims no answer."""
    outcome = late(FakeFrame(trip(client_gone_ns=9))).heal()

    assert outcome["outcome"] == "delivered"
    assert outcome.get("error_code") is None


@pytest.mark.parametrize(
    ("code", "ends", "seen"),
    [
        (0, (6, 6, 9), {"readable_before": 6, "readable_after": 9, "see": "KIP-890"}),
        (47, (6,), {"readable_before": 6, "readable_after": 6}),
    ],
)
def test_the_heal_of_a_late_frame_says_what_a_reader_saw_of_it(monkeypatch, code, ends, seen):
    """Rows that come to light with a late commit belong to a transaction that nobody has decided; a refused one is no hole."""
    if ends[-1] > ends[0]:
        monkeypatch.setattr(requests, "_SEEN_WITHIN_S", 120)
    outcome = late(FakeFrame(trip(client_gone_ns=9), {"answered_ns": 7, "error_code": code}), ends).heal()

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
    return HoldRequests.model_validate(declared).prepare(scene(rules), Random(1))


def test_all_requests_of_a_kind_are_held_until_the_heal():
    """Every one on every link meant, by one rule that outlasts the fault."""
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
    """Their connections end first, the rule is taken away then: nothing of them is delivered."""
    rules = FakeRules()
    injection = held_requests(rules, then="lose")

    injection.inject()
    injection.heal()

    assert rules.done == [("arm", "hold"), ("close", "hold"), ("disarm", "hold")]
    assert [one.outcome for trips in rules.tripped.values() for one in trips] == ["closed"]

    injection.heal()
    assert rules.done[-1] == ("disarm", "hold"), "a rule that is gone is not released again"


@pytest.mark.parametrize(
    ("sends", "carried", "bit", "held"),
    [
        (trip(), 5, False, ["app->broker-1"]),
        (trip(), 0, True, ["app->broker-1"]),
        (None, 5, False, []),
        (None, 0, False, []),
    ],
)
def test_a_hold_bites_when_something_is_held_on_every_link_that_carries_it(sends, carried, bit, held):
    """A link that carries such requests was not shown to be held while nothing came; one that carries none need not be."""
    injection = held_requests(FakeRules(sends=sends, passed=carried))

    injection.inject()
    proof = injection.proof()

    assert (proof.effective, proof.facts) == (bit, {"held": held})


@pytest.mark.parametrize(
    "fault",
    [
        LoseRequest.model_validate({"kind": "lose_request", "when": WHEN}),
        DelayRequest.model_validate({"kind": "delay_request", "when": WHEN, "for": "1s"}),
        LateRequest.model_validate({"kind": "late_request", "when": WHEN, "for": "1s"}),
    ],
)
def test_a_fault_of_a_request_needs_one_that_is_held(fault):
    """It says which trigger it wants."""
    with pytest.raises(InjectionError, match="no request is held: this needs a trigger of the kind"):
        aimed(fault, None)
