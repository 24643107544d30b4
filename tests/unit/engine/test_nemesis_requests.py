"""The nemesis and held requests: a rule is armed before its trigger waits, and removed at the end, whatever else fails."""

from contextlib import ExitStack
from threading import Event as Flag

import pytest

from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.common.events import (
    FaultFailed,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultTriggered,
    ProgressSampled,
    RequestMissed,
    RequestReleased,
)
from chaos.common.history import History
from chaos.engine import nemesis, triggers
from chaos.engine.nemesis import Nemesis
from chaos.engine.triggers import Watch
from chaos.faults import requests
from chaos.faults.base import Proof
from chaos.judging.story import stories
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.engine.test_nemesis import every_fault
from tests.unit.faults.wire import FakeRules, context, interception
from tests.unit.wording import keep

REQUEST = {"request": "EndTxn", "nth": 2}
KILL = {"kind": "kill_broker", "name": "fault", "target": "any", "when": REQUEST}


class FakeInjection:
    """A fault that records what is done to it in the same list as the request rules."""

    target = "broker-1"

    def __init__(self, rules, *, hold_s=0.0, fails=None):
        self.rules = rules
        self.hold_s = hold_s
        self.fails = fails or {}

    def inject(self):
        self._did("inject")

    def complete(self):
        """Most faults have nothing to complete."""

    def proof(self):
        self._did("proof")
        return Proof(effective=True, facts={})

    def heal(self):
        self._did("heal")

    def _did(self, what):
        self.rules.done.append((what, "fault"))
        if what in self.fails:
            raise self.fails[what]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Evidence that comes late is not waited for here."""
    monkeypatch.setattr(requests, "_SEEN_WITHIN_S", 0.01)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Runs faults on a fake wire; an injection, if given, takes the place of every fault."""
    histories = ExitStack()

    def play(rules, *faults, injection=None, deadline_s=0.05):
        if injection:
            every_fault(monkeypatch, "prepare", lambda *_: injection)
        pipeline = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"}
        scenario = Scenario(name="fake", title="fake", pipeline=pipeline, faults=faults)
        history = histories.enter_context(History(tmp_path / "history.jsonl"))
        watch = Watch(history, clock.monotonic_s(), 100, deadline_s, Flag())
        return Nemesis(plan(scenario, 1), context(rules), history, watch.stop), history, watch

    with histories:
        yield play


def done(rules):
    """The steps of the nemesis, in order."""
    return [what for what, _ in rules.done]


@pytest.mark.parametrize(("then", "released"), [("deliver", "deliver"), ("lose", "close")])
def test_a_frame_is_held_until_its_fault_is_in_force_and_let_go_before_the_proof(played, then, released):
    """The fault happens exactly between request and effect; `then` says what becomes of the request."""
    rules = FakeRules()
    runner, history, watch = played(rules, KILL | {"when": REQUEST | {"then": then}}, injection=FakeInjection(rules))

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "inject", released, "proof", "heal", "disarm"]
    assert rules.armed == {}
    trigger, inject = history.latest(FaultTriggered).details, history.latest(FaultInjected)
    assert (trigger["api"], trigger["link"], trigger["transactional_id"]) == ("EndTxn", "app->broker-1", "app-0")
    assert inject.after_trip_ms > 0
    assert history.latest(RequestReleased).outcome == {"deliver": "delivered", "close": "closed"}[released]


def test_what_follows_a_fault_is_aimed_at_the_frame_that_this_one_holds(played, monkeypatch):
    """It does not release that request: the fault does for which it was held."""
    rules, seen = FakeRules(), {}

    def prepare(fault, aimed_at, _rng):
        seen[fault.name] = aimed_at.held.interception().link if aimed_at.held else None
        return FakeInjection(rules, hold_s=600 if fault.name == "late" else 0.0)  # it lasts until `death` was proved

    every_fault(monkeypatch, "prepare", prepare)
    late = {"kind": "late_request", "name": "late", "for": "5s", "until": "death", "when": {"request": "WriteTxnMarkers"}}
    death = {"kind": "kill_broker", "name": "death", "target": "sender", "when": {"fault": "late", "once": "injected"}}
    other = {"kind": "kill_broker", "name": "other", "target": "any", "when": {"fault": "death"}}
    rules.sends = interception("broker-2->broker-1", "WriteTxnMarkers")
    runner, _, watch = played(rules, late, death, other, deadline_s=120)

    runner.run(watch, lambda: None)

    assert seen == {"late": "broker-2->broker-1", "death": "broker-2->broker-1", "other": None}
    assert not {"deliver", "close"} & set(done(rules))


