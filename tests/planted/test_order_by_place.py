"""The order of an audit is that of places in the source's partitions, however ids were dealt to these.

Logs are made at random, from a seed: ids from 0 on are dealt to partitions in turn, by a hash, at random, with skew, or in the
order of another shuffle. The sink is a copy, in which rows of one partition may have changed places.
"""

import os
from random import Random
from zlib import crc32

import pytest

from chaos.audit import dense_keys
from chaos.audit import identity as audit_identity
from chaos.audit import judge as audit_judge
from chaos.audit import logs as audit_logs
from tests.planted.disordered import out_of_place
from tests.planted.log import land
from verifiers.base import Verdict
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
LOGS = max(1, int(os.environ.get("PLANTED_EXAMPLES", "5")) // 3)  # of each kind
SIZES = (
    Limits(),
    Limits(block_bits=2, least_run=0, held_rows=0),
    Limits(block_bits=2, least_run=10**9, held_rows=0),
    Limits(block_bits=3, most_groups=5, held_rows=0, small_rows=0),
)

DEALINGS = {
    "in turn": lambda id_, partitions, _: id_ % partitions,
    "by a hash": lambda id_, partitions, _: crc32(str(id_).encode()) % partitions,
    "at random": lambda _, partitions, rng: rng.randrange(partitions),
    "with skew": lambda _, partitions, rng: min(rng.randrange(partitions) for _ in range(3)),
    "in blocks": lambda id_, partitions, _: id_ // 7 % partitions,
    "to the next but one": lambda id_, partitions, _: (id_ + 1) % partitions,
}


@pytest.fixture
def ordering(spark, tmp_path_factory):
    """Audit two logs as copies, by the default identity: what is said of their order."""

    def ask(source, sink, limits):
        folder = tmp_path_factory.mktemp("logs")  # Spark may have kept what was at a place before
        land(folder / "source", source, COLUMNS)
        land(folder / "sink", sink, COLUMNS)
        logs = audit_logs.landed(spark, str(folder))
        found = audit_judge.judge(logs, dense_keys.dense(logs, audit_identity.model("identity")), limits)
        duplicates, gaps, ordered, values = found
        assert [one.verdict for one in (duplicates, gaps, values)] == [Verdict.VALID] * 3
        return ordered

    return ask


def dealt(rng, dealing, *, rising):
    """A log of ids, each at the next offset of its partition; now and then an offset is a marker's."""
    partitions, records = rng.randrange(1, 13), rng.randrange(2, 120)
    ids = list(range(records))
    if not rising:
        rng.shuffle(ids)
    markers = rng.choice([0, 0.2])
    ends, rows = [0] * partitions, []
    for id_ in ids:
        home = DEALINGS[dealing](id_, partitions, rng)
        ends[home] += rng.random() < markers
        rows.append((home, ends[home], str(id_), f"v{id_}"))
        ends[home] += 1
    return rows


def with_rows_moved(rng, rows, moves):
    """The log with single rows of a partition moved to other places."""
    kept = {}
    for home, _, key, value in sorted(rows):
        kept.setdefault(home, []).append((key, value))
    for home in rng.choices(sorted(kept), k=moves):
        row = kept[home].pop(rng.randrange(len(kept[home])))
        kept[home].insert(rng.randrange(len(kept[home]) + 1), row)
    return [(home, offset, *row) for home, here in kept.items() for offset, row in enumerate(here)]


def moved(source, sink):
    """How many rows are out of place, and the first one's place, counted partition by partition."""
    places = {row[2]: row[1] for row in source}
    found = []
    for home in {row[0] for row in sink}:
        here = sorted(row for row in sink if row[0] == home)
        found += [here[at][:2] for at, _ in out_of_place([places[row[2]] for row in here])]
    return len(found), sorted(found)[:1]


@pytest.mark.parametrize("rising", [True, False], ids=["rising", "shuffled"])
@pytest.mark.parametrize("dealing", DEALINGS)
def test_order_is_that_of_places(ordering, dealing, rising):
    """A copy in order is VALID, and one with rows in each other's place is INVALID, however ids were dealt."""
    for seed in range(LOGS):
        rng = Random(f"{dealing} {rising} {seed}")
        source = dealt(rng, dealing, rising=rising)
        sink = with_rows_moved(rng, source, rng.choice([0, 0, 1, 2, 5]))

        found = ordering(source, sink, rng.choice(SIZES))

        count, firsts = moved(source, sink)
        said = (found.verdict, found.count, found.checked, [(one.partition, one.offset) for one in found.examples[:1]])
        wanted = (Verdict.INVALID if count else Verdict.VALID, count, len(source), firsts)
        assert said == wanted, (dealing, rising, seed)


def test_two_rows_of_each_partition_in_each_others_place(ordering):
    """Ids that are dealt in pairs are in other lines than their neighbours, and out of order all the same."""
    source = [(0, at, str(id_), "v") for at, id_ in enumerate((1, 2, 5, 6))]
    source += [(1, at, str(id_), "v") for at, id_ in enumerate((3, 4, 7, 8))]
    sink = [(0, at, str(id_), "v") for at, id_ in enumerate((2, 1, 6, 5))]
    sink += [(1, at, str(id_), "v") for at, id_ in enumerate((4, 3, 8, 7))]

    assert (ordering(source, source, Limits()).count, ordering(source, sink, Limits()).count) == (0, 4)
