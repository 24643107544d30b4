"""Every command on a page is one that this version understands; none is run."""

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from _pytest.mark.expression import Expression
from typer.main import get_command

from chaos.cli.main import app
from chaos.scenario.load import load
from tests.unit.docs.pages import PAGES, ROOT, Block, Command, blocks, commands, inline

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
OPTION = re.compile(r"--[a-z][a-z-]*")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def block(text: str, info: str = "") -> Block:
    """A block of a page that is nowhere."""
    (only,) = blocks(ROOT / "page.md", f"A page.\n\n```{info}\n{text}\n```\n")
    return only


def idle(command):
    """The command with an action that does nothing."""
    command.callback = lambda **_: None
    for each in getattr(command, "commands", {}).values():
        idle(each)
    return command


def wrong_for_chaos(words: Sequence[str]) -> str:
    """The error of `chaos`' parser for these words; "" if it understands them. Any folder stands for that of a run."""
    there = [str(ROOT) if word.startswith("runs") else word for word in words]
    try:
        with contextlib.redirect_stdout(io.StringIO()), idle(get_command(app)).make_context("chaos", there) as context:
            context.command.invoke(context)
    except typer.Exit:  # of --help
        return ""
    except typer.TyperException as error:
        return error.format_message() or "a command is missing"
    return ""


def wrong_for_pytest(words: Sequence[str], config: pytest.Config) -> str:
    """The error of pytest's parser, with the plugin's options, for these words; "" if it understands them."""
    try:
        parsed = config._parser.parse(words)
        Expression.compile(parsed.markexpr or "chaos")
    except (pytest.UsageError, SyntaxError) as error:
        return str(error)
    files = [typed.partition("::")[0] for typed in parsed.file_or_dir]
    gone = [file for file in files if file.startswith(("examples/", "tests/")) and not (ROOT / file).exists()]
    return f"there is no {', '.join(gone)}" if gone else ""


def wrong(command: Command, config: pytest.Config) -> str:
    """The mistake of a command; "" if it has none."""
    program, *words = command.words
    match program:
        case "chaos":
            return wrong_for_chaos(words)
        case "pytest":
            return wrong_for_pytest(words, config)
        case _:
            targets = [word for word in words if not word.startswith("-") and "=" not in word]
            return ", ".join(f"there is no target {target}" for target in targets if target not in TARGETS)


def misnamed(command: Command, config: pytest.Config) -> str:
    """The subcommand or the options of a command in a sentence that do not exist; what it leaves out is not asked."""
    program, *words = command.words
    if program != "chaos":
        return wrong(command, config)
    known = get_command(app)
    while words and hasattr(known, "commands") and OPTION.fullmatch(words[0]) is None:
        if words[0] not in known.commands:
            return f"there is no command {words[0]}"
        known = known.commands[words.pop(0)]
    there = {option for parameter in known.params for option in parameter.opts} | {"--help"}
    return ", ".join(f"there is no option {word}" for word in words if OPTION.fullmatch(word) and word not in there)


def mistakes(found: Sequence[Command], say, config: pytest.Config) -> list[str]:
    """Place, command and what is wrong with it."""
    return [f"{command}: {said}" for command in found if (said := say(command, config))]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_command_of_a_page_can_be_typed(page: Path, pytestconfig: pytest.Config) -> None:
    """A block that must be shown though it cannot is marked: `<!-- not run -->` before it."""
    found = [command for block in blocks(page) for command in commands(block)]

    assert mistakes(found, wrong, pytestconfig) == []


@pytest.mark.parametrize("page", [page for page in PAGES if "adr" not in page.parts], ids=name)  # an ADR is not mended later
def test_a_command_in_a_sentence_has_options_that_exist(page: Path, pytestconfig: pytest.Config) -> None:
    assert mistakes(list(inline(page)), misnamed, pytestconfig) == []


