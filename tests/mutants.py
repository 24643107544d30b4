"""Mutation testing of `verifiers`: each small change of its code must make a planted test fail.

    make mutants        # all of them, in two processes: hours
    .venv/bin/python tests/mutants.py [--reach] [--shard 0/2] [--only islands,gaps] [--budget SECONDS] [--folder mutants]
    .venv/bin/python tests/mutants.py --sample 200 --seed 1 --budget 25    # some of them, by chance

mutmut makes the mutants. The tests run here, in one process for all of them, since to start Spark for each would take days:
those that run the mutated statement take turns, the likeliest first, until one fails. A test kills only what it passes
without: after some mutants, each test that killed one of them must pass. If one does not, perhaps because Spark's JVM has
ended, none of these mutants is judged, and another process goes on with a new JVM. What is known is appended to files in the
folder, and what they say already is not asked again, so that a run can be broken off and resumed; remove the folder when
`verifiers` or a test has changed (a new one is asked of what is not judged yet).

    copy-0            of `verifiers`, with all mutants in it
    reach-0.json      of each test: seconds, and which lines of that copy it runs
    results-0.jsonl   of each mutant: killed (by which test), timeout (a test took ten times as long, and 20 s), survived, or
                      no tests (none runs the statement); ``tests`` ran, of ``of``: with --budget no test begins later;
                      ``case``: only letters of a text are in another case, and Spark's SQL distinguishes none
"""

import argparse
import ast
import copy
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple, TextIO

import pytest
from _pytest.runner import runtestprotocol
from coverage import Coverage
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from pluggy import PluggyTeardownRaisedWarning

from chaos.common import clock

_ROOT = Path(__file__).parents[1]
_TIMES, _GRACE_S = 10, 20.0
_QUICK_S = 5.0
_WITHOUT_S = 900.0
_IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
_CASE_S = 4.0  # a test that compares a text for people is quick
_LIKELY = 3  # kills: a test with as many is asked first
_TOGETHER = 16  # mutants at most are judged before the tests that killed them must pass
_MUTANTS = "mutants.json"
_BLOCKS = ("body", "handlers", "orelse", "finalbody")
_AGAIN = 75  # the code of a process that another is to follow: EX_TEMPFAIL of sysexits.h


class TooLongError(BaseException):
    """Raised by a timer; no test catches it."""


class Mutant(NamedTuple):
    """One change.

    Attributes:
        case: whether only the case of letters differs.
        file: in the copy.
        lines: those of the statement; all of the function's where its head is changed, of which every call makes use.
    """

    case: bool
    file: str
    lines: Sequence[int]


