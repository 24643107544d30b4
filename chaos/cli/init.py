"""`chaos init`: write a first scenarios file for the current repository, which runs as it is and explains itself.

On a terminal it asks for values that the flags leave open. It loads the text like every scenarios file before it writes it, so
`chaos plan` can read the file. Beside the file it writes its JSON Schema, for editors; with `--ci`, a workflow too.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import typer

from chaos.cli import init_ci, init_files, init_text
from chaos.cli.init_ci import Wanted
from chaos.cli.init_files import NAME, InitUsageError
from chaos.cli.init_text import COMMAND, SCHEMA, SPARK_SUBMIT, Declaration
from chaos.common.errors import ScenarioError
from chaos.contract.placeholders import check, names_in
from chaos.grammar.base import did_you_mean
from chaos.install.artifacts import Echo
from chaos.scenario.describe import json_schema
from chaos.scenario.load import load_text
from chaos.scenario.pipelines import CommandPipeline, SparkSubmitPipeline
from chaos.scenario.pipelines.spark_submit import OF_NAMES

KINDS = (SPARK_SUBMIT, COMMAND)
_INTERRUPTED, _WRONG_USAGE = 130, 2
_PLACEHOLDERS = {SPARK_SUBMIT: SparkSubmitPipeline.PLACEHOLDERS, COMMAND: CommandPipeline.PLACEHOLDERS}
_ARGUMENTS = "{bootstrap} {source} {sink} {checkpoint}"
_QUOTED = '"{bootstrap}" "{source}" "{sink}" "{checkpoint}"'
_MADE_BY_RUNS = ("runs/", "allure-results/")
_ELSEWHERE = "move it away, or name another with --file"
_OR_ALONE = "leave the pipeline out for a workflow alone, move it away, or name another with --file"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Answers:
    """Values of the flags; an empty one is asked for, or has a default.

    Attributes:
        words: the arguments of a job, or the command.
        environment: each ``NAME=VALUE``.
        reads, writes: names of the topics in the file; never asked, as every run has topics of its own.
    """

    kind: str = ""
    application: str = ""
    main_class: str = ""
    words: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    group: str = ""
    reads: str = "input"
    writes: str = "output"


def main(given: Answers, file: Path, wanted: Wanted, echo: Echo) -> int:
    """Write the file, and the workflow if one is wanted, and say what to type next.

    An existing file stays: then only the workflow is written, unless a pipeline was given, too.

    Returns:
        The exit code: 0 written, 2 wrong usage, 130 interrupted during a question, with nothing written.
    """
    try:
        for line in _written(given, file, wanted):
            echo(line)
    except InitUsageError as error:
        typer.echo(f"chaos init: {error}", err=True)
        return _WRONG_USAGE
    except typer.Abort:
        return _INTERRUPTED
    return 0


def _written(given: Answers, file: Path, wanted: Wanted) -> Iterator[str]:
    """Write the requested files; yield the lines to print."""
    workflow = init_ci.workflow(wanted, file)
    is_alone = workflow is not None and given == Answers() and os.path.lexists(file)
    if is_alone:
        init_ci.check_readable(file)
    else:
        init_files.check_place(file, _OR_ALONE if workflow else _ELSEWHERE)
        yield from _write(file, init_text.text(_completed(given, file.parent)))
    if workflow:
        yield from workflow.write()
    if not is_alone:
        yield from _next(file)


def is_terminal() -> bool:
    """Whether somebody can answer questions."""
    return sys.stdin.isatty()


# the file ------------------------------------------------------------------------------------------------------------------


def _write(file: Path, text: str) -> Iterator[str]:
    """Write the file, and its schema beside it; yield a line for each."""
    try:
        load_text(text, file)
    except ScenarioError as error:
        raise InitUsageError(f"these values make no valid scenarios file, so none was written:\n{error}") from None
    init_files.check_place(file, _ELSEWHERE)  # somebody may have written it while the questions were answered
    init_files.write(file, text, "name another place with --file")
    yield f"wrote {file}: four scenarios, each with a comment that explains what it shows"
    schema = file.parent / SCHEMA
    if not os.path.lexists(schema):
        init_files.write(schema, json.dumps(json_schema(), indent=1), f"make it later: chaos schema > {schema}")
        yield f"wrote {schema}: the schema of that file, for your editor"


# flags and questions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Question(Generic[_Value]):
    """One question about a pipeline.

    Attributes:
        place: the flag, as messages name it.
        text: the question.
        checked: turns an answer into a value; a ValueError says what is wrong with it.
        default: the value of an empty answer; None if an empty answer is not allowed.
    """

    place: str
    text: str
    checked: Callable[[str], _Value]
    default: str | None = None

    def answer(self, given: str, *, asks: bool) -> _Value:
        """Return the value of the flag, or else of the user's answer, or else of the default."""
        if given or not asks:
            try:
                return self.checked(given or self.default or "")
            except ValueError as error:
                raise InitUsageError(f"{self.place}: {error}") from None

        def answered(text: str) -> _Value:
            try:
                return self.checked(text)
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None  # typer shows it, and asks again

        value: _Value = typer.prompt(self.text, default=self.default, value_proc=answered, show_default=bool(self.default))
        return value