def test_the_pages_have_commands_of_each_program() -> None:
    """A reader that finds none would be content with all."""
    found = [command.words[0] for page in PAGES for block in blocks(page) for command in commands(block)]

    assert min(found.count(program) for program in ("chaos", "make", "pytest")) >= 5


def test_a_tag_of_a_page_is_one_of_the_scenarios(pytestconfig: pytest.Config) -> None:
    """`pytest -m "chaos and smoke"` selects something in the files that it names, or in those of this repository."""
    patterns = ("scenarios.yaml", "examples/**/scenarios.yaml", "museum/*/scenarios.yaml", "conformance/scenarios.yaml")
    files = {path: load(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))}
    without = []
    typed = (command for page in PAGES for block in blocks(page) for command in commands(block))
    for command in (one for one in typed if one.words[0] == "pytest"):
        parsed = pytestconfig._parser.parse(command.words[1:])
        named = [ROOT / one for one in parsed.file_or_dir if ROOT / one in files] or [ROOT / "scenarios.yaml"]
        tags = [{"chaos", *scenario.tags} for path in named for scenario in files[path].scenarios]
        selected = Expression.compile(parsed.markexpr or "chaos")
        if not any(selected.evaluate(lambda tag, /, own=frozenset(own), **_: tag in own) for own in tags):
            without.append(str(command))

    assert without == []


@pytest.mark.parametrize(
    "line",
    [
        "chaos audit topics --bootstrap HOST:PORT --sink-topic copies",
        "chaos audit topic --help",
        "chaos judge",
        "chaos plan --seed many",
        "KAFKA=x chaos doctor --container   # a comment",
        "pytest -m chaos --chaos-runtime docker",
        "pytest -m chaos --chaos-runtimes containers",
        'pytest -m "chaos and"',
        ".venv/bin/pytest -m chaos examples/order/scenarios.yaml",
        "make chaos-container",
        "chaos audit follow --bootstrap HOST:PORT \\\n    --from then --until 8h",
        "chaos audit topics [--group G] [--model-of identity]",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(line: str, pytestconfig: pytest.Config) -> None:
    (command,) = commands(block(line))

    assert wrong(command, pytestconfig)


@pytest.mark.parametrize(
    "line",
    [
        "chaos judge runs/20261126T002601Z-stock-sink-executors-crashed",
        "chaos audit --help",
        'chaos init --kind command -- python3 copy.py "{bootstrap}" --any',
        "chaos audit transactions --group G [--sink X | --shared-sink X]",
        "chaos audit topics --source orders | head -1",
        'pytest -m "chaos and smoke" … --chaos-repeat 3 -k name',
        "make report RESULTS=allure-results-containers",
    ],
)
def test_a_command_that_can_be_typed_is_not_blamed(line: str, pytestconfig: pytest.Config) -> None:
    (command,) = commands(block(line))

    assert wrong(command, pytestconfig) == ""


@pytest.mark.parametrize("words", ["chaos audits", "chaos audit --routing any", "chaos table RUNS --html", "make integrations"])
def test_a_name_in_a_sentence_that_does_not_exist_is_noticed(words: str, pytestconfig: pytest.Config) -> None:
    assert misnamed(Command("page.md:1", tuple(words.split())), pytestconfig)


def test_what_is_marked_or_no_command_is_not_asked() -> None:
    """Output of commands, other languages, and blocks with the mark are skipped."""
    (marked,) = blocks(ROOT / "page.md", "<!-- not run -->\n\n```\nchaos nothing\n```\n")

    assert list(commands(marked)) == []
    assert list(commands(block("chaos nothing", "text"))) == []
    assert list(commands(block("INVALID: it's chaos\nkafka-topics.sh --list"))) == []


def test_a_place_is_the_line_of_the_command() -> None:
    found = commands(block("chaos doctor\n\nchaos audit follow \\\n  --for 8h\nchaos plan"))

    assert [command.place for command in found] == ["page.md:4", "page.md:6", "page.md:8"]
