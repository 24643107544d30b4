from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.grammar.base import WrongValueError
from chaos.grammar.targets import BrokerTarget, ExecutorTarget, LinkPattern, broker_target, executor_target, link_pattern
from tests.unit.wording import code_of

BROKERS = [
    *(
        f"{role}({topic}, {number})"
        for role in ("leader", "follower")
        for topic in ("datasource", "datasink")
        for number in range(3)
    ),
    "transaction_coordinator",
    "transaction_coordinator(1)",
    "group_coordinator",
    "controller",
    "receiver",
    "sender",
    "any",
    "all",
    "broker-1",
    "broker-5",
]


def refusal(read: Callable[[object], object], text: object) -> str:
    """The code with which a reader refuses a text."""
    with pytest.raises(WrongValueError) as refused:
        read(text)
    return code_of(refused.value)


@pytest.mark.parametrize("text", BROKERS)
def test_a_broker_target_gives_its_text_back(text: str) -> None:
    """Histories and reports show targets as they were declared."""
    assert str(broker_target(text)) == text


def test_a_broker_target_holds_what_the_text_says() -> None:
    """Spaces do not count, a coordinator without partition is that of partition 0."""
    assert broker_target(" leader(datasink,2) ") == BrokerTarget("leader", "datasink", 2)
    assert broker_target("transaction_coordinator(0)") == broker_target("transaction_coordinator")
    assert broker_target("broker-2") == BrokerTarget("broker", number=2)


@pytest.mark.parametrize("text", ["-1", "01", "a", "", "1.0"])
def test_a_partition_is_a_number(text: str) -> None:
    """Which ones there are is known with the topics of the file (`chaos.scenario.checks`)."""
    assert broker_target("leader(page-views.v1, 12)") == BrokerTarget("leader", "page-views.v1", 12)
    assert refusal(broker_target, f"leader(orders, {text})") == "not-a-partition"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("leeder(datasink, 0)", "not-a-broker"),
        ("Controller", "not-a-broker"),
        ("brokr-2", "not-a-broker"),
        ("broker-0", "not-a-broker"),
        ("zookeeper!", "not-a-broker"),
        ("leader", "wrong-arguments"),
        ("controller(1)", "wrong-arguments"),
        ("receiver(0)", "wrong-arguments"),
        ("reciever", "not-a-broker"),
        ("leader(datasink", "unclosed-target"),
        (2, "target-not-text"),
        (None, "target-not-text"),
    ],
)
def test_a_text_that_is_not_a_broker_is_refused_with_advice(text: object, code: str) -> None:
    """A message names the mistake, the nearest right word, and all that can be written."""
    assert refusal(broker_target, text) == code


def test_executors_are_busiest_any_or_all() -> None:
    """Executors have no numbers of their own: Spark gives new ones to those that replace the dead."""
    texts = ["executor(busiest)", "executor(any)", "executor(all)"]

    assert [str(executor_target(text)) for text in texts] == texts
    assert executor_target(" executor(all) ") == ExecutorTarget("all")
    assert refusal(executor_target, "executor(busy)") == "not-a-target"


@pytest.mark.parametrize(
    "text",
    [
        "spark->leader(datasink, 0)",
        "loader->broker-1",
        "app->receiver",
        "pipeline->*",
        "*->*",
        "*->broker-*",
        "broker-*<->controller",
        "broker-1<->broker-2",
        "all->any",
    ],
)
def test_a_link_pattern_gives_its_text_back(text: str) -> None:
    """Histories and reports show links as they were declared."""
    assert str(link_pattern(text)) == text


def test_a_link_pattern_holds_both_ends_and_whether_it_goes_both_ways() -> None:
    """Two ordered links are one pattern with `<->`."""
    assert link_pattern("spark -> broker-2") == LinkPattern("spark", BrokerTarget("broker", number=2))
    assert link_pattern("broker-*<->controller") == LinkPattern("broker-*", BrokerTarget("controller"), both_ways=True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("spark<->broker-1", "client-both-ways"),
        ("broker-1->spark", "clients-accept-nothing"),
        ("broker-1<->loader", "clients-accept-nothing"),
        ("spark->loader", "clients-accept-nothing"),
        ("receiver->pipeline", "clients-accept-nothing"),
        ("receiver->receiver", "link-to-itself"),
        ("group_coordinator->group_coordinator", "link-to-itself"),
        ("broker-2->broker-2", "link-to-itself"),
        ("controller<->controller", "link-to-itself"),
        ("sprk->broker-1", "not-a-broker"),
        ("spark", "not-a-link"),
        ("->broker-1", "not-a-link"),
    ],
)
def test_a_link_that_cannot_exist_is_refused_with_advice(text: str, code: str) -> None:
    """Links are ordered: a client connects to a broker, never the other way round."""
    assert refusal(link_pattern, text) == code


@given(
    left=st.sampled_from(["*", "broker-*", *BROKERS]),
    right=st.sampled_from(["*", "broker-*", *BROKERS]),
    arrow=st.sampled_from(["->", "<->"]),
)
def test_two_ends_that_differ_make_a_link(left: str, right: str, arrow: str) -> None:
    """Any broker target can stand on either side."""
    if left == right:
        right = "broker-*"
    assert str(link_pattern(f"{left}{arrow}{right}")) == f"{left}{arrow}{right}"
