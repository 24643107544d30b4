"""The command line of the application, and how `scenarios.yaml` declares it."""

from dataclasses import fields
from pathlib import Path

import pytest

from chaos.contract.base import Topic, Topics
from chaos.scenario.load import load
from chaos.scenario.pipelines import CommandPipeline as DeclaredCommand
from chaos.scenario.pipelines.deployed import Deployed
from pipelines.transactional.options import Options, parsed, transactional_id

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
    ("word", "message"),
    [
        ("--delivery=exactly_twice", "must be one of exactly_once, at_least_once, at_most_once, not 'exactly_twice'"),
        ("--producer-per=day", "producer_per must be one of unanswered, process, not 'day'"),
        ("--auto-offset-reset=none", "auto_offset_reset must be one of error, earliest, latest, not 'none'"),
        ("--transactional-ids=none", "transactional_ids must be one of own, shared, not 'none'"),
        ("--idempotence=no", "argument --idempotence: 'no' is neither true nor false"),
        ("--idempotence=false", "exactly_once has no producers without idempotence"),
        ("--positions=client", "exactly_once commits positions in its transactions"),
        ("--isolation=dirty", "isolation must be one of read_committed, read_uncommitted, not 'dirty'"),
        ("--group-metadata=none", "group_metadata must be one of sent, left_out, not 'none'"),
        ("--max-poll-interval=1s", "max_poll_interval must not be shorter than session_timeout"),
        ("--acks=2", "acks must be one of all, 1, 0, not '2'"),
        ("--acks=0", "acks 0 needs idempotence false: an idempotent producer waits for all replicas"),
        ("--workers=0", "workers must be 1 to 9, not 0"),
        ("--workers=10", "workers must be 1 to 9, not 10"),
        ("--workers=many", "argument --workers: invalid int value: 'many'"),
        ("--batch-records=0", "batch_records must be 1 or more, not 0"),
        ("--sink-partitions=-1", "sink_partitions must be 0 or more, not -1"),
        ("--transaction-failure-probability=1.1", "must be 0 to 1, not 1.1"),
        ("--interval=5", "argument --interval: '5' is not a duration; write 250ms, 6s or 2m"),
        ("--colour=red", "unrecognized arguments: --colour=red"),
    ],
)
def test_impossible_values_are_refused(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line says what is wrong, and a report shows it."""
    with pytest.raises(SystemExit):
        parsed((*PLACE, word), kind=Options)

    assert message in capsys.readouterr().err.splitlines()[-1]


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
    with pytest.raises(ValueError, match="at_least_once has no transactions"):
        Options(transaction_failure_probability=0.1, delivery="at_least_once")
    with pytest.raises(ValueError, match="at_least_once has no transactions"):
        Options(group_metadata="left_out", delivery="at_least_once")


def test_who_commits_positions_first_does_it_himself() -> None:
    with pytest.raises(ValueError, match="at_most_once commits positions before rows"):
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
