"""`docs/reference.md`: every key, trigger, fault and verifier, from their classes and docstrings.

It imports more than fifteen modules: the page has a section of each part of the grammar.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from itertools import groupby
from typing import Any, get_args

from pydantic import BaseModel

from chaos.contract.placeholders import MEANINGS
from chaos.faults.base import FaultBase
from chaos.faults.registry import FAULTS
from chaos.grammar import targets, triggers
from chaos.grammar.base import Declared
from chaos.loader.declaration import PLACEHOLDERS as OF_LOADER
from chaos.scenario import matrix
from chaos.scenario.declared import NONE
from chaos.scenario.describe import Listed, listing, schema_of
from chaos.scenario.docstrings import definitions, literals, markdown, meaning, prose, table
from chaos.scenario.expected import ExpectedRows, RowsPerRecord
from chaos.scenario.model import Scenario, ScenarioFileModel
from chaos.scenario.pipelines import KINDS, InGroup
from chaos.scenario.pipelines.packages import OF_PACKAGES
from chaos.scenario.random_faults import Pick, RandomFaults
from chaos.scenario.rows import OF_LOADERS
from chaos.scenario.services import ServiceSpec
from chaos.scenario.sinks import OF_JOBS, TopicSink
from chaos.scenario.sinks.jdbc import JdbcTable
from chaos.scenario.system import KafkaSpec, SparkSpec, SystemSpec
from chaos.scenario.topics import TopicSpec
from chaos.scenario.verifiers import (
    ANOMALIES_OF_PROGRESS,
    BY_TRANSACTIONS,
    GUARANTEE_OF_PROGRESS,
    NAMES,
    OF_LOGS,
    PROGRESS,
    TRANSACTIONS,
)
from chaos.scenario.workload import AlsoFilled, Producer, Workload
from verifiers.base import Verifier
from verifiers.transactions.verifier import Transactions

_INTRODUCTION = """\
# Reference of scenarios files

`chaos reference` makes this page from the classes that read a scenarios file; it also prints the faults and verifiers of other
installed packages. [The guides](guides/writing-scenarios.md) explain the keys, with examples.

