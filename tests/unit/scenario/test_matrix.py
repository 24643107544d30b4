"""`matrix:`: the cases, their names and coordinates, and errors that lead to where something was written."""

import pytest

from chaos.faults.links import CutLink
from chaos.faults.pipeline_process import CrashPipeline
from chaos.faults.requests import LoseRequest
from chaos.grammar.triggers import OnRequest
from chaos.grammar.yaml_source import parse, place_of
from chaos.scenario.matrix import expand
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import HEAD, OF_TOPICS, errors_of, loaded

SWEEP = """\
version: 2
scenarios:
  - name: sweep
    title: "${request} under ${fault}"
    matrix:
      request: [InitProducerId, EndTxn]
      fault:
        request-lost: [{kind: lose_request, when: {request: "${request}", nth: 2}}]
        sender-killed: [{kind: crash_pipeline, when: {request: "${request}"}}]
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
    faults: "${fault}"
"""
LAST = "".join(f"    {line}\n" for line in (f"pipeline: {{kind: command, run: [app], group: g, {OF_TOPICS}}}", "title: B"))


def cases(text: str) -> tuple[Scenario, ...]:
    """The scenarios that a text makes."""
    return loaded(text).scenarios


def crossed(*lines: str) -> str:
    """One scenario with these lines from line 6 on."""
    return HEAD + "".join(f"    {line}\n" for line in lines)


def test_every_word_of_an_axis_meets_every_word_of_the_others() -> None:
    """The names say which is which, in the order of the file: the last axis changes fastest."""
    assert [case.name for case in cases(SWEEP)] == [
        "sweep-initproducerid-request-lost",
        "sweep-initproducerid-sender-killed",
        "sweep-endtxn-request-lost",
        "sweep-endtxn-sender-killed",
    ]


def test_a_case_keeps_its_coordinates() -> None:
    """The table of a sweep is made from them, not from names."""
    last = cases(SWEEP)[-1]

    assert last.matrix == {"request": "EndTxn", "fault": "sender-killed"}
    assert last.title == "EndTxn under sender-killed"
    assert list(last.matrix) == ["request", "fault"]


def test_a_hole_is_filled_with_what_its_word_stands_for_holes_and_all() -> None:
    """A fault is written once, and aimed by the other axis."""
    lost, killed = cases(SWEEP)[2].faults + cases(SWEEP)[3].faults

    assert isinstance(lost, LoseRequest)
    assert isinstance(killed, CrashPipeline)
    assert isinstance(killed.when, OnRequest)
    assert (lost.when.request, lost.when.nth, killed.when.request, killed.when.nth) == ("EndTxn", 2, "EndTxn", 1)


def test_cases_do_not_share_what_was_put_into_them() -> None:
    """Each is filled for itself: a word of one case in another would run the wrong experiment."""
    first, second = cases(SWEEP)[0].faults[0].when, cases(SWEEP)[2].faults[0].when

    assert (first.request, second.request) == ("InitProducerId", "EndTxn")


def test_a_file_without_a_matrix_stays_the_very_same() -> None:
    """Nothing is copied, nothing loses its place."""
    for text in (HEAD, "a: 1\n", "scenarios: 5\n", "- a\n"):
        tree = parse(text)
        assert expand(tree) is tree


def test_a_matrix_in_one_of_several_scenarios() -> None:
    """The others stay between which they stood, and errors in them lead to their own lines."""
    text = HEAD + SWEEP.split("scenarios:\n")[1] + "  - name: b\n" + LAST

    names = [case.name for case in cases(text)]
    assert (names[0], len(names), names[-1]) == ("a", 6, "b")
    assert errors_of(text.replace("title: B", "titel: B")) == [
        ("15:5", "missing-key"),
        ("17:5", "unknown-key"),
    ]


def test_a_name_can_say_where_the_words_belong() -> None:
    """Other characters than letters and digits become hyphens."""
    text = crossed("matrix: {records: [10, 20], when: [1.5s]}").replace("name: a", "name: first-${records}-after-${when}-x")

    assert [case.name for case in cases(text)] == ["first-10-after-1-5s-x", "first-20-after-1-5s-x"]


def test_words_keep_their_kind_when_they_stand_alone() -> None:
    """A number is put in as a number, true as true; within a text they are what was written."""
    text = crossed(
        "matrix: {idempotence: [true, false], records: [10], chance: [0.5]}",
        "workload: {records: '${records}', producer: {idempotence: '${idempotence}'}}",
    ).replace("title: A", "title: ${idempotence} ${records} ${chance}")

    first, second = cases(text)
    assert (first.workload.records, first.title, second.title) == (10, "true 10 0.5", "false 10 0.5")
    assert (first.name, first.matrix) == ("a-true-10-0-5", {"idempotence": "true", "records": "10", "chance": "0.5"})
    assert [case.workload.producer.idempotence for case in (first, second)] == [True, False]