def test_the_rule_says_which_frame_of_whom_on_which_links(played):
    """The toxic gets ids and number as they were declared; without a link, all links of the pipeline are meant."""
    rules = FakeRules(sends=None)
    when = REQUEST | {"at": "response", "transactional_id": "app-*", "client_id": "a?"}
    runner, _, watch = played(rules, KILL | {"when": when}, injection=FakeInjection(rules))
    seen = []
    rules.interceptions = lambda _name: seen.extend(rules.armed.values()) or []

    runner.run(watch, lambda: None)

    assert (seen[0].api, seen[0].at, seen[0].nth, seen[0].action) == ("EndTxn", "response", 2, "hold")
    assert (seen[0].transactional_id, seen[0].client_id) == ("app-*", "a?")
    assert seen[0].links == ["app->broker-1", "app->broker-2"]


def test_what_only_brokers_send_is_waited_for_between_brokers(played):
    """A broker has no link to itself."""
    rules = FakeRules(sends=None)
    runner, history, watch = played(rules, KILL | {"when": {"request": "WriteTxnMarkers"}}, injection=FakeInjection(rules))

    runner.run(watch, lambda: None)

    assert history.latest(RequestMissed).links == ["broker-1->broker-2", "broker-2->broker-1"]
    waits = stories(["fault"], history.events())["fault"].waits
    assert (waits.when, waits.moment) == tuple(f"while WriteTxnMarkers 1 {be} on the wire" for be in ("is", "was"))


@pytest.mark.parametrize(("passed", "unreadable"), [(0, 0), (7, 0), (0, 2)])
def test_a_frame_that_never_comes_is_told_with_what_came_instead(played, passed, unreadable):
    """Never sent, sent too few times, or unreadable for the toxic: three different reasons for UNKNOWN, or for `not_sent`."""
    rules = FakeRules(sends=None, passed=passed, unreadable=unreadable)
    runner, history, watch = played(rules, KILL, injection=FakeInjection(rules))

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "disarm"]
    links = ["app->broker-1", "app->broker-2"]
    assert history.latest(RequestMissed).to_json() == {
        "fault": "fault",
        "request": "EndTxn",
        "links": links,
        "sent": passed,
        "unparsed": unreadable,
    }
    (failed,) = _failed(history)
    assert failed.startswith("DeadlineError: waited 0.05 s for the trigger: while EndTxn 2 is on the wire")
    assert failed.endswith(f"{passed} EndTxn were sent on {', '.join(links)} in this run")


def test_nobody_waits_for_a_frame_when_all_of_the_workload_has_passed(played, monkeypatch):
    """A case of a matrix that cannot happen costs seconds, not the whole deadline."""
    monkeypatch.setattr(triggers, "_QUIET_S", 0.0)
    rules = FakeRules(sends=None)
    runner, history, watch = played(rules, KILL, injection=FakeInjection(rules), deadline_s=60.0)
    history.record(ProgressSampled(written=100, committed=100, total=100, end=100))

    runner.run(watch, lambda: None)

    assert keep(_failed(history)[0]).startswith("InconclusiveError: ")
    assert done(rules) == ["arm", "disarm"]


def test_the_frame_of_a_fault_that_could_not_be_injected_goes_on(played):
    """It must not stay held because something else went wrong; half of an injection is healed first."""
    rules = FakeRules()
    injection = FakeInjection(rules, fails={"inject": InjectionError("refused")})
    runner, _, watch = played(rules, KILL, injection=injection)

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "inject", "heal", "disarm"]


def test_the_frame_of_a_fault_that_cannot_be_aimed_goes_on(played, monkeypatch):
    """Without a receiver, or without such a leader, nothing is injected or healed, and the rule is removed."""
    rules = FakeRules()
    runner, history, watch = played(rules, KILL)
    every_fault(monkeypatch, "prepare", lambda *_: (_ for _ in ()).throw(InjectionError("no such leader")))

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "disarm"]
    assert "no such leader" in _failed(history)[0]


def test_a_release_that_is_refused_keeps_neither_heal_nor_disarming_away(played):
    """The toxic may be gone for a moment; the broker must be restarted all the same."""
    rules = FakeRules(refuses={"deliver": InjectionError("Toxiproxy could not")})
    runner, history, watch = played(rules, KILL, injection=FakeInjection(rules))

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "inject", "deliver", "heal", "disarm"]
    assert "Toxiproxy could not" in _failed(history)[0]


def test_a_rule_that_cannot_be_taken_away_is_written_down(played):
    """The next health check finds it armed."""
    rules = FakeRules(refuses={"disarm": InjectionError("Toxiproxy could not")})
    runner, history, watch = played(rules, KILL, injection=FakeInjection(rules))

    runner.run(watch, lambda: None)

    assert history.latest(RequestReleased) is None
    assert history.latest(FaultFailed).step == "release"


@pytest.mark.parametrize("sends", [None, interception()])
def test_no_rule_outlives_an_interrupted_run(played, sends):
    """Ctrl-C may come while the request is waited for, or while its fault is in force."""
    rules = FakeRules(sends=sends)
    runner, history, watch = played(rules, KILL, injection=FakeInjection(rules, hold_s=600), deadline_s=60.0)

    def interrupt():
        if history.latest(FaultProved) or (sends is None and rules.armed):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, interrupt)
    runner.heal_all()

    assert rules.armed == {}
    assert done(rules).count("disarm") == 1
    assert done(rules).count("heal") == (1 if sends else 0)


