"""The command line of the application, and how `scenarios.yaml` declares it."""

from dataclasses import fields
from pathlib import Path

import pytest

from chaos.contract.base import Topic, Topics
from chaos.scenario.load import load
from chaos.scenario.pipelines import CommandPipeline as DeclaredCommand
from chaos.scenario.pipelines.deployed import Deployed
from pipelines.transactional.options import Options, parsed, transactional_id
from tests.unit.wording import keep, raised

ROOT = Path(__file__).parents[4]
PLACE = ("--kafka=link:9092", "--source=in", "--sink=out", "--group=g")
TOPICS = Topics((Topic("datasource-7", 3),), "datasink-7")


def test_without_options_it_works_as_they_say() -> None:
    """The place has no default."""
    place, options = parsed(PLACE, kind=Options)

    assert (place.kafka, place.source, place.sink, place.group) == ("link:9092", "in", "out", "g")
    assert options == Options()


def test_every_option_can_be_given() -> None:
    """Durations have a unit there."""
    words = ("--workers=2", "--interval=2s", "--session-timeout=0.5m", "--transaction-failure-probability=0.25", "--seed=4")

    assert parsed((*PLACE, *words), kind=Options)[1] == Options(
        workers=2, interval_ms=2000, session_timeout_ms=30_000, transaction_failure_probability=0.25, seed=4
    )


@pytest.mark.parametrize(
    "word",
    [
        "--delivery=exactly_twice",
        "--producer-per=day",
        "--auto-offset-reset=none",
        "--transactional-ids=none",
        "--idempotence=no",
        "--idempotence=false",
        "--positions=client",
        "--isolation=dirty",
        "--group-metadata=none",
        "--max-poll-interval=1s",
        "--acks=2",
        "--acks=0",
        "--workers=0",
        "--workers=10",
        "--workers=many",
        "--batch-records=0",
        "--sink-partitions=-1",
        "--transaction-failure-probability=1.1",
        "--interval=5",
        "--colour=red",
    ],
)
def test_impossible_values_are_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line says what is wrong, and a report shows it."""
    with pytest.raises(SystemExit):
        parsed((*PLACE, word), kind=Options)

    _, _, said = capsys.readouterr().err.splitlines()[-1].partition(": error: ")
    assert keep(said)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("--delivery=at_least_once", "--idempotence=false"), Options(delivery="at_least_once", idempotence=False)),
        (
            ("--delivery=at_least_once", "--idempotence=false", "--acks=0", "--linger=1s"),
            Options(delivery="at_least_once", idempotence=False, acks="0", linger_ms=1000),
        ),
        (("--delivery=at_most_once", "--acks=1"), Options(delivery="at_most_once", acks="1")),
        (("--delivery=at_least_once", "--positions=client"), Options(delivery="at_least_once", positions="client")),
    ],
)
def test_without_transactions_a_producer_may_promise_less(words: tuple[str, ...], options: Options) -> None:
    """One without retries has no use for idempotence, so nothing must be said of it."""
    assert parsed((*PLACE, *words), kind=Options)[1] == options


def test_only_transactions_can_fail() -> None:
    with raised(ValueError, "at_least_once"):
        Options(transaction_failure_probability=0.1, delivery="at_least_once")
    with raised(ValueError, "at_least_once", "group_metadata"):
        Options(group_metadata="left_out", delivery="at_least_once")


def test_who_commits_positions_first_does_it_himself() -> None:
    with raised(ValueError, "at_most_once", "positions"):
        Options(delivery="at_most_once", positions="client")


def declared_in(name: str) -> DeclaredCommand:
    """The pipeline of one of our scenarios."""
    declared = load(ROOT / "scenarios.yaml").scenario(name).pipeline
    assert isinstance(declared, DeclaredCommand)
    return declared


def test_the_declared_application_gives_each_of_its_options() -> None:
    """A default that is written in two places would differ one day."""
    declared = declared_in("rebalance-storm-application")
    named = {word.partition("=")[0] for word in declared.run if word.startswith("--")}

    options = {f"--{field.name.removesuffix('_ms').replace('_', '-')}" for field in fields(Options)}
    assert named == options | {"--kafka", "--source", "--sink", "--group"}
    place = [f"--{name}=x" for name in ("kafka", "source", "sink", "group")]
    words = [word.replace("{instance}", "1") for word in declared.run]
    given = [word for word in words if word.startswith("--") and word.partition("=")[0] in options]
    assert parsed([*place, *given], kind=Options)[1] == Options()


@pytest.mark.parametrize(
    ("name", "owners"),  # seen on a real group, see tests/integration
    [("rebalance-storm-application", "012"), ("application-paused-past-its-timeouts", "000")],
)
def test_a_transactional_id_stands_at_the_index_of_its_partition(name: str, owners: str) -> None:
    """As the range assignor shares partitions among members in the order of their names."""
    declared = declared_in(name)
    pipeline = Deployed(declared)

    ids = pipeline.transactional_ids(TOPICS)

    assert ids == tuple(transactional_id(pipeline.consumer_group(TOPICS), int(owner)) for owner in owners)
