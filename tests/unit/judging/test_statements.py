"""The reports of programs about their clients: which lines count, what they mean, and which are refused."""

import json

import pytest

from chaos.common.errors import InconclusiveError
from chaos.judging import statements
from chaos.judging.statements import STARTED_AGAIN, Delivery, ReportedOutcome
from tests.unit.wording import raised

AGAIN = STARTED_AGAIN.decode()


@pytest.fixture
def write(tmp_path):
    """Make a log of these lines, each an object, or a text as it is; returns its path."""

    def make(*lines, name="pipeline"):
        path = tmp_path / "logs" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    return make


def told(*logs):
    return list(statements.told(logs))


def delivered(*logs):
    return list(statements.deliveries(logs, "orders"))


def test_a_transaction_has_a_row_for_each_key(write):
    """Keys of its end or of its begin, numbers or texts, in any order with other transactions; those never told come last."""
    log = write(
        {"begin": 1},
        {"begin": "b", "ids": ["x", 7]},
        {"told": "committed", "transaction": 1, "ids": ["k", "k"]},
        {"begin": 2.5, "ids": ["y"]},
        {"told": "aborted", "transaction": "b"},
        {"begin": 3},
    )

    assert told(log) == [
        ReportedOutcome("pipeline 1", "committed", "k"),
        ReportedOutcome("pipeline 1", "committed", "k"),
        ReportedOutcome("pipeline b", "aborted", "x"),
        ReportedOutcome("pipeline b", "aborted", "7"),
        ReportedOutcome("pipeline 2.5", "unknown", "y"),
        ReportedOutcome("pipeline 3", "unknown", None),
    ]


def test_a_transaction_without_keys_has_a_row_too(write):
    assert told(write({"begin": 1, "ids": []}, {"told": "unknown", "transaction": 1})) == [
        ReportedOutcome("pipeline 1", "unknown", None)
    ]


def test_the_same_name_in_two_instances_is_two_transactions(write):
    """A name may come from a second instance, a restarted process, or two clients of one process."""
    first = write(
        {"begin": 1, "ids": ["a"]},
        AGAIN,
        {"begin": 1, "ids": ["b"], "by": "w"},
        {"begin": 1, "ids": ["c"], "by": "v"},
        {"told": "committed", "transaction": 1, "by": "w"},
        {"begin": 1, "ids": ["d"], "by": "w"},
    )
    second = write({"begin": 1}, {"told": "committed", "transaction": 1, "ids": ["e"]}, name="pipeline-2")

    assert told(first, second) == [
        ReportedOutcome("pipeline 1", "unknown", "a"),
        ReportedOutcome("pipeline start 2 w 1", "committed", "b"),
        ReportedOutcome("pipeline start 2 w 1 (again 1)", "unknown", "d"),
        ReportedOutcome("pipeline start 2 v 1", "unknown", "c"),
        ReportedOutcome("pipeline-2 1", "committed", "e"),
    ]


def test_a_name_that_begins_again_is_of_a_process_that_was_started_again(write):
    """The copies of a command are started again without a line in the log that says which."""
    log = write({"begin": 1, "ids": ["a"]}, {"begin": 1, "ids": ["a"]}, {"told": "committed", "transaction": 1})

    assert told(log) == [
        ReportedOutcome("pipeline 1", "unknown", "a"),
        ReportedOutcome("pipeline 1 (again 1)", "committed", "a"),
    ]


def test_deliveries_are_numbered_as_they_came(write):
    """One or several in a line; of this topic; each client is an instance."""
    log = write(
        {"start": ["orders", 0, None]},
        {"got": ["orders", 0, 5]},
        {"got": [["orders", 0, 6], ["others", 0, 1], ["orders", 1, 0]], "by": "w"},
        {"start": [["orders", 0, 6], ["orders", 1, None]]},
        {"got": []},
        AGAIN,
        {"got": ["orders", 0, 6]},
    )

    assert delivered(log) == [
        Delivery("pipeline", 0, "start", 0, None),
        Delivery("pipeline", 1, "got", 0, 5),
        Delivery("pipeline w", 2, "got", 0, 6),
        Delivery("pipeline w", 3, "got", 1, 0),
        Delivery("pipeline", 4, "start", 0, 6),
        Delivery("pipeline", 5, "start", 1, None),
        Delivery("pipeline start 2", 6, "got", 0, 6),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "begin"}\n',
        '{"beginning": 1}\n',
        '{"id": 1, "begin": 2}\n',
        'begin {"begin": 1\n',
        '["begin"]\n',
        "{}\n",
        '{"got": "it"}\n',
        "\n",
        '{\n"begin": 1}\n',
    ],
)
def test_other_lines_are_the_programs_own(write, line):
    """Also those that another kind of statement begins with, which was not declared."""
    assert told(write(line)) == []


