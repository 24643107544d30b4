"""Brokers that a hook takes down: proved by a broker that answers no more, whatever the hook's exit status says."""

import itertools
import os
import socket
import socketserver
import struct
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from chaos.cluster.hooks import BrokerHooks
from chaos.cluster.kafka import Cluster
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.external.declaration import Hooks
from chaos.faults import hooks
from chaos.faults.hooks import HookedBrokers


class Answering(socketserver.BaseRequestHandler):
    """Answers every request with an empty answer, unless the file that stands for its process is gone."""

    def handle(self):
        if os.path.exists(self.server.life) and self.request.recv(1000):  # noqa: PTH110 - of another thread, in a hurry
            self.request.sendall(struct.pack(">ii", 4, 7))
        elif not os.path.exists(self.server.life):  # noqa: PTH110
            self.server.unanswered.count()


class Unanswered:
    """Makes a file when the broker was asked twice in vain: then it was seen to be down."""

    def __init__(self, file):
        self.file = file
        self.asked = itertools.count(1)

    def count(self):
        if next(self.asked) >= 2:
            self.file.touch()


@contextmanager
def serving(life, seen):
    """A broker that lives as long as a file is there."""
    life.touch()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answering) as server:
        server.life = str(life)
        server.unanswered = Unanswered(seen)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address
        server.shutdown()


@pytest.fixture
def broker(tmp_path):
    """The broker that a hook is to take down."""
    with serving(tmp_path / "life", tmp_path / "seen") as address:
        yield address


@pytest.fixture
def another(tmp_path):
    """A broker beside it that goes on."""
    with serving(tmp_path / "life-2", tmp_path / "seen-2") as address:
        yield address


@pytest.fixture
def deaf():
    """Where nobody answers: what connects waits in the queue of a socket that accepts nothing."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        yield nobody.getsockname()


@pytest.fixture
def injected(broker, tmp_path, monkeypatch):
    """Makes an injection with a hook each way, and injects it."""

    def inject(kill, start=None, *, within_s=60.0, gone_within_s=60.0, back_within_s=60.0, others=None):
        monkeypatch.setattr(hooks, "_GONE_WITHIN_S", gone_within_s)
        monkeypatch.setattr(hooks, "_BACK_WITHIN_S", back_within_s)
        cluster = Cluster({1: broker, **(others or {})})
        known = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(brokers={1: timeout}))
        declared = Hooks(kill=kill.format(life=tmp_path / "life"), start=start and start.format(life=tmp_path / "life"))
        filled = BrokerHooks(declared.model_copy(update={"within_s": within_s}), {1: {"id": 1}})
        injection = HookedBrokers(
            "broker-1",
            0.0,
            SimpleNamespace(kafka=SimpleNamespace(cluster=cluster, admin=known), hooks=filled),
            [1],
            ("kill", "start"),
        )
        injection.inject()
        return injection

    return inject


def test_a_broker_that_answers_no_more_was_killed(injected):
    """The hook may fail all the same: its output is a fact of the proof."""
    injection = injected("sh -c 'rm {life}; echo done; exit 3'", "touch {life}")

    proof = injection.proof()
    healed = injection.heal()

    assert proof.effective
    assert proof.facts["down"] == {"broker-1": "it does not answer"}
    assert (proof.facts["hooks"]["broker-1"]["exit_code"], proof.facts["hooks"]["broker-1"]["output"]) == (3, "done")
    assert healed["hooks"]["broker-1"]["exit_code"] == 0
    assert injection.heal() == {}


def test_a_broker_that_does_not_answer_before_the_hook_is_not_taken_down_by_it(injected, tmp_path):
    """The hook is not run: what is down already would prove it."""
    (tmp_path / "life").unlink()

    with pytest.raises(InjectionError, match=r"^broker-1 is down already"):
        injected("touch {life}.ran")
    assert not (tmp_path / "life.ran").exists()


def test_a_hook_that_succeeds_and_kills_no_broker_is_not_effective(injected):
    """A command that was accepted has not killed a broker yet."""
    injection = injected("true {{id}}", within_s=4.0, gone_within_s=0.5)

    proof = injection.proof()

    assert not proof.effective
    assert (proof.facts["down"], proof.facts["hooks"]["broker-1"]["exit_code"]) == ({}, 0)
    assert injection.heal() == {}


def test_a_broker_that_is_silent_as_all_others_are_is_not_down(injected, deaf):
    """The way to the cluster is slow or cut, and that is not what was declared."""
    injection = injected("rm {life}", within_s=2.0, gone_within_s=0.5, others={2: deaf})

    proof = injection.proof()

    assert (proof.effective, proof.facts["down"]) == (False, {})


def test_a_broker_that_is_silent_while_another_answers_is_down(injected, another):
    """The way to the cluster is open."""
    proof = injected("rm {life}", others={2: another}).proof()

    assert (proof.effective, proof.facts["down"]) == (True, {"broker-1": "it does not answer"})


def test_a_broker_that_is_up_again_before_the_hook_has_ended_was_seen_down(injected):
    """An operator may be quicker than the command that waits for it."""
    kill = "sh -c 'rm {life}; while [ ! -e $(dirname {life})/seen ]; do sleep 0.05; done; touch {life}'"

    assert injected(kill).proof().effective


def test_a_broker_that_does_not_come_back_is_an_error_with_the_output_of_its_hook(injected):
    """The reader knows where to look."""
    injection = injected("rm {life}", "sh -c 'echo no such pod; exit 1'", back_within_s=0.5)

    with pytest.raises(DeadlineError, match=r"broker-1 to answer again \(its hook ended with 1: no such pod\)"):
        injection.heal()


def test_a_run_that_is_ended_does_not_wait_for_a_broker_to_go_down(injected):
    """The watch ends with the heal."""
    injection, began_s = injected("true"), clock.monotonic_s()

    injection.heal()

    assert injection.proof().facts["down"] == {}
    assert clock.monotonic_s() - began_s < 60
