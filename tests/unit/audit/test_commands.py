"""`chaos audit` is four commands, each with options of its own; what one of them lacks is refused by the parser."""

from typing import Any

import pytest
from typer.main import get_command

from chaos.cli import main
from tests.unit.wording import keep

MOST = 18  # options that one command may have, beside --help
COMMON = {"--json", "--bootstrap", "--external", "--group", "--sink", "--help"}
OF_TOPICS = {"--expected-sql", "--as-state", "--since", "--spark-master", "--spark-conf"}
OF_TRANSACTIONS = {"--rows-per-record", "--timers", "--shared-sink"}
OF_FOLLOWING = {
    *("--for", "--overdue", "--every", "--from", "--window", "--metrics", "--metrics-file", "--state", "--settle"),
}
OF_A_MODEL = {"--model", "--source", "--identity", "--routing"}
OF_FOLDERS = {"--landed", "--landing"}
OF_TABLES = {"--key", "--order", "--columns", "--packages"}
OPTIONS = {
    "topics": COMMON | OF_TOPICS | OF_A_MODEL | OF_FOLDERS,
    "tables": (COMMON - {"--group"}) | {"--source"} | {"--expected-sql", "--spark-conf", "--spark-master"} | OF_TABLES,
    "transactions": COMMON | OF_TRANSACTIONS | OF_FOLDERS,
    "follow": COMMON | OF_FOLLOWING | OF_A_MODEL,
}
ALL = set().union(*OPTIONS.values())


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_a_command(name):
    """Its help shows each of them once, no more than one can read, and none of another command's."""
    audit: Any = get_command(main.app).commands["audit"]  # type: ignore[attr-defined] # a group has them
    command = audit.commands[name]
    with audit.make_context("chaos audit", [name]) as group, command.make_context(name, [], parent=group) as context:
        shown = [option for parameter in command.get_params(context) for option in parameter.opts]

    assert sorted(shown) == sorted(OPTIONS[name])
    assert len(shown) - 1 <= MOST


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in OPTIONS for option in sorted(ALL - OPTIONS[name])])
def test_an_option_of_another_command_is_refused(capsys, name, option):
    """One line that names it, exit code 2."""
    code = main._ended(["audit", name, option, "x"])

    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"chaos audit {name}: No such option: {option}")


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("--landed logs --model identity", "topics"),
        ("--json -", "topics"),
        ("--transactions --landed logs", "transactions"),
        ("--landed logs --transactions", "transactions"),
        ("--bootstrap h:1 --follow --for 1s", "follow"),
        ("--follow --transactions", "follow"),
    ],
)
def test_the_former_command_says_what_to_write_now(capsys, words, now):
    """One line, exit code 2."""
    code = main._ended(["audit", *words.split()])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"chaos audit {now} --help" in keep(err)


@pytest.mark.parametrize(
    "words", ["", "plan --follow", "audit", "audit --help", "audit topics --model identity", "audit follow"]
)
def test_nothing_else_is_the_former_command(words):
    assert main._former_audit(words.split()) == ""