@pytest.mark.parametrize("line", ['{ "begin" : 1 }\n', '  {"begin": 1}  \n', '\t{\t"begin":1}\r\n', '{"begin": 1}'])
def test_spaces_do_not_matter(write, line):
    """Nor does the break of the last line, if the line is whole."""
    assert told(write(line)) == [ReportedOutcome("pipeline 1", "unknown", None)]


BEGUN = {"begin": 1}


@pytest.mark.parametrize(
    "lines",
    [
        ['{"begin": 1\n'],
        ['{"begin"\n'],
        ['{"begin": 1} and more\n'],
        ['{"begin": 1}{"begin": 2}\n'],
        ['{"begin": [1]}\n'],
        ['{"begin": null}\n'],
        ['{"begin": true}\n'],
        ['{"begin": 1, "id": ["a"]}\n'],
        ['{"begin": 1, "ids": "a"}\n'],
        ['{"begin": 1, "ids": [null]}\n'],
        ['{"begin": 1, "ids": [["a"]]}\n'],
        ['{"begin": 1, "by": null}\n'],
        ['{"begin": 1, "transaction": 1}\n'],
        ['{"told": "committed", "transaction": 1}\n'],
        [BEGUN, '{"told": "commited", "transaction": 1}\n'],
        [BEGUN, '{"told": "committed"}\n'],
        [BEGUN, '{"told": "committed", "transaction": 2}\n'],
        [BEGUN, '{"told": "committed", "transaction": 1, "by": "w"}\n'],
        [BEGUN, {"told": "aborted", "transaction": 1}, '{"told": "committed", "transaction": 1}\n'],
        [BEGUN, AGAIN, '{"told": "committed", "transaction": 1}\n'],
        ['{"told": "comm{"begin": 1}\n'],
        ['{"begin": "\ud800'.encode("utf-8", "replace").decode() + "\n"],
    ],
)
def test_what_is_not_a_statement_is_refused_with_its_place(write, lines):
    """The program's outcomes are not known then, so its transactions cannot be judged."""
    log = write(*lines)

    with raised(InconclusiveError, f"{log}:{len(lines)}: {lines[-1].strip()}: "):
        told(log)


@pytest.mark.parametrize(
    "line",
    [
        '{"got": ["orders", 0]}\n',
        '{"got": ["orders", 0, null]}\n',
        '{"got": ["orders", 0, -1]}\n',
        '{"got": ["orders", 0, "1"]}\n',
        '{"got": ["orders", 0, 1.5]}\n',
        '{"got": ["orders", true, 1]}\n',
        '{"got": ["orders", 0, false]}\n',
        '{"got": [["orders", 0, 1], 2]}\n',
        '{"got": {"orders": 1}}\n',
        '{"got": ["orders", 0, 1], "at": 1}\n',
        '{"start": ["orders", -1, 1]}\n',
        '{"start": ["orders", 0, -2]}\n',
        '{"start": [0, 0, 1]}\n',
    ],
)
def test_what_is_not_a_place_is_refused(write, line):
    with pytest.raises(InconclusiveError, match=r"pipeline\.log:1: .+ expected .+\[TOPIC, PARTITION, OFFSET\]"):
        delivered(write(line))


def test_what_is_expected_is_told_and_a_long_line_is_shortened(write):
    log = write({"begin": 1, "ids": ["x" * 1000], "isd": 1})

    with raised(InconclusiveError, "x…: ", '{"begin": T}') as caught:
        told(log)

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("half", "rest"),
    [
        ('{"told": "comm', []),
        ('{"told"', []),
        ('{"told": "committed", "transaction": 1, "ids": ["a}', []),
        ('{"told": "comm\n', [AGAIN, {"begin": 1, "ids": ["b"]}]),
        ('{"told": "comm\n', ['{"supervisor": "ended", "copy": 0, "code": -9}\n', {"begin": 1, "ids": ["b"]}]),
    ],
)
def test_half_a_line_of_a_process_that_was_killed_is_no_error(write, half, rest):
    """At the end of the log, before its successor, or before the line that tells the end of a copy."""
    assert told(write({"begin": 1, "ids": ["a"]}, half, *rest))[0] == ReportedOutcome("pipeline 1", "unknown", "a")


@pytest.mark.parametrize("after", ["\n", "its own\n", '{"begin": 2}\n', '{"event": "started"}\n', ""])
def test_half_a_line_of_a_process_that_goes_on_is_refused(write, after):
    with pytest.raises(InconclusiveError, match="told"):
        told(write({"begin": 1}, '{"told": "comm\n', after))


def test_the_logs_of_a_process_are_those_of_all_its_instances(write, tmp_path):
    paths = [write(name=name) for name in ("pipeline", "pipeline-2", "loader")]

    assert statements.logs(tmp_path, "pipeline") == paths[:2]
    assert statements.logs(tmp_path, "loader") == paths[2:]