A key without a default may be left out; its meaning says what holds then, or nothing takes its place. A duration has the unit
`ms`, `s` or `m`, and is an hour at most. A size has the unit `B`, `KB` (1000 bytes) or `MB`, and is 1 MB at most."""
# The keys of a matrix have no class of their own; the docstring of the module is about a whole scenario.
_OF_A_MATRIX = "`matrix` crosses one declaration into many scenarios, one for each combination of the words of its axes."
_SECTIONS: Mapping[str, Mapping[str, type[Declared]]] = {
    "The file": {
        "": ScenarioFileModel,
        "`system`": SystemSpec,
        "`system: kafka`": KafkaSpec,
        "`system: spark`": SparkSpec,
        "`system: services`": ServiceSpec,
        "`topics`": TopicSpec,
    },
    "Pipelines": {
        **{f"`kind: {name}`": kind for name, kind in KINDS.items() if name != NONE},
        "`packages`": OF_PACKAGES.whole,
        "`sink`": TopicSink,
        "`sink` of a Spark job": OF_JOBS.whole,
        "`sink: jdbc`": JdbcTable,
        "`positions`": InGroup,
        "`expected`": ExpectedRows,
        "`rows_per_record`": RowsPerRecord,
    },
    "Scenarios": {
        "": Scenario,
        "`workload`": Workload,
        "`workload: also`": AlsoFilled,
        "`workload: producer`": Producer,
        "`workload: rows`": OF_LOADERS.whole,
        "`random`": RandomFaults,
        "`random: pick`": Pick,
    },
}
_TRIGGERS: Mapping[str, type[Declared]] = {
    next(iter(schema_of(kind)["properties"])): kind for kind in get_args(triggers.Trigger)
}
_COLUMNS = ("key", "value", "default", "meaning")
_PLURALS = {"text": "texts", "name of a topic": "names of topics", "lower-case word": "lower-case words"}
_OF_EVERY_FAULT = ("kind", "name", "when")
_PLACES = {  # title -> the section of this page about it
    "scenario": "Scenarios",
    "pipeline": "Pipelines",
    "fault": "Faults",
    "fault without `when`": "Faults",
    "trigger": "Triggers",
    "request": "Names of requests",
    **dict.fromkeys(("broker", "executor", "worker", "link"), "Targets"),
    **{heading: heading for parts in _SECTIONS.values() for heading in parts},
}
_TITLES = {
    **{kind.__name__: heading or "scenario" for parts in _SECTIONS.values() for heading, kind in parts.items()},
    **{kind.__name__: "pipeline" for kind in KINDS.values()},
    **{kind.__name__: "trigger" for kind in _TRIGGERS.values()},
    **{kind.__name__: "fault" for kind in FAULTS.values()},
}
_VIEWS = {
    "uncommitted": "the log as read_uncommitted reads it",
    "again": "a second reading of the log",
    "batches": "all record batches, with producer, epoch and transaction markers",
    "ledger": "the outcome of every record, as the loader knows it",
    "open_transactions": "open transactions, as partitions and coordinators know them",
    "told": "the statements of the program (`speaks: [transactions]`), or of the loader, about its transactions",
    "deliveries": "the statements of the program about its consumer (`speaks: [deliveries]`)",
    "commits": "the commits of the consumer group (`group`, or `positions: {group: …}`)",
    "looks": "the end of the sink, sampled about fifty times a second",
    "reached": "the commits of the consumer group, and their transactions",
    "answers": "the record that each row answers",
    "keys": "the keys of records",
    "places": "the places of the rows of a table",
}


def page() -> str:
    """Make the whole page as Markdown."""
    sections = {
        **{title: "\n\n".join(_parts(parts)) for title, parts in _SECTIONS.items()},
        "Many scenarios from one": f"{_OF_A_MATRIX}\n\n{_of_module(matrix.__doc__)}",
        "Placeholders": _placeholders(),
        "Triggers": "\n\n".join(_triggers()),
        "Targets": _of_module(targets.__doc__),
        "Faults": "\n\n".join(_faults()),
        "Verifiers": "\n\n".join(_verifiers()),
    }
    contents = "\n".join(f"* {_linked(title, title)}" for title in sections)
    return "\n\n".join([_INTRODUCTION, contents, *(f"## {title}\n\n{text}" for title, text in sections.items())]) + "\n"


# keys ------------------------------------------------------------------------------------------------------------------


def _parts(parts: Mapping[str, type[Declared]]) -> Iterator[str]:
    for heading, declared in parts.items():
        if heading:
            yield f"### {heading}"
        yield from _declaration(declared)


def _declaration(declared: type[BaseModel]) -> Iterator[str]:
    if text := prose(declared):
        yield markdown(text)
    yield from _keys(declared)


def _keys(declared: type[BaseModel], without: tuple[str, ...] = ()) -> Iterator[str]:
    """Make a table of the keys, if there are any; required keys come first."""
    schema = schema_of(declared)
    required = schema.get("required", ())
    keys = sorted(schema["properties"], key=lambda key: key not in required)
    rows = [_row(key, schema["properties"][key], key in required) for key in keys if key not in without]
    if rows:
        yield table(_COLUMNS, rows)


def _row(key: str, schema: Mapping[str, Any], required: bool) -> list[str]:  # noqa: FBT001 - one of four cells
    default = schema.get("default")
    shown = "" if default in (None, "", [], {}) or isinstance(default, dict) else f"`{_spelled(default)}`"
    return [f"`{key}`", in_words(schema), "required" if required else shown, schema.get("description", "")]


def in_words(schema: Mapping[str, Any]) -> str:
    """Describe the values of a key: ``list of texts``, ``duration such as `5s```."""
    if "title" in schema:
        title = schema["title"]
        if title in _TITLES:  # a class whose keys are here, and not in a definition
            return _declared(title)
        example = f" such as `{schema['examples'][0]}`" if "examples" in schema else ""
        return (_linked(title, _PLACES[title]) if title in _PLACES else title) + example
    if "$ref" in schema:
        return _declared(schema["$ref"].rpartition("/")[2])
    if choices := schema.get("anyOf", schema.get("oneOf")):
        written = [choice for choice in choices if choice.get("type") != "null" and choice.get("const") != ""]
        return " or ".join(dict.fromkeys(map(in_words, written)))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return f"{'one of ' if len(values) > 1 else ''}{', '.join(f'`{_spelled(value)}`' for value in values)}"
    return _OF_TYPES[schema.get("type", "")](schema)


def _declared(name: str) -> str:
    """Describe a class that has a section: ``mapping: [`sink`](#sink)``, or just ``[fault](#faults)``."""
    title = _TITLES.get(name)
    if title is None:
        return "mapping"
    link = _linked(title, _PLACES[title])
    return f"mapping: {link}" if title.startswith("`") else link


def _several(words: str) -> str:
    """Put a description into the plural, after ``list of``."""
    kind, *rest = words.split(" or ", 1)
    first = _PLURALS.get(kind) or re.sub(r"^\[(\w+)\]", r"[\1s]", kind).replace("mapping: ", "mappings: ")
    first = re.sub(r"^list of ", "lists of ", first).removeprefix("one of ")
    return " or ".join([first, *rest])


def _list(schema: Mapping[str, Any]) -> str:
    return f"list of {_several(in_words(schema.get('items', {})))}"


def _mapping(schema: Mapping[str, Any]) -> str:
    of_verifiers = schema.get("propertyNames", {}).get("enum") == list(NAMES)
    inner = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    values = [_several(in_words(one)) for one in inner if isinstance(one, dict)]
    return (
        f"mapping from {_linked('verifiers', 'Verifiers') if of_verifiers else 'names'} to {values[0]}" if values else "mapping"
    )


def _number(schema: Mapping[str, Any]) -> str:
    kind, least, most = (
        "whole number" if schema["type"] == "integer" else "number",
        schema.get("minimum"),
        schema.get("maximum"),
    )
    if least is None:
        return kind
    return f"{kind} from {least} on" if most is None else f"{kind} from {least} to {most}"


_OF_TYPES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "": lambda _: "any value",
    "string": lambda _: "text",
    "boolean": lambda _: "`true` or `false`",
    "integer": _number,
    "number": _number,
    "array": _list,
    "object": _mapping,
}


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _linked(text: str, heading: str) -> str:
    """Link to a section of this page, with the anchor that GitHub makes."""
    anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    return f"[{text}](#{anchor})"


