"""Rows that are out of place, one after the other, as `verifiers.ordering` defines it."""

from collections.abc import Sequence


def rising(numbers: Sequence[int]) -> list[int]:
    """Places of the longest rising sequence; of several, the one further to the front. It takes the square of the time."""
    longest = [1] * len(numbers)
    follows = [-1] * len(numbers)
    for place in reversed(range(len(numbers))):
        for later in range(place + 1, len(numbers)):
            if numbers[later] > numbers[place] and longest[later] + 1 > longest[place]:
                longest[place], follows[place] = longest[later] + 1, later
    place = longest.index(max(longest)) if numbers else -1
    found = []
    while place >= 0:
        found.append(place)
        place = follows[place]
    return found


def out_of_place(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The place of each number that is out of order in the log, and the number that shows it."""
    everything = list(enumerate(numbers))
    conflicts = [
        (place, number)
        for place, number in everything
        if any(other > number for other in numbers[:place]) or any(other < number for other in numbers[place + 1 :])
    ]
    in_order = [conflicts[one] for one in rising([number for _, number in conflicts])]
    found = []
    for place, number in conflicts:
        before = [other for there, other in in_order if there < place]
        after = [other for there, other in in_order if there > place]
        if before and before[-1] > number:
            found.append((place, before[-1]))
        elif after and after[0] < number:
            found.append((place, after[0]))
    return found