@pytest.mark.parametrize(("connection", "released"), [("closed", "close"), ("kept", "drop")])
def test_a_lost_request_is_lost_by_its_fault_and_not_delivered_by_its_trigger(played, connection, released):
    """With the real fault: nothing but the loss happens to the request."""
    rules = FakeRules()
    runner, history, watch = played(rules, {"kind": "lose_request", "name": "fault", "when": REQUEST, "connection": connection})

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", released, "disarm"]
    proof = history.latest(FaultProved)
    assert (proof.effective, proof.proof["outcome"]) == (True, {"close": "closed", "drop": "dropped"}[released])
    assert history.latest(FaultInjected).target == "EndTxn on app->broker-1"


def test_a_delayed_request_is_delivered_by_its_heal(played):
    """It is held for its time and then released once; the rule lets the toxic wait for longer than that."""
    rules = FakeRules(sends=interception(answered_ns=1))
    runner, history, watch = played(rules, {"kind": "delay_request", "name": "fault", "when": REQUEST, "for": "150ms"})
    seen = []
    arm = rules.arm
    rules.arm = lambda name, rule: seen.append(rule) or arm(name, rule)

    runner.run(watch, lambda: None)

    assert done(rules) == ["arm", "deliver", "disarm"]
    events = {(event.value.f, event.value.type): event.elapsed_s for event in history.events()}
    assert events["heal", "invoke"] - events["inject", "ok"] >= 0.1
    assert history.latest(FaultHealed).details["outcome"] == "delivered"
    assert seen[0].max_hold_ms >= 120_300


@pytest.mark.parametrize(("kind", "action"), [("late_request", "late"), ("delay_request", "hold")])
def test_only_a_late_request_outlives_its_client(played, kind, action):
    """The toxic keeps the connection to the broker open for it."""
    rules = FakeRules(sends=interception(client_gone_ns=9_000_000, answered_ns=1))
    runner, history, watch = played(rules, {"kind": kind, "name": "fault", "when": REQUEST, "for": "10m", "until": "none"})
    seen = []
    arm = rules.arm
    rules.arm = lambda name, rule: seen.append(rule) or arm(name, rule)

    def interrupt():
        if history.latest(FaultProved):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, interrupt)
    runner.heal_all()

    assert seen[0].action == action
    assert seen[0].max_hold_ms > 600_000
    assert done(rules) == ["arm", "deliver", "disarm"]


def test_a_late_request_ends_when_the_fault_was_proved_that_it_lasts_until(played):
    """`until` applies to all faults that last: the EndTxn of A goes on as soon as B is open."""
    rules = FakeRules(sends=interception(client_gone_ns=9_000_000, answered_ns=1))
    late = {"kind": "late_request", "name": "late", "when": REQUEST, "for": "10m", "until": "next"}
    lost = {"kind": "lose_request", "name": "next", "when": {"request": "Produce", "since": "late"}}
    runner, history, watch = played(rules, late, lost, deadline_s=5.0)

    runner.run(watch, lambda: None)

    told = [(event.value.f, event.value.fault) for event in history.events() if event.value.type == "ok"]
    assert told.index(("prove", "late")) < told.index(("trigger", "next")) < told.index(("prove", "next"))
    assert told.index(("prove", "next")) < told.index(("heal", "late"))


def test_a_frame_is_not_waited_for_before_the_fault_that_it_comes_after_was_proved(played):
    """`since` begins to count then: a rule that is armed earlier would stop another request."""
    rules = FakeRules(refuses={"deliver": InjectionError("Toxiproxy could not")})
    after = {"kind": "lose_request", "name": "after", "when": {"request": "Produce", "since": "fault"}}
    runner, history, watch = played(rules, KILL, after, injection=FakeInjection(rules), deadline_s=60.0)

    runner.run(watch, lambda: None)

    assert ("arm", "after") not in rules.done
    assert "fault failed before the trigger came: fault to be proved" in _failed(history)[-1]


def test_the_rule_of_a_step_that_hangs_is_taken_away_at_the_end(played, monkeypatch):
    """Whatever its thread waits for, nothing stays held."""
    monkeypatch.setattr(nemesis, "_END_S", 0.05)
    rules, goes_on = FakeRules(), Flag()
    injection = FakeInjection(rules)
    injection.proof = goes_on.wait
    runner, _, watch = played(rules, KILL, injection=injection)

    def interrupt():
        if "deliver" in done(rules):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, interrupt)
    runner.heal_all()
    armed = dict(rules.armed)
    goes_on.set()
    runner.heal_all()

    assert armed == {}


def _failed(history):
    return [event.value.error for event in history.events() if event.value.type == "fail"]