def test_a_word_can_stand_for_a_text_and_the_text_may_have_holes() -> None:
    """`${link}` alone is the link; in the title it is its name."""
    (case,) = cases(
        crossed(
            "matrix: {topic: [datasink], link: {to-leader: 'spark->leader(${topic}, 1)'}}",
            "faults: [{kind: cut_link, link: '${link}', when: {after: 1s}, for: 1s}]",
        ).replace("title: A", "title: cut ${link}")
    )

    (cut,) = case.faults
    assert isinstance(cut, CutLink)
    assert (str(cut.link), case.title) == ("spark->leader(datasink, 1)", "cut to-leader")


def test_a_word_can_stand_for_several_things_by_their_keys() -> None:
    """A list that takes the place of an element is put in element by element."""
    (case,) = cases(
        crossed(
            "matrix:",
            "  fault:",
            "    both:",
            "      tags: [slow, deep]",
            "      title: Two",
            "      faults:",
            "        - {kind: kill_broker, target: any, when: {after: 1s}}",
            "        - {kind: pause_broker, target: any, when: {after: 1s}, for: 1s}",
            "tags: [quick, '${fault.tags}']",
            "faults: ['${fault.faults}', {kind: crash_executor, when: {after: 1s}}]",
        ).replace("title: A", "title: ${fault.title} of ${fault.word}")
    )

    assert [fault.kind for fault in case.faults] == ["kill_broker", "pause_broker", "crash_executor"]
    assert (case.tags, case.title) == (("quick", "slow", "deep"), "Two of both")


def test_overrides_change_the_cases_at_their_coordinates_and_no_other() -> None:
    """One word or a list of them; what is set may have holes; the last one that fits wins."""
    text = SWEEP + "".join(
        f"      {line}\n" if line[0] == "-" else f"    {line}\n"
        for line in (
            "overrides:",
            "- {at: {request: [EndTxn, InitProducerId]}, set: {tags: [all]}}",
            "- {at: {request: EndTxn, fault: sender-killed}, set: {tags: [one], title: '${request} alone'}}",
        )
    )

    assert [(case.tags, case.title) for case in cases(text)[1:]] == [
        (("all",), "InitProducerId under sender-killed"),
        (("all",), "EndTxn under request-lost"),
        (("one",), "EndTxn alone"),
    ]


def test_overrides_find_numbers_and_truths_as_they_are_written() -> None:
    """`true` in `at` is the `true` of the axis."""
    text = crossed("matrix: {slow: [true, false], n: [1, 2]}", "overrides: [{at: {slow: true, n: 2}, set: {tags: [yes_two]}}]")

    assert [case.tags for case in cases(text)] == [(), ("yes_two",), (), ()]


def test_what_is_shared_by_anchors_is_filled_for_each_case() -> None:
    """An alias is the same object as its anchor until the cases are made."""
    text = (
        crossed(
            "matrix: {n: [1, 2]}",
            "workload: &w {records: '${n}', into: datasource}",
        )
        + "  - {<<: {title: T, matrix: {n: [3]}}, name: b, pipeline: none, workload: *w}\n"
    )

    assert [(case.name, case.workload.records) for case in cases(text)] == [("a-1", 1), ("a-2", 2), ("b-3", 3)]


def test_an_error_within_an_axis_is_shown_where_the_axis_has_it() -> None:
    """Once, however many cases share it."""
    wrong = SWEEP.replace("nth: 2", "nth: 0")

    assert errors_of(wrong) == [("8:80", "too-small")]


def test_an_error_within_an_override_is_shown_where_the_override_has_it() -> None:
    """Whether the case had such a key before or not."""
    text = (
        SWEEP + "    overrides:\n      - {at: {request: EndTxn}, set: {tags: [Slow], workload: {records: 0}, isolation: any}}\n"
    )

    assert errors_of(text) == [("13:46", "not-a-tag"), ("13:73", "too-small"), ("13:88", "unknown-choice")]


def test_an_error_of_meaning_leads_into_the_matrix_too() -> None:
    """A request that can never come is shown where it is spelt for this case, or at the hole that spells it."""
    text = SWEEP.replace("group: g,", "group: g, transactions: false,")

    assert errors_of(text) == [("8:61", "request-never-sent"), ("9:64", "request-never-sent")]


