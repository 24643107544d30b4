"""A log whose keys recur, and a copy of it with a few damages, both made by chance."""

from collections import Counter


def planted(rng):
    """Three partitions whose keys recur, and a copy with a few damages; offsets have holes."""
    keys = rng.choice([4, 40, 400])
    records = [(number % 3, f"k{rng.randrange(keys)}", rng.choice(["a", "b", str(number), None])) for number in range(150)]
    rows = list(records)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        damage(rows, rng)
    return placed(records, rng, times=False), placed(rows, rng, times=True)


def damage(rows, rng):
    """Spoil the log at one place."""
    at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    match rng.randrange(10):
        case 0:
            del rows[at]
        case 1:
            del rows[at : at + rng.randrange(2, 30)]
        case 2:
            rows.insert(other, rows[at])
        case 3:
            rows[at:at] = rows[max(0, at - rng.randrange(2, 30)) : at]
        case 4:
            rows[at], rows[other] = rows[other], rows[at]
        case _:
            change(rows, at, rng)


def change(rows, at, rng):
    """Make one row another one, or put one there that nothing demands."""
    partition, key, value = rows[at]
    match rng.randrange(5):
        case 0:
            rows[at] = (partition, key, f"x{value}")
        case 1:
            rows[at] = ((partition + 1) % 4, key, value)
        case 2:
            rows.insert(at, (partition, f"stray{rng.randrange(2)}", value))
        case 3:
            rows.insert(at, (partition, None, value))
        case 4:
            rows[at:] = [(*row[:2], "x") if row[1] == key else row for row in rows[at:]]


def placed(rows, rng, *, times):
    """At rising offsets, landed in any order."""
    ends = Counter()
    found = []
    for number, (partition, key, value) in enumerate(rows):
        ends[partition] += 1 + (rng.randrange(9) == 0)
        found.append((partition, ends[partition], key, value, *([number // 7] if times else [])))
    rng.shuffle(found)
    return found
