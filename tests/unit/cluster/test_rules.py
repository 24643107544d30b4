"""Request rules: what is sent to the toxic, and what is read of it."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from chaos.cluster.rules import ANSWERABLE, Interception, RequestRules, Rule

TOXIC = Path(__file__).parents[3] / "toxiproxy" / "kafka"
PROXIES = {"app->broker-1": ["app-1"], "broker-1->broker-2": ["internal-1-2", "controller-1-2"]}
STOPPED = {
    "link": "app->broker-1",
    "api": "EndTxn",
    "version": 5,
    "correlation_id": 9,
    "client_id": "a",
    "transactional_id": "",
}
TIMES = {"released_ns": 0, "client_gone_ns": 0, "answered_ns": 0, "outcome": "held", "error_code": None}


class FakeToxiproxy:
    """Answers with the attributes of one `kafka` toxic, and writes down what is changed."""

    def __init__(self):
        self.changes = []
        self.rules = {}
        self.interceptions = []
        self.of_proxy = {}

    def read(self, proxy, _toxic):
        counters = self.of_proxy.get(proxy, {"counts": {}, "unparsed": {"connections": 0}})
        return {"rules": self.rules, "interceptions": self.interceptions, **counters}

    def change(self, proxy, toxic, attributes):
        assert (proxy, toxic) == ("app-1", "kafka_upstream")
        self.changes.append(json.loads(json.dumps(attributes["rules"])))


def book():
    """The rules, and the server behind them."""
    toxiproxy: Any = FakeToxiproxy()
    return RequestRules(toxiproxy, PROXIES), toxiproxy


def test_two_rules_of_one_name_are_told_apart():
    """The server keeps the interceptions of rules that are gone; those of the last run must not trigger faults of this one."""
    rules, toxiproxy = book()

    first = rules.arm("lost", Rule("EndTxn", "request", ("app->broker-1",)))
    toxiproxy.interceptions = [{"rule": first, "n": 1, "intercepted_ns": 1, **STOPPED, **TIMES}]
    second = rules.arm("lost", Rule("EndTxn", "request", ("app->broker-1",)))

    assert first != second
    assert ([(one.api, one.intercepted_ns) for one in rules.interceptions(first)], rules.interceptions(second)) == (
        [("EndTxn", 1)],
        [],
    )


def test_a_rule_is_sent_as_the_toxic_reads_it():
    """One that it does not know would be refused in the middle of a run."""
    known = set(re.findall(r'^\t\t"(\w+)": &', (TOXIC / "rule.go").read_text(encoding="utf-8"), re.MULTILINE))
    known |= set(re.findall(r'"(\w+)": &spec\.', (TOXIC / "rule.go").read_text(encoding="utf-8")))
    rules, toxiproxy = book()

    own = rules.arm("lost", Rule("EndTxn", "response", ("app->broker-1",), nth=20, transactional_id="app-*"))

    sent = toxiproxy.changes[0][own]
    assert set(sent) <= known
    assert (sent["api"], sent["at"], sent["links"], sent["nth"]) == ("EndTxn", "response", ["app->broker-1"], 20)
    assert (sent["times"], sent["action"], sent["transactional_id"]) == (1, "hold", "app-*")


def test_an_error_code_is_sent_for_an_answer_only():
    """The toxic refuses a code with other actions, and an answer without one; null stands for none."""
    rules, toxiproxy = book()

    held = rules.arm("held", Rule("EndTxn", "request", ("app->broker-1",)))
    answered = rules.arm("answered", Rule("EndTxn", "request", ("app->broker-1",), "answer", times=3, error_code=51))

    assert toxiproxy.changes[0][held]["error_code"] is None
    sent = toxiproxy.changes[1][answered]
    assert (sent["action"], sent["times"], sent["error_code"]) == ("answer", 3, 51)


def test_the_toxic_answers_the_requests_that_are_named():
    """A rule for another one would be refused in the middle of a run."""
    names = dict(re.findall(r'^\t(\d+): +\{"(\w+)",', (TOXIC / "apis.go").read_text(encoding="utf-8"), re.MULTILINE))
    numbers = dict(re.findall(r"^\t(\w+) += (\d+)$", (TOXIC / "apis.go").read_text(encoding="utf-8"), re.MULTILINE))
    answered = re.findall(r"^\t(\w+): +answer\w+,$", (TOXIC / "answer.go").read_text(encoding="utf-8"), re.MULTILINE)

    assert [names[numbers[constant]] for constant in answered] == list(ANSWERABLE)


def test_an_answered_request_is_read():
    """Its code is the one that the rule gave, not one of the broker's."""
    rules, toxiproxy = book()
    own = rules.arm("answered", Rule("EndTxn", "request", ("app->broker-1",), "answer", error_code=51))
    shown = {"rule": own, "intercepted_ns": 1, **STOPPED, **TIMES, "answered_ns": 2, "outcome": "answered", "error_code": 51}
    toxiproxy.interceptions = [shown]

    (found,) = rules.interceptions(own)

    assert (found.outcome, found.error_code, found.answered_ns) == ("answered", 51, 2)


