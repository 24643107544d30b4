from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.grammar.targets import BrokerTarget, ExecutorTarget, LinkPattern, broker_target, executor_target, link_pattern

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
HELP = (
    "a broker is leader(TOPIC, P), follower(TOPIC, P), transaction_coordinator, transaction_coordinator(P), "
    "group_coordinator, controller, receiver or sender (of the held request), any, all or broker-N"
)

STREAM = "and choose the direction of the bytes with `stream`"


def refusal(read: Callable[[object], object], text: object) -> str:
    """The message with which a reader refuses a text."""
    try:
        return f"accepted: {read(text)}"
    except ValueError as error:
        return str(error)


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
    assert refusal(broker_target, f"leader(orders, {text})") == f"'{text}' is not a partition; write its number, from 0 on"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("leeder(datasink, 0)", f"'leeder(datasink, 0)' is not a broker (did you mean leader?); {HELP}"),
        ("Controller", f"'Controller' is not a broker (did you mean controller?); {HELP}"),
        ("brokr-2", f"'brokr-2' is not a broker (did you mean broker-1?); {HELP}"),
        ("broker-0", f"'broker-0' is not a broker (did you mean broker-1?); {HELP}"),
        ("zookeeper!", f"'zookeeper!' is not a broker; {HELP}"),
        ("leader", f"'leader' has the wrong arguments; {HELP}"),
        ("controller(1)", f"'controller(1)' has the wrong arguments; {HELP}"),
        ("receiver(0)", f"'receiver(0)' has the wrong arguments; {HELP}"),
        ("reciever", f"'reciever' is not a broker (did you mean receiver?); {HELP}"),
        ("leader(datasink", "'leader(datasink' is missing its `)`; within {…} a comma needs quotes: \"leader(orders, 0)\""),
        (2, f"2 is not a broker; {HELP}"),
        (None, f"an empty value is not a broker; {HELP}"),
    ],
)
def test_a_text_that_is_not_a_broker_is_refused_with_advice(text: object, message: str) -> None:
    """A message names the mistake, the nearest right word, and all that can be written."""
    assert refusal(broker_target, text) == message


def test_executors_are_busiest_any_or_all() -> None:
    """Executors have no numbers of their own: Spark gives new ones to those that replace the dead."""
    texts = ["executor(busiest)", "executor(any)", "executor(all)"]

    assert [str(executor_target(text)) for text in texts] == texts
    assert executor_target(" executor(all) ") == ExecutorTarget("all")
    assert refusal(executor_target, "executor(busy)") == (
        "'executor(busy)' is not an executor (did you mean executor(busiest)?); "
        "write executor(busiest), executor(any), executor(all), or executor(2) for the one on worker-2"
    )


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
    ("text", "message"),
    [
        ("spark<->broker-1", "clients accept no connections: write spark->broker-1 with `stream: both`"),
        (
            "broker-1->spark",
            "clients accept no connections: write spark->broker-1, and choose the direction of the bytes with `stream`",
        ),
        (
            "broker-1<->loader",
            "clients accept no connections: write loader->broker-1, and choose the direction of the bytes with `stream`",
        ),
        ("spark->loader", "clients accept no connections"),
        (
            "receiver->pipeline",
            f"clients accept no connections: write pipeline->receiver, {STREAM}",
        ),
        ("receiver->receiver", "receiver has no link to itself; name two different ends"),
        ("group_coordinator->group_coordinator", "group_coordinator has no link to itself; name two different ends"),
        ("broker-2->broker-2", "broker-2 has no link to itself; name two different ends"),
        ("controller<->controller", "controller has no link to itself; name two different ends"),
        (
            "sprk->broker-1",
            f"'sprk' is not a broker (did you mean spark?); {HELP}, or one of spark, app, loader, pipeline, broker-*, *",
        ),
        (
            "spark",
            "'spark' is not a link; write FROM->TO, e.g. spark->broker-1, *->leader(orders, 0) or broker-1<->broker-2",
        ),
        (
            "->broker-1",
            "'->broker-1' is not a link; write FROM->TO, e.g. spark->broker-1, *->leader(orders, 0) or broker-1<->broker-2",
        ),
    ],
)
def test_a_link_that_cannot_exist_is_refused_with_advice(text: str, message: str) -> None:
    """Links are ordered: a client connects to a broker, never the other way round."""
    assert refusal(link_pattern, text) == message


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