def _completed(given: Answers, folder: Path) -> Declaration:
    """Complete the declaration by questions, and check it; paths are relative to the folder of the file."""
    missing = list(_missing(given))
    asks = bool(missing) and is_terminal()
    if missing and not asks:
        raise InitUsageError(f"missing: {'; '.join(missing)} (on a terminal, chaos init asks for them)")
    kinds = _Question("--kind", f"Kind of pipeline: {' or '.join(KINDS)}", _one_of(KINDS), SPARK_SUBMIT)
    kind = kinds.answer(given.kind, asks=asks)
    application = main_class = ""
    if kind == SPARK_SUBMIT:
        job = _Question("--application", "Its script or jar, as a path from here", lambda text: _application(text, folder))
        application = job.answer(given.application, asks=asks)
    if application.endswith(".jar"):
        main_class = _Question("--main-class", "The class whose main is the job", str).answer(given.main_class, asks=asks)
    _refuse_what_does_not_fit(given, kind, application)
    topics = (given.reads, given.writes)
    environment = dict(_variable(text, kind, topics) for text in given.environment)
    own = _Question(
        "the words after --",
        "Its arguments" if kind == SPARK_SUBMIT else "The command, with {bootstrap}, {source} and {sink} in it",
        lambda text: _words(text, kind, environment, folder, topics),
        _ARGUMENTS if kind == SPARK_SUBMIT else None,
    )
    words = own.answer(shlex.join(given.words), asks=asks)
    groups = _Question(
        "--group",
        "Its consumer group" if kind == COMMAND else "Its consumer group; empty if only its checkpoint has its position",
        lambda text: _group(text, topics),
        None if kind == COMMAND else "",
    )
    group = groups.answer(given.group, asks=asks)
    return Declaration(kind, words, group, environment, *topics, application, main_class)


def _missing(given: Answers) -> Iterator[str]:
    """Yield the missing flags without which a pipeline of this kind cannot be declared."""
    if not given.kind:
        yield f"--kind {' or '.join(KINDS)}"
        return
    if given.kind == SPARK_SUBMIT:
        if not given.application:
            yield "--application PATH"
        elif given.application.endswith(".jar") and not given.main_class:
            yield "--main-class NAME, the class whose main is the job"
        if not given.words:
            yield f"the arguments of the job, after all flags: -- {_QUOTED}"
        return
    if not given.group:
        yield "--group NAME, its consumer group"
    if not given.words:
        yield "the command, after all flags: -- WORD …"


def _refuse_what_does_not_fit(given: Answers, kind: str, application: str) -> None:
    if kind == COMMAND and (given.application or given.main_class):
        flag = "--application" if given.application else "--main-class"
        raise InitUsageError(f"{flag}: is for --kind {SPARK_SUBMIT}; write all words of a command after --")
    if given.main_class and not application.endswith(".jar"):
        raise InitUsageError(f"--main-class: belongs to a jar, and {application} is not a jar; leave it out")


def _one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    def checked(text: str) -> str:
        if text not in known:
            raise ValueError(f"{text!r} is not known{did_you_mean(text, known)}; write {' or '.join(known)}")
        return text

    return checked