class Mutants:
    """A pytest plugin whose test loop judges mutants."""

    def __init__(self, mutants: Mapping[str, Mutant], words: argparse.Namespace) -> None:
        self._mutants = mutants
        self._words = words
        self._folder = Path(words.folder)
        self._shard, self._shards = (int(part) for part in words.shard.split("/"))
        self._seconds: dict[pytest.Item, float] = {}
        self._lines: dict[pytest.Item, Mapping[str, frozenset[int]]] = {}
        self._kills = Counter[tuple[str, str]]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of a run of the tests.

        Raises:
            Interrupted: a test cannot be imported; without it more mutants would seem to be alive.
        """
        if session.testsfailed:
            raise session.Interrupted("errors during collection")
        items = session.items
        reach = self._known(items)
        if self._words.reach:
            return True
        for item in items:
            self._seconds[item] = reach[item.nodeid]["seconds"]
            self._lines[item] = {file: frozenset(lines) for file, lines in reach[item.nodeid]["lines"].items()}
        judged = set()
        for path in self._folder.glob("results-*.jsonl"):
            for record in map(json.loads, path.read_text().splitlines()):
                judged.add(record["mutant"])
                self._count(record)
        with (self._folder / f"results-{self._shard}.jsonl").open("a") as file:
            self._judge_all([name for name in self._asked() if name not in judged], {item.nodeid: item for item in items}, file)
        return True

    def _judge_all(self, names: Sequence[str], items: Mapping[str, Any], file: TextIO) -> None:
        """One, one, two, four together, and so on: a process that must end has judged some, unless the first one ended it."""
        written = 0
        records: list[Mapping] = []
        if names:  # Spark's start does not count as time of the first test
            self._require_to_pass(
                min((item for item in items.values() if "spark" in item.fixturenames), key=self._seconds.__getitem__),
                again=False,
            )
        for name in names:
            records.append(self._judge(name))
            if len(records) >= min(max(written, 1), _TOGETHER) or records[-1]["result"] == "timeout" or name == names[-1]:
                for killer in {record["by"] for record in records if "by" in record}:
                    self._require_to_pass(items[killer], again=written > 0)
                file.writelines(json.dumps(record) + "\n" for record in records)
                file.flush()
                written, records = written + len(records), []

    def _count(self, record: Mapping) -> None:
        if "by" in record:
            self._kills[_function(record["mutant"]), record["by"]] += 1

    def _asked(self) -> list[str]:
        """The mutants of this process; a sample keeps the order of all, so that changes of letter case stay last."""
        names = list(self._mutants)
        size = min(self._words.sample or len(names), len(names))
        chosen = sorted(Random(self._words.seed).sample(range(len(names)), size))
        return [names[place] for place in chosen][self._shard :: self._shards]

    def _known(self, items: Sequence[pytest.Item]) -> Mapping[str, Mapping]:
        """Which lines each test runs, and how long it takes in the first process that asks."""
        path = self._folder / f"reach-{self._shard}.json"
        parts = {found: json.loads(found.read_text()) for found in self._folder.glob("reach-*.json")}
        known: dict[str, Mapping] = dict(chain.from_iterable(part.items() for part in parts.values()))
        own: dict[str, Mapping] = parts.get(path, {})
        asked = items[self._shard :: self._shards] if self._words.reach else items
        new = [item for item in asked if item.nodeid not in known]
        tracer = Coverage(data_file=None, include=[f"{self._words.copy}/*"])
        with tracer.collect() if new else nullcontext():
            for item in new:
                tracer.switch_context(item.nodeid)
                began_s = clock.monotonic_s()
                self._require_to_pass(item, again=False)
                seconds, found = clock.monotonic_s() - began_s, tracer.get_data()
                found.set_query_context(item.nodeid)
                files = {str(Path(file).relative_to(self._words.copy)): file for file in found.measured_files()}
                lines = {place: run for place, file in files.items() if (run := found.lines(file))}
                own[item.nodeid] = {"seconds": seconds, "lines": lines}
                draft = path.with_suffix(".draft")  # the other process never reads half of it
                draft.write_text(json.dumps(own))
                draft.replace(path)
        return known | own

    def _judge(self, name: str) -> Mapping:
        function, module, mutant = _function(name), name.split(".")[-2], self._mutants[name]

        instances = Counter[str]()
        which = {}  # of the instances of a test, which are likely to kill the same
        for item in sorted(filter(partial(self._runs, mutant), self._lines), key=self._seconds.__getitem__):
            test = item.nodeid.partition("[")[0]
            which[item] = instances[test]
            instances[test] += 1

        def unlikely(item: Any) -> tuple:
            kills = min(self._kills[function, item.nodeid], _LIKELY)
            # another module's, or one that its file imports from another's
            foreign = module not in item.nodeid or item.function.__module__ != item.module.__name__
            return (self._seconds[item] > _QUICK_S, -kills, foreign, which[item], self._seconds[item])

        tests = sorted(which, key=unlikely)
        budget_s = min(self._words.budget, _CASE_S) if mutant.case else self._words.budget
        common = {"mutant": name, "case": mutant.case, "of": len(tests)}
        began_s = clock.monotonic_s()
        for ran, item in enumerate(tests, 1):
            if budget_s and clock.monotonic_s() - began_s > budget_s:
                return {**common, "result": "survived", "tests": ran - 1}
            with active(name):
                failed = self._fails(item, _TIMES * self._seconds[item] + _GRACE_S)
            if failed is not False:
                record = {**common, "result": "timeout" if failed is None else "killed", "by": item.nodeid, "tests": ran}
                self._count(record)
                return record
        return {**common, "result": "survived" if tests else "no tests", "tests": len(tests)}

    def _runs(self, mutant: Mutant, item: pytest.Item) -> bool:
        lines = self._lines[item].get(mutant.file, frozenset())
        return not lines.isdisjoint(mutant.lines)

    def _require_to_pass(self, item: pytest.Item, *, again: bool) -> None:
        """Were Spark gone, every test would fail, whatever the mutant; then this process ends.

        Args:
            again: another process may do better.
        """
        why: list[str] = []
        if self._fails(item, _WITHOUT_S, why) is not False:
            reason = "\n".join(why) or f"it took more than {_WITHOUT_S:g} s"
            sys.stderr.write(f"{item.nodeid} fails without a mutant, so what it was to judge is not judged:\n{reason}\n")
            os._exit(_AGAIN if again else 1)  # what is left of the JVM's connection might never answer the end of the tests

    def _fails(self, item: pytest.Item, limit_s: float, why: list[str] | None = None) -> bool | None:
        """None where it took too long. To what comes next only the folder is common: fixtures of the session are kept.

        Args:
            why: takes the texts of what failed.
        """
        folder: Any = item.listchain()[1]
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            failed = [report for report in runtestprotocol(item, log=False, nextitem=folder) if report.failed]
            if why is not None:
                why += [report.longreprtext for report in failed]
            return bool(failed)
        except TooLongError:
            return None
        except PluggyTeardownRaisedWarning as warning:  # the timer ran out while pytest made its report
            if TooLongError.__name__ not in str(warning):
                raise
            return None
        except AssertionError as left:  # by a test whose fixtures the timer interrupted
            if why is None:
                raise
            why.append(f"pytest cannot begin the test: {left}")
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TooLongError


@contextmanager
def active(mutant: str) -> Iterator[None]:
    """While the block lasts."""
    set_mutant_under_test(mutant)
    try:
        yield
    finally:
        set_mutant_under_test("")


def mutate(folder: Path, only: str) -> Mapping[str, Mutant]:
    """A copy of `verifiers` that holds all mutants, of which one can be made active; by name, those of case last."""
    mutants = {}
    for path in sorted((_ROOT / "verifiers").rglob("*.py")):
        place = path.relative_to(_ROOT)
        made = mutate_file_contents(str(path), path.read_text())
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(made.code)
        if not only or path.stem in only.split(","):
            functions = {node.name: node for node in ast.walk(ast.parse(made.code)) if isinstance(node, ast.FunctionDef)}
            for name in made.mutant_names:
                original, mutant = functions[f"{_function(name)}__mutmut_orig"], functions[name]
                case = _folded(original) == _folded(mutant)
                full = f"{'.'.join(place.with_suffix('').parts)}.{name}"
                mutants[full] = Mutant(case, str(place), sorted(_changed(original, mutant)))
    return dict(sorted(mutants.items(), key=lambda item: item[1].case))


def _changed(original: ast.stmt, mutant: ast.stmt) -> Iterator[int]:
    """Lines of the original: of the statement that differs; of a compound one only its head, or what differs within."""
    inner, others = ([one for name in _BLOCKS for one in getattr(node, name, ())] for node in (original, mutant))
    begin, end = original.lineno, original.end_lineno + 1
    if len(inner) != len(others):
        yield from range(begin, end)
    elif _head(original) == _head(mutant):
        yield from chain.from_iterable(map(_changed, inner, others))
    elif isinstance(original, ast.FunctionDef):  # its head is run by an import, and all of it is meant by a call
        yield from range(inner[0].lineno, end)
    else:
        yield from range(begin, max(begin + 1, inner[0].lineno) if inner else end)


def _head(node: ast.AST) -> str:
    """The part of a statement outside its block; for a function, without its name."""
    head = copy.copy(node)
    for name in _BLOCKS:
        if hasattr(head, name):
            setattr(head, name, [])
    if isinstance(head, ast.FunctionDef):
        head.name = ""
    return ast.dump(head)


def _function(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


def _folded(function: ast.FunctionDef) -> str:
    """Its code, the texts in lower case."""
    folded = copy.deepcopy(function)
    for node in ast.walk(folded):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = node.value.lower()
    folded.name = ""
    return ast.dump(folded)


def main() -> int:
    """Judge what is not judged yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reach", action="store_true", help="judge nothing, only find out what each test runs")
    parser.add_argument("--shard", default="0/1", help="which part of how many")
    parser.add_argument("--only", default="", help="modules, apart by commas")
    parser.add_argument("--budget", type=float, default=0.0, help="seconds for a mutant; without it, all tests that run it")
    parser.add_argument("--sample", type=int, default=0, help="judge so many, taken by chance; without it, all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--folder", default="mutants")
    parser.add_argument("--copy", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.copy:
        return _run(words)
    folder = Path(words.folder) / f"copy-{words.shard.partition('/')[0]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MUTANTS).write_text(json.dumps(mutate(folder, words.only)))
    code = _AGAIN
    while code == _AGAIN:
        code = subprocess.run([sys.executable, *sys.argv, "--copy", str(folder.resolve())], check=False).returncode
    return code


def _run(words: argparse.Namespace) -> int:
    mutants = {name: Mutant(*fields) for name, fields in json.loads((words.copy / _MUTANTS).read_text()).items()}
    sys.path[:0] = [str(words.copy), str(_ROOT)]
    quiet = ("-q", "--tb", "native", "-p", "no:cacheprovider", "-p", "no:logging", "--timeout", "0", "-W", _IMPORTED)
    return pytest.main([str(_ROOT / "tests/planted"), *quiet], plugins=[Mutants(mutants, words)])


if __name__ == "__main__":
    sys.exit(main())