# sections --------------------------------------------------------------------------------------------------------------


def _of_module(docstring: str | None) -> str:
    """Return the docstring of a module without its first paragraph."""
    return markdown((docstring or "").partition("\n\n")[2].strip("\n"))


def _placeholders() -> str:
    kinds = {
        **{f"`{name}`": kind.PLACEHOLDERS for name, kind in KINDS.items() if name != NONE},
        "`rows: command`": OF_LOADER,
    }
    rows = [
        [f"`{{{name}}}`", meaning, *("yes" if name in known else "" for known in kinds.values())]
        for name, meaning in MEANINGS.items()
    ]
    introduction = """\
Placeholders are allowed in texts of a pipeline: in `run`, `arguments`, `configuration`, `environment`, and in names of groups
and of transactional ids; and in a loader's `rows: {command: [...]}`. The name of every topic of the file is a placeholder, too:
`{orders}` is the name of the topic in this run. So is the name of every service, for the `HOST:PORT` of its link, and so are
the pipeline's `parameters`.
To keep `{sink}` as it is, write `{{sink}}`; all other braces stay."""
    return f"{introduction}\n\n{table(('placeholder', 'stands for', *kinds), rows)}"


def _triggers() -> Iterator[str]:
    yield "Every fault has one trigger, as its `when`."
    for key, trigger in _TRIGGERS.items():
        yield f"### `when: {{{key}: …}}`"
        yield from _declaration(trigger)
    yield "### Names of requests"
    yield "Names of requests, as in [Kafka's protocol](https://kafka.apache.org/protocol.html#protocol_api_keys):"
    names = {"of clients": triggers.OF_CLIENTS, "of brokers only": triggers.OF_BROKERS}
    both = [name for name in triggers.NAMES if not any(name in some for some in names.values())]
    rows = [[who, ", ".join(f"`{name}`" for name in sorted(some))] for who, some in {**names, "of both": both}.items()]
    yield table(("", ""), rows)