def test_the_tree_itself_knows_the_place_of_what_was_put_in() -> None:
    """Asked of the tree itself: line and column of an axis' value, at the place of the hole."""
    tree = expand(parse(SWEEP))

    place = place_of(tree, ("scenarios", 0, "faults", 0, "when", "nth"))
    assert (place.line, place.column) == (8, 80)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["matrix:"], ("6:5", "not-a-matrix")),
        (["matrix: [a]"], ("6:13", "not-a-matrix")),
        (["matrix: {}"], ("6:13", "not-a-matrix")),
        (["matrix: {n: 1}"], ("6:17", "not-an-axis")),
        (["matrix: {n: []}"], ("6:17", "not-an-axis")),
        (["matrix: {n: [[a]]}"], ("6:17", "not-an-axis")),
        (["matrix: {n: {}}"], ("6:17", "not-an-axis")),
        (["matrix: {n: [a, b, a]}"], ("6:24", "word-twice")),
        (["matrix: {n: [1, '1']}"], ("6:21", "word-twice")),
        (
            ["matrix: {request: [a]}", "tags: ['${requst}']"],
            ("7:12", "not-in-matrix"),
        ),
        (["matrix: {n: [a]}", "tags: ['${}']"], ("7:12", "not-in-matrix")),
        (["matrix: {n: {a: ['${n}']}, m: [b]}", "tags: '${n}'"], ("7:11", "not-in-matrix")),
        (["matrix: {n: {a: {x: 1}}}", "tags: ['${n.y}']"], ("7:12", "not-in-matrix")),
        (
            ["matrix: {n: {a: {x: [1]}}}", "tags: ['b${n.x}']"],
            ("7:12", "value-not-a-word"),
        ),
        (["matrix: {n: {a: [b]}}", "overrides: {}"], ("7:16", "overrides-not-a-list")),
        (
            ["matrix: {n: [a]}", "overrides: [a]"],
            ("7:17", "keys-of-override"),
        ),
        (
            ["matrix: {n: [a]}", "overrides: [{at: {n: a}}]"],
            ("7:17", "keys-of-override"),
        ),
        (["matrix: {n: [a]}", "overrides: [{at: n, set: {}}]"], ("7:22", "override-not-a-mapping")),
        (["matrix: {n: [a]}", "overrides: [{at: {n: a}, set: [b]}]"], ("7:35", "override-not-a-mapping")),
        (
            ["matrix: {nn: [a]}", "overrides: [{at: {n: a}, set: {}}]"],
            ("7:22", "not-in-matrix"),
        ),
        (
            ["matrix: {n: [one, two]}", "overrides: [{at: {n: [one, tow]}, set: {}}]"],
            ("7:26", "not-in-matrix"),
        ),
    ],
)
def test_a_mistake_in_a_matrix_is_shown_where_it_is(lines: list[str], error: tuple[str, str]) -> None:
    """The error says what is wrong, and what would be right."""
    assert errors_of(crossed(*lines)) == [error]


def test_a_name_with_a_hole_that_is_not_an_axis() -> None:
    """It would be the same name for all cases."""
    assert errors_of(crossed("matrix: {nums: [a]}").replace("name: a", "name: x-${num}")) == [("3:11", "not-in-matrix")]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("    title: A\n", ("3:5", "missing-key")),
        ("    name: 5\n    title: A\n", ("3:11", "not-text")),
        ("    name:\n    title: A\n", ("3:5", "not-text")),
    ],
)
def test_a_matrix_without_a_name(name: str, error: tuple[str, str]) -> None:
    """It is refused like a scenario without a name."""
    text = crossed("matrix: {n: [1, 2]}").replace("  - name: a\n    title: A\n", f"  -{name[3:]}")

    assert errors_of(text) == [error]


def test_names_that_do_not_tell_the_cases_apart() -> None:
    """A template that leaves an axis out."""
    text = crossed("matrix: {n: [1], m: [2, 3]}").replace("name: a", "name: x-${n}")

    assert errors_of(text) == [("3:11", "name-taken")]


def test_a_matrix_has_an_end() -> None:
    """It is counted before it is crossed: a slip of the hand must not fill the memory."""
    axes = ", ".join(f"a{number}: [{', '.join(map(str, range(100)))}]" for number in range(9))

    assert errors_of(crossed(f"matrix: {{{axes}}}")) == [("6:13", "too-many-scenarios")]


def test_overrides_without_a_matrix() -> None:
    """They would do nothing."""
    assert errors_of(crossed("overrides: []")) == [("6:5", "unknown-key")]