def _variable(text: str, kind: str, topics: tuple[str, str]) -> tuple[str, str]:
    """Split ``NAME=VALUE``, and check the value.

    Raises:
        InitUsageError: the text has another form, or an unknown placeholder.
    """
    name, between, value = text.partition("=")
    if not (name and between and value):
        raise InitUsageError(f"--environment {text}: write NAME=VALUE")
    try:
        check(value, [*(known for known in _PLACEHOLDERS[kind] if known != "partition"), *topics])
    except ValueError as error:
        raise InitUsageError(f"--environment {name}: {error}") from None
    return name, value


def _application(text: str, folder: Path) -> str:
    if not _is_file(text):
        raise ValueError(f"{text!r} is not a file; give its path from here, {Path.cwd()}")
    return text if Path(text).is_absolute() else _from(folder, text)


def _words(text: str, kind: str, environment: Mapping[str, str], folder: Path, topics: tuple[str, str]) -> tuple[str, ...]:
    words = shlex.split(text)
    for word in words:
        if not word:
            raise ValueError("one word is empty; leave it out")
        check(word, (*_PLACEHOLDERS[kind], *topics))
    _check_complete(words, kind, environment, topics)
    if kind == SPARK_SUBMIT:
        return tuple(_placed(word, folder) for word in words)
    program, *others = words
    if "{" not in program and shutil.which(program) is None:
        raise ValueError(f"{program!r} is not an executable program; check its spelling, or give its path")
    whole = _placed(program, folder) if "/" in program else program
    return (whole, *(_placed(word, folder) for word in others))


def _check_complete(words: Iterable[str], kind: str, environment: Mapping[str, str], topics: tuple[str, str]) -> None:
    """Check for the placeholders without which a program would not use the topics and brokers of a run."""
    in_words = {name for word in words for name in names_in(word)}
    anywhere = in_words | {name for value in environment.values() for name in names_in(value)}
    anywhere |= {role for role, topic in zip(("source", "sink"), topics, strict=True) if topic in anywhere}
    lacking = [name for name in ("bootstrap", "source", "sink") if name not in anywhere]
    if kind == SPARK_SUBMIT and "checkpoint" not in in_words:
        lacking.append("checkpoint")
    if lacking:
        names = ", ".join(f"{{{name}}}" for name in lacking)
        meaning = "each run sets them to the address of Kafka, the topic to read, the topic to write"
        more = ", the path of the checkpoint" if kind == SPARK_SUBMIT else ""
        raise ValueError(f"{names} missing; {meaning}{more}; a variable can hold one: --environment NAME={{{lacking[0]}}}")


def _group(text: str, topics: tuple[str, str]) -> str:
    """Check the group: it must be known before a run begins, so that its positions can be read."""
    check(text, (*OF_NAMES, *topics))
    return text


def _placed(word: str, folder: Path) -> str:
    """Put a word that names a local file below ``{project}``, because a pipeline runs in the folder of its run."""
    return f"{{project}}/{_from(folder, word)}" if not Path(word).is_absolute() and _is_file(word) else word


def _is_file(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises OSError for a word that is too long


def _from(folder: Path, path: str) -> str:
    return os.path.relpath(Path(path).absolute(), folder.resolve())


# next steps ----------------------------------------------------------------------------------------------------------------


def _next(file: Path) -> Iterator[str]:
    path = shlex.quote(str(file))
    named = "" if file == Path(NAME) else f" --scenarios {path}"
    steps = {
        "chaos doctor": "checks what this machine lacks, and says how to mend it",
        f"chaos plan{named}": "shows what each scenario breaks, and when; starts nothing",
        f"pytest -m chaos {init_ci.as_typed(str(file))}": "runs them, one after the other",
    }
    width = max(map(len, steps))
    yield "what to type next:"
    for typed, meaning in steps.items():
        yield f"  {typed:{width}}  {meaning}"
    if file.name != NAME:
        yield f"to leave -o out, write into pytest's ini: chaos_files = {file}"
    if seen := [name for name in _MADE_BY_RUNS if _is_seen_by_git(name)]:
        yield f".gitignore lacks {' and '.join(seen)}: runs make {'them' if len(seen) > 1 else 'it'} here"


def _is_seen_by_git(name: str) -> bool:
    """Whether git would show a folder of this name here; False without a repository or git."""
    answer = init_files.git("check-ignore", "--quiet", name)
    return answer is not None and answer.returncode == 1