def test_an_interception_is_read_as_the_toxic_writes_it():
    """Field by field; a name that is not there would be an error in the middle of a run."""
    written = set(re.findall(r'json:"(\w+)"', (TOXIC / "request_rules.go").read_text(encoding="utf-8")))

    assert {field.name for field in fields(Interception)} - {"intercepted_ns"} | {"intercepted_ns"} <= written


def test_release_and_disarm_are_patches_of_one_rule():
    """The others stay as they are; removing nothing asks for nothing."""
    rules, toxiproxy = book()

    rules.release("lost#1", "close")
    rules.disarm("lost#1", "other#2")
    rules.disarm()

    assert toxiproxy.changes == [{"lost#1": {"release": "close"}}, {"lost#1": None, "other#2": None}]


def test_clear_removes_all_rules_that_are_armed():
    """Also what a run before this one left behind."""
    rules, toxiproxy = book()
    toxiproxy.rules = {"old#3": {}}

    rules.clear()

    assert toxiproxy.changes == [{"old#3": None}]


def test_requests_are_counted_over_all_proxies_of_the_links():
    """A link between brokers is two proxies; other requests and links do not count."""
    rules, toxiproxy = book()
    toxiproxy.of_proxy = {
        "app-1": {"counts": {"EndTxn": {"requests": 100}}, "unparsed": {"connections": 4}},
        "internal-1-2": {"counts": {"EndTxn": {"requests": 3}, "Fetch": {"requests": 9}}, "unparsed": {"connections": 1}},
        "controller-1-2": {"counts": {"EndTxn": {"requests": 4}}, "unparsed": {"connections": 0}},
    }

    assert rules.sent("EndTxn", ["broker-1->broker-2"]) == 7
    assert rules.sent("EndTxn", ["broker-1->broker-2", "app->broker-1"]) == 107
    assert rules.sent("Vote", ["broker-1->broker-2"]) == 0
    assert (rules.unparsed(["broker-1->broker-2"]), rules.unparsed(["app->broker-1"])) == (1, 4)


def test_requests_are_counted_since_the_run_began():
    """Requests of an earlier scenario do not count for this one, and neither does its garbage."""
    rules, toxiproxy = book()
    toxiproxy.of_proxy = {"app-1": {"counts": {"EndTxn": {"requests": 100}}, "unparsed": {"connections": 4}}}
    rules.begin()
    toxiproxy.of_proxy = {"app-1": {"counts": {"EndTxn": {"requests": 103}}, "unparsed": {"connections": 5}}}

    assert (rules.sent("EndTxn", ["app->broker-1"]), rules.unparsed(["app->broker-1"])) == (3, 1)


def test_ids_that_are_not_there_are_not_shown():
    """A Fetch has no transactional id."""
    stopped: dict[str, Any] = {**STOPPED, **TIMES}
    facts = Interception(intercepted_ns=1, **stopped).facts

    assert facts == {"link": "app->broker-1", "api": "EndTxn", "version": 5, "correlation_id": 9, "client_id": "a"}


def test_the_transactional_id_that_was_on_the_wire_last():
    """Over all of these links; of what an earlier run has sent, only what is named again."""
    rules, toxiproxy = book()
    links, other = ["broker-1->broker-2"], ["app->broker-1"]

    def carried(**proxies):
        toxiproxy.of_proxy = {
            name: {"transactional_ids": [{"id": id_, "seen_ns": at_ns} for id_, at_ns in seen]}
            for name, seen in proxies.items()
        }

    def asked(**proxies):
        carried(**{"app_1": (), "internal": (), "controller": (), **proxies})
        toxiproxy.of_proxy = {
            {"app_1": "app-1", "internal": "internal-1-2", "controller": "controller-1-2"}[name]: shown
            for name, shown in toxiproxy.of_proxy.items()
        }
        return rules.transactional_id(links), rules.transactional_id(other)

    assert asked() == ("", "")
    assert asked(app_1=[("mine", 7)], internal=[("a", 3), ("b", 5)], controller=[("c", 4)]) == ("b", "mine")
    rules.begin()
    assert asked(app_1=[("mine", 7)], internal=[("a", 3), ("b", 5)], controller=[("c", 4)]) == ("", "")
    assert asked(app_1=[("mine", 7)], internal=[("b", 5), ("a", 9)], controller=[("c", 4)]) == ("a", "")


def test_what_readers_were_given_is_read_on_all_links():
    """Also by brokers: who reads what is told by the group."""
    rules, toxiproxy = book()
    names = [name for names in PROXIES.values() for name in names]
    toxiproxy.of_proxy = {name: {"starts": [{"topic": name}], "unfenced_commits": [{"group": name}]} for name in names}

    assert [one["topic"] for one in rules.starts()] == [one["group"] for one in rules.unfenced()] == names


def test_when_rows_were_sent_is_read_on_all_links_and_what_was_forgotten_up_to_the_latest_time():
    rules, toxiproxy = book()
    names = [name for names in PROXIES.values() for name in names]
    toxiproxy.of_proxy = {
        name: {"produced_ms": {"id": [number]}, "forgotten_until_ns": {"starts": 10 - number} if number else None}
        for number, name in enumerate(names)
    }

    assert rules.produced() == [("id", number) for number in range(len(names))]
    assert rules.forgotten() == {"starts": 9}