def _faults() -> Iterator[str]:
    yield "Every fault has these keys, and those that are listed with it."
    first = schema_of(next(iter(FAULTS.values())))["properties"]
    kind = ["`kind`", "one of the names below", "required", "the kind of fault"]
    rest = [_row(key, first[key], key == "when") for key in _OF_EVERY_FAULT if key != "kind"]
    yield table(_COLUMNS, [kind, *rest])
    for family, listed in groupby(listing(), lambda fault: fault.family):
        faults = list(listed)
        yield f"### {family.replace('_', ' ').capitalize().replace('python', 'Python')}"
        if family in {FAULTS[fault.kind].__module__.rpartition(".")[2] for fault in faults}:
            yield _first_sentence(sys.modules[FAULTS[faults[0].kind].__module__].__doc__ or "")
        for fault in faults:
            yield from _fault(fault)


def _first_sentence(docstring: str) -> str:
    return docstring.partition("\n")[0].partition(". ")[0].rstrip(".") + "."


def _fault(listed: Listed) -> Iterator[str]:
    fault = FAULTS[listed.kind]
    yield f"#### `{listed.kind}`"
    own_trigger = meaning(fault, "when") != meaning(FaultBase, "when")
    if text := prose(fault):
        yield markdown(text)
    facts = {
        "aimed at": listed.targets,
        "provokes": listed.provokes,
        "proved by": listed.proved_by,
        "needs": "; ".join(listed.needs),
        "possible in": ", ".join(listed.runs_in),
    }
    yield "\n".join(f"* **{name}**: {literals(fact)}" for name, fact in facts.items() if fact)
    yield from _keys(fault, _OF_EVERY_FAULT[:-1] if own_trigger else _OF_EVERY_FAULT)


def _verifiers() -> Iterator[str]:
    yield """\
Every verifier that has something to judge runs, unless `leave_out` names it. All need the log, as a read_committed consumer
reads it, and its expected content; the last column has the further needs of some."""
    rows = [
        [
            f"`{name}`",
            one.guarantee,
            " and ".join(subject for subject in ("source", "sink") if subject in one.subjects),
            "; ".join(_VIEWS.get(view, view) for view in sorted(one.views)),
        ]
        for name, one in OF_LOGS.items()
    ]
    transactions = [
        f"`{TRANSACTIONS}`",
        BY_TRANSACTIONS.guarantee,
        "the internal topics of the cluster",
        "`expected: transactions`, or `rows_per_record`",
    ]
    progress = [f"`{PROGRESS}`", GUARANTEE_OF_PROGRESS, "the history of the run", ""]
    yield table(("verifier", "demands", "judges", "needs too"), [*rows, transactions, progress])
    yield "### Anomalies"
    yield "`expect` counts anomalies by these names."
    of_logs = {name: _anomalies(one) for name, one in OF_LOGS.items()}
    defined = {**of_logs, TRANSACTIONS: _anomalies(BY_TRANSACTIONS), PROGRESS: ANOMALIES_OF_PROGRESS}
    rows = [[f"`{name}`", anomaly, text] for name, anomalies in defined.items() for anomaly, text in anomalies.items()]
    yield table(("verifier", "anomaly", "meaning"), rows)


def _anomalies(verifier: Verifier | Transactions) -> dict[str, str]:
    """Find the definitions of anomalies in the list of the module, or in its first sentence if it has no list."""
    text = cleandoc(sys.modules[type(verifier).__module__].__doc__ or "")
    known = definitions(text)
    only = _first_sentence(text).partition(": ")[2].rstrip(".") if len(verifier.anomalies) == 1 else ""
    return {anomaly: known.get(anomaly, only) for anomaly in verifier.anomalies}
