"""Chaos tests of Kafka and Spark pipelines.

Exit codes: 0 valid or done, 1 invalid, 2 wrong usage or a wrong file, 3 unknown, 4 not possible on this machine,
70 a defect of chaos itself, 130 interrupted.
"""

# This module imports more than fifteen others: each command imports its own when it is called.
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.main import get_command

from chaos.cli import streams
from chaos.cli.init_ci_text import SYSTEMS
from chaos.common import signals
from chaos.common.errors import (
    ChaosError,
    InconclusiveError,
    PluginError,
    RuntimeUnavailableError,
    ScenarioError,
    one_line,
)
from chaos.common.version import version

if TYPE_CHECKING:
    from chaos.scenario.model import Scenario

_HELP = (__doc__ or "").replace(",\n", ", ")  # a terminal of any width breaks the lines itself
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=_HELP)

_NAME = "chaos"
_OTHER_NAME = "kafka-spark-chaos"  # where `chaos` is the command of another package, such as Chaos Toolkit
_FILE = Path("scenarios.yaml")
_BROKERS = 3
_WIDTH = 22  # of the names of checks, at least
_DEFECT, _INTERRUPTED = 70, 130  # EX_SOFTWARE of sysexits.h; 128 and the number of SIGINT
Scenarios = Annotated[Path, typer.Option("--scenarios", "-s", help="the scenarios file")]


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it
    if asked:
        typer.echo(f"{_OTHER_NAME} {version()}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")] = False,
) -> None:
    pass


@app.command()
def parts(
    *,
    verify: Annotated[bool, typer.Option("--verify", help="check the SHA-256 of the jars in the cache too")] = False,
    go_test: Annotated[bool, typer.Option("--go-test", help="run the Go tests of the Toxiproxy server instead")] = False,
    go_fuzz: Annotated[
        int, typer.Option("--go-fuzz", min=0, help="run each of its fuzz tests for this many seconds instead")
    ] = 0,
) -> None:
    """Fetch and build the parts that are not Python packages: jars, Toxiproxy, class archives."""
    from chaos.install import artifacts, go_build  # noqa: PLC0415 - each command imports what it needs, so that `--help` is quick

    if go_test:
        go_build.test(artifacts.cache_folder(), typer.echo)
        return
    if go_fuzz:
        go_build.fuzz(artifacts.cache_folder(), go_fuzz, typer.echo)
        return
    found = artifacts.ensure(typer.echo, verify=verify)
    for name, number in artifacts.versions(found).items():
        typer.echo(f"{name:16}{number}")


@app.command()
def doctor(
    *,
    containers: Annotated[bool, typer.Option("--containers", help="fail if anything that containers need is missing")] = False,
    museum: Annotated[
        bool, typer.Option("--museum", help="fetch what each hole of ./museum needs, and fail if one cannot be shown here")
    ] = False,
) -> None:
    """Check what this machine lacks, and say how to mend it."""
    from chaos.cluster import addresses  # noqa: PLC0415
    from chaos.cluster.system import listeners  # noqa: PLC0415
    from chaos.common import plugins  # noqa: PLC0415
    from chaos.faults.registry import PLUGINS as FAULTS  # noqa: PLC0415
    from chaos.install import artifacts, preflight  # noqa: PLC0415
    from chaos.loader.generators import PLUGINS as GENERATORS  # noqa: PLC0415
    from chaos.runtime.docker import doctor as docker_checks  # noqa: PLC0415
    from chaos.scenario.sinks.reader import READERS  # noqa: PLC0415
    from chaos.scenario.verifiers import PLUGINS as VERIFIERS  # noqa: PLC0415

    checks: dict[str, Callable[[], object]] = {
        "java": lambda: str(preflight.find_java()),
        "machine": lambda: preflight.check_machine(artifacts.cache_folder(), Path("runs")),
        "plugins": lambda: plugins.listed(FAULTS, VERIFIERS, GENERATORS, READERS),
    }
    if not containers:  # containers have a network with its own addresses
        checks["addresses"] = lambda: preflight.check_addresses(listeners(addresses.from_environment(), _BROKERS))
    failed = _examined(checks, "MISSING")
    of_containers = {f"containers {name}": check for name, check in docker_checks.CHECKS.items()}
    word = "MISSING" if containers else "without"
    lacking = _examined({"docker": docker_checks.daemon}, word) or _examined(of_containers, word)
    if museum:
        from chaos.cli import museum as shown  # noqa: PLC0415

        failed |= _examined(shown.checks(Path("museum"), typer.echo), "MISSING")
    raise typer.Exit(4 if failed or (containers and lacking) else 0)


@app.command()
def up(
    brokers: Annotated[int, typer.Option(min=3, max=5, help="number of brokers")] = _BROKERS,
    workers: Annotated[int, typer.Option(min=1, max=4, help="number of Spark workers")] = 2,
    runs: Annotated[Path, typer.Option(help="the folder for its logs and its declaration")] = Path("runs"),
    restart_after: Annotated[float, typer.Option(min=0, help="seconds after which a dead process is restarted")] = 5.0,
) -> None:
    """Start the local system for other programs, and run it until Ctrl-C."""
    from chaos.cli import up as running  # noqa: PLC0415

    running.up(running.Size(brokers, workers, restart_after), runs.resolve(), typer.echo)


@app.command()
def init(  # noqa: PLR0913
    words: Annotated[
        list[str] | None,
        typer.Argument(help="after --: the arguments of the job, or the command, with their placeholders", show_default=False),
    ] = None,
    *,
    kind: Annotated[
        Literal["spark-submit", "command"] | None, typer.Option(help="a Spark job, or any other command", show_default=False)
    ] = None,
    application: Annotated[str, typer.Option(help="the path of a Spark job's script or jar")] = "",
    main_class: Annotated[str, typer.Option(help="the main class of a jar")] = "",
    environment: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of a variable; repeat for more")] = None,
    group: Annotated[str, typer.Option(help="the pipeline's consumer group; a Spark job may have none")] = "",
    reads: Annotated[str, typer.Option(help="name of the source topic in the file")] = "input",
    writes: Annotated[str, typer.Option(help="name of the sink topic in the file")] = "output",
    file: Annotated[Path, typer.Option("--file", "-f", help="the file to write")] = _FILE,
    ci: Annotated[str, typer.Option(metavar="|".join(SYSTEMS), help="write a workflow for this CI system, too")] = "",
    install: Annotated[str, typer.Option(help="the command by which a workflow installs this package")] = "",
) -> None:
    """Write a first scenarios file for your pipeline; on a terminal, it asks for missing values.

    chaos init --kind spark-submit --application jobs/copy.py -- {bootstrap} {source} {sink} {checkpoint}

    chaos init --kind command --group copy-{suffix} -- python3 copy.py {bootstrap} {source} {sink} copy-{suffix}

    chaos init --ci github --install "pip install dist/kafka_spark_chaos-*.whl"
    """
    from chaos.cli import init as first  # noqa: PLC0415
    from chaos.cli import init_ci  # noqa: PLC0415

    own = (kind or "", application, main_class, tuple(words or ()), tuple(environment or ()), group)
    given = first.Answers(*own, reads, writes)
    raise typer.Exit(first.main(given, file, init_ci.Wanted(ci, install), typer.echo))


@app.command()
def demo(
    into: Annotated[Path, typer.Option(metavar="DIR", help="the folder for its files")] = Path("chaos-demo"),
) -> None:
    """Run two scenarios, one VALID and one INVALID, and explain them while they run: two minutes, no pipeline needed.

    Its files go into a folder of their own: the scenarios, two small programs, the runs, and a page for a browser.
    """
    from chaos.demo import command  # noqa: PLC0415

    raise typer.Exit(command.main(into))


@app.command()
def museum(
    holes: Annotated[
        list[str] | None, typer.Argument(help="names of defects (--list); without one, all that this machine can show")
    ] = None,
    *,
    listed: Annotated[bool, typer.Option("--list", help="only list the defects, and what this machine lacks for them")] = False,
    folder: Annotated[Path, typer.Option(help="the folder of the defects, in a clone of this project")] = Path("museum"),
) -> None:
    """Show defects of released clients: bad and good versions under one schedule each."""
    from chaos.cli import museum as shown  # noqa: PLC0415

    raise typer.Exit(shown.main(folder, holes or [], only_listed=listed, say=typer.echo))


@app.command()
def conformance(
    clients: Annotated[
        list[str] | None, typer.Argument(help="names of clients (--list); without one, all that this machine can run")
    ] = None,
    *,
    shard: Annotated[str, typer.Option(metavar="N/COUNT", help="only every COUNT-th case, from the N-th on")] = "1/1",
    listed: Annotated[bool, typer.Option("--list", help="only list the cases, and what this machine lacks for them")] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="run nothing: write the table of all runs in the folder here, and as JSON", show_default=False),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(help="an earlier table, as JSON: its cells are not run again, and shown as they were", show_default=False),
    ] = None,
    runs: Annotated[Path, typer.Option(help="the folder of run directories, perhaps of several machines")] = Path("runs"),
    folder: Annotated[Path, typer.Option(help="the folder of the table, in a clone of this project")] = Path("conformance"),
) -> None:
    """Run each Kafka client under the same faults, and write a table of what each of them did."""
    from chaos.cli import conformance as table  # noqa: PLC0415

    asked = table.Asked(tuple(clients or ()), table.Shard.of(shard), folder, runs, earlier)
    if listed:
        raise typer.Exit(table.show(asked, typer.echo))
    raise typer.Exit(table.write(asked, page, typer.echo) if page else table.run(asked, typer.echo))


@app.command()
def plan(
    file: Annotated[Path | None, typer.Argument(help="the scenarios file, as with -s", show_default=False)] = None,
    scenarios: Scenarios = _FILE,
    seed: Annotated[int, typer.Option(help="the seed of the run")] = 0,
) -> None:
    """Show what a run would break, and when, without starting anything."""
    from chaos.scenario.load import load  # noqa: PLC0415
    from chaos.scenario.plan import describe  # noqa: PLC0415
    from chaos.scenario.plan import plan as planned  # noqa: PLC0415

    for scenario in load(file or scenarios).scenarios:
        typer.echo(f"{scenario.name}  [{', '.join(scenario.tags)}]  {scenario.title}")
        for line in describe(planned(scenario, seed)) or ["nothing is broken"]:
            typer.echo(f"    {line}")
        typer.echo(f"    expect {_predicted(scenario)}")


@app.command()
def faults() -> None:
    """List every fault: targets, keys (* is required, a default is in brackets), what it provokes, its proof, where it runs."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from chaos.grammar.targets import BROKERS_HELP  # noqa: PLC0415
    from chaos.runtime.docker import engine  # noqa: PLC0415
    from chaos.scenario.describe import listing  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, show_header=False)
    family = ""
    for fault in listing():
        if fault.family != family:
            family = fault.family
            table.add_row(f"[dim]{family.replace('_', ' ')}[/]", "", "")
        table.add_row(f"[bold]{fault.kind}[/]", "", fault.does)
        keys = ", ".join(fault.keys)
        rows = {"target": fault.targets, "keys": keys, "provokes": fault.provokes, "proof": fault.proved_by}
        for name, text in {**rows, "needs": ", ".join(fault.needs), "runs in": ", ".join(fault.runs_in)}.items():
            if text:
                table.add_row("", f"[dim]{name}[/]", text)
    Console().print(table)
    typer.echo(f"\n{BROKERS_HELP}")
    try:
        engine.connect().close()
    except RuntimeUnavailableError as error:
        typer.echo(f"\ncontainers are not possible on this machine: {error}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenarios file, for your editor."""
    from chaos.scenario.describe import json_schema  # noqa: PLC0415

    typer.echo(json.dumps(json_schema(), indent=1))


@app.command()
def reference() -> None:
    """Print docs/reference.md: every key, trigger, fault and verifier that there is, also those of installed plugins."""
    from chaos.scenario.reference import page  # noqa: PLC0415

    typer.echo(page(), nl=False)


@app.command()
def judge(run: Annotated[Path, typer.Argument(help="the directory of a run", exists=True, file_okay=False)]) -> None:
    """Judge a run again from its evidence on disk, without a cluster."""
    from chaos.engine.rejudge import rejudge  # noqa: PLC0415

    raise typer.Exit(rejudge(run, typer.echo))


@app.command()
def table(
    runs: Annotated[Path, typer.Argument(help="the folder of run directories", exists=True, file_okay=False)] = Path("runs"),
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="for a page, e.g. the summary of a CI job")] = False,
) -> None:
    """Show the verdict of every run in a folder, which may hold runs of several machines."""
    from chaos.report import coverage, summary  # noqa: PLC0415
    from chaos.report.model import reports_in  # noqa: PLC0415

    reports, cut_short = reports_in(runs)
    if markdown:
        typer.echo("\n\n".join(filter(None, (coverage.markdown(reports), summary.markdown(reports, cut_short)))))
        return
    width = shutil.get_terminal_size((120, 24)).columns
    tables = (summary.summary_table(reports, width), *coverage.tables(reports, width))
    typer.echo(summary.as_text(*tables, width=width, colour=sys.stdout.isatty()))
    for folder in cut_short:
        typer.echo(f"{folder} has no report: the run was interrupted, or is still running")


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="run directories, or folders of them", exists=True, file_okay=False, show_default=False),
    ],
    *,
    html: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="the file of the page; default: report.html in the folder", show_default=False),
    ] = None,
) -> None:
    """Write a page for a browser for each run; for several runs, or a folder, also a page of all of them."""
    from chaos.report.html import command  # noqa: PLC0415

    raise typer.Exit(command.main(runs, html, typer.echo))


audits = typer.Typer(
    no_args_is_help=True, help="Audit what other programs filled: topics, tables, transactions, or live topics."
)
app.add_typer(audits, name="audit")

Conf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", help="NAME=VALUE, a setting of Spark; again for each more", show_default=False),
]
Report = Annotated[
    Path | None, typer.Option("--json", help="the file of the report as JSON; - for standard output", show_default=False)
]
Bootstrap = Annotated[str, typer.Option(help="HOST:PORT of the brokers")]
External = Annotated[str, typer.Option(help="the file that declares the cluster and the login, instead of --bootstrap")]
Landing = Annotated[str, typer.Option(help="folder or URL to which the logs are copied as Parquet, and kept")]
Source = Annotated[list[str] | None, typer.Option(help="the topic that the pipeline reads; repeat for more")]
Sink = Annotated[list[str] | None, typer.Option(help="the topic that the pipeline writes; repeat for more")]
Group = Annotated[str, typer.Option(help="the pipeline's consumer group; records past its position are pending, not lost")]
Routing = Annotated[
    str,
    typer.Option(help="same: a record stays in its partition; any: the pipeline chooses one, by a hash of the key for example"),
]


@audits.command()
def topics(  # noqa: PLR0913 - one argument for each option
    *,
    report: Report = None,
    model: Annotated[str, typer.Option(help="identity, or module:function (a column in, a column out)")] = "",
    expected_sql: Annotated[
        str,
        typer.Option(
            "--expected-sql",
            help="instead of --model: a query over the source that gives the rows of the sink, or @FILE with it",
        ),
    ] = "",
    state: Annotated[
        bool, typer.Option("--as-state", help="with --expected-sql: only the last value of each key of the sink counts")
    ] = False,
    landed: Annotated[str, typer.Option(help="folder or URL with Parquet in source/ and sink/, instead of topics")] = "",
    bootstrap: Bootstrap = "",
    source: Source = None,
    sink: Sink = None,
    group: Group = "",
    identity: Annotated[
        str,
        typer.Option(
            help="what identifies a record: dense-key (keys are decimal numbers), key (any text), header:NAME, or SQL over "
            "key, value and headers"
        ),
    ] = "dense-key",
    routing: Routing = "same",
    spark_master: Annotated[str, typer.Option(help="the URL of any Spark master")] = "local[*]",
    spark_conf: Conf = None,
    since: Annotated[
        str, typer.Option(help="the report (--json) of an earlier audit of these topics: only what came since is read")
    ] = "",
    landing: Landing = "",
    external: External = "",
) -> None:
    """Compare two topics, or two folders of Parquet, by a model or a query.

    It needs --bootstrap, --source and --sink (or --landed), and one of --model and --expected-sql. A copy is compared so:

    chaos audit topics --bootstrap localhost:9092 --source orders --sink copies --identity key --model identity
    """
    from chaos.audit import command  # noqa: PLC0415
    from chaos.audit.topics import OfTopics  # noqa: PLC0415
    from chaos.audit.where import Where  # noqa: PLC0415

    where = Where(bootstrap, external, landed, landing)
    said = (group, model, expected_sql, state, identity, routing, spark_master, tuple(spark_conf or ()))
    asked = OfTopics(where, tuple(source or ()), tuple(sink or ()), *said, since=since, keep=report is not None)
    raise typer.Exit(command.main(asked, report, typer.echo))


@audits.command()
def tables(  # noqa: PLR0913 - one argument for each option
    *,
    report: Report = None,
    source: Annotated[
        str,
        typer.Option(
            help="parquet:PATH, delta:PATH[@VERSION], iceberg:CATALOG.DATABASE.TABLE[@SNAPSHOT], jdbc:URL#TABLE or topic:NAME"
        ),
    ] = "",
    sink: Annotated[str, typer.Option(help="the table that was made of it, likewise")] = "",
    key: Annotated[
        list[str] | None,
        typer.Option(help="what identifies a record: a column, several with commas, or SQL", show_default=False),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(help="columns of groups, then the one that rises in a group: partition,offset", show_default=False),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="columns that must be equal; by default all that both have", show_default=False)
    ] = None,
    expected_sql: Annotated[
        str, typer.Option("--expected-sql", help="a query over the table source that gives the rows of the sink, or @FILE")
    ] = "",
    bootstrap: Bootstrap = "",
    external: External = "",
    packages: Annotated[
        list[str] | None,
        typer.Option(help="GROUP:ARTIFACT:VERSION of Maven Central that reads a table; repeat for more", show_default=False),
    ] = None,
    spark_master: Annotated[str, typer.Option(help="the URL of any Spark master")] = "local[*]",
    spark_conf: Conf = None,
) -> None:
    """Compare two tables, or a table and a topic, row by row.

    chaos audit tables --source delta:/lake/orders --sink delta:/lake/copies --key order_id

    chaos audit tables --source topic:orders --bootstrap localhost:9092 --sink "jdbc:postgresql://db/shop?user=shop#orders"
    --key id --expected-sql @orders.sql
    """
    from chaos.audit import command  # noqa: PLC0415
    from chaos.audit.tables.command import OfTables  # noqa: PLC0415
    from chaos.audit.where import Where  # noqa: PLC0415

    named = (tuple(key or ()), tuple(order or ()), tuple(columns or ()))
    of_spark = (tuple(packages or ()), spark_master, tuple(spark_conf or ()))
    asked = OfTables(Where(bootstrap, external), source, sink, *named, expected_sql, *of_spark)
    raise typer.Exit(command.main(asked, report, typer.echo))


@audits.command()
def transactions(
    *,
    report: Report = None,
    rows_per_record: Annotated[str, typer.Option(help="rows per record, 1, or the least and most, 0..1")] = "",
    timers: Annotated[bool, typer.Option("--timers", help="the application also writes rows on a timer")] = False,
    sink: Annotated[list[str] | None, typer.Option(help="a topic that only the application writes to; repeat for more")] = None,
    shared_sink: Annotated[
        list[str] | None, typer.Option(help="a topic that others write to as well; their rows are not judged; repeat for more")
    ] = None,
    landed: Annotated[str, typer.Option(help="folder or URL with the logs that --landing left, instead of a cluster")] = "",
    bootstrap: Bootstrap = "",
    group: Annotated[str, typer.Option(help="the consumer group whose transactions are audited")] = "",
    landing: Landing = "",
    external: External = "",
) -> None:
    """Check, without a model, that a group commits rows and positions atomically."""
    from chaos.audit import command  # noqa: PLC0415
    from chaos.audit.transactions import OfTransactions  # noqa: PLC0415
    from chaos.audit.where import Where  # noqa: PLC0415

    where = Where(bootstrap, external, landed, landing)
    of_topics = (tuple(sink or ()), tuple(shared_sink or ()))
    asked = OfTransactions(where, group, *of_topics, rows_per_record, timers)
    raise typer.Exit(command.main(asked, report, typer.echo))


@audits.command()
def follow(  # noqa: PLR0913
    *,
    report: Report = None,
    model: Annotated[str, typer.Option(help="identity compares values too; without it, only identities are compared")] = "",
    bootstrap: Bootstrap = "",
    source: Source = None,
    sink: Sink = None,
    group: Group = "",
    identity: Annotated[
        str, typer.Option(help="what identifies a record: key (dense-key means it too), header:NAME, or row (key and value)")
    ] = "dense-key",
    routing: Routing = "same",
    external: External = "",
    lasts: Annotated[str, typer.Option("--for", help="how long to follow, such as 10m or 8h; by default until Ctrl-C")] = "",
    overdue: Annotated[str, typer.Option(help="time after which a record without a row is a gap")] = "60s",
    every: Annotated[str, typer.Option(help="how often a line is printed, and metrics are updated")] = "5s",
    begin: Annotated[str, typer.Option("--from", help="beginning of both topics, or now")] = "beginning",
    window: Annotated[int, typer.Option(help="number of answered rows to remember for finding duplicates, 8 bytes each")] = 1
    << 20,
    metrics: Annotated[str, typer.Option(help="127.0.0.1:PORT that serves OpenMetrics over HTTP")] = "",
    metrics_file: Annotated[str, typer.Option(help="a file that the metrics are written to")] = "",
    state: Annotated[str, typer.Option(help="a file that keeps the state, from which a later start goes on")] = "",
    settle: Annotated[str, typer.Option(help="how long the end waits for rows of records that were read")] = "15s",
) -> None:
    """Judge the topics of a live pipeline as they grow."""
    from chaos.audit import command  # noqa: PLC0415
    from chaos.audit.follow.command import OfFollowing  # noqa: PLC0415
    from chaos.audit.follow.options import Following  # noqa: PLC0415
    from chaos.audit.where import Where  # noqa: PLC0415

    options = Following(overdue, every, lasts, window, begin, metrics, metrics_file, state, settle)
    of_topics = (tuple(source or ()), tuple(sink or ()))
    asked = OfFollowing(Where(bootstrap, external), *of_topics, group, model, identity, routing, options)
    raise typer.Exit(command.main(asked, report, typer.echo))


def _examined(checks: Mapping[str, Callable[[], object]], word: str) -> bool:
    """Print the result of each check; return whether one failed."""
    failed, width = False, max(_WIDTH, *(len(name) + 1 for name in checks))
    for name, check in checks.items():
        try:
            typer.echo(f"ok      {name:{width}}{check() or ''}")
        except (RuntimeUnavailableError, PluginError) as error:
            failed = True
            typer.echo(f"{word:8}{name:{width}}{error}")
    return failed


def _predicted(scenario: "Scenario") -> str:
    """Join the predictions; where all are ``valid``, the word stands once."""
    if scenario.expect != "not_sent" and set(scenario.expected.values()) == {"valid"}:
        return f"valid: {', '.join(scenario.expected)}"
    return ", ".join(_predictions(scenario))


def _predictions(scenario: "Scenario") -> Iterator[str]:
    """Yield predictions: ``duplicates invalid (duplicate 1)``, ``gaps valid``; or that a trigger's request is never sent."""
    if scenario.expect == "not_sent":
        yield "the request is never sent"
    for name, word in scenario.expected.items():
        exactly = ", ".join(f"{anomaly}: {count}" for anomaly, count in scenario.exactly.get(name, {}).items())
        yield f"{name} {word} ({exactly})" if exactly else f"{name} {word}"


def _former_audit(words: Sequence[str]) -> str:
    """Say what replaces the former `chaos audit` with options and no command; "" for anything else."""
    if list(words[:1]) != ["audit"] or not words[1:2] or not words[1].startswith("--") or words[1] == "--help":
        return ""
    now = "follow" if "--follow" in words else "transactions" if "--transactions" in words else "topics"
    return f"chaos audit: there are four commands now; write chaos audit {now}, and see chaos audit {now} --help"


def main() -> None:
    """Run a command, and end with its exit code; an error that chaos raises on purpose is one line, not a traceback."""
    output = streams.guard()
    signals.obey()
    sys.excepthook = _defect
    sys.exit(output.code(_ended(sys.argv[1:])))


def _ended(words: Sequence[str]) -> int:
    """Run a command, print the error that ended it, and return its exit code.

    Typer's own runner replaces `sys.excepthook`, and exits with 1, which means INVALID, if a connection breaks or an input ends
    anywhere in the command. So only its parser is used.
    """
    command = get_command(app)
    if former := _former_audit(words):
        return _say(former, 2)
    try:
        with command.make_context(_called_as(sys.argv[0]), list(words)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:  # the parser's: an option that does not exist, a value that cannot be read
        return _misused(error)
    except ChaosError as error:
        return _failed(error)
    except SystemExit as error:  # chaos itself ends with `typer.Exit`; a plugin, or another module of the user, raised this
        frame = extract_tb(error.__traceback__)[-1]
        return _say(
            f"chaos: exit({error.code!r}) was called at {frame.filename}:{frame.lineno}, which ended the command", _DEFECT
        )
    return 0


def _called_as(program: str) -> str:
    """Return the name of the command in a shell, for messages about its usage."""
    name = Path(program).name
    return {"__main__.py": "python -m chaos", _OTHER_NAME: _OTHER_NAME}.get(name, _NAME)


def _failed(error: ChaosError) -> int:
    """Print an error that chaos raised on purpose, and return its exit code."""
    match error:
        case ScenarioError():
            return _say(str(error), 2)
        case InconclusiveError():
            from verifiers.base import Verdict  # noqa: PLC0415 - the command that raised this has imported it

            return _say(f"chaos: {error}", Verdict.UNKNOWN.exit_code)
        case PluginError():
            return _say(str(error), 4)
        case _:
            return _say(f"chaos: {error}", 4)


def _misused(error: typer.TyperException) -> int:
    """Print in one line what is wrong with the arguments; without arguments, the help was printed already."""
    said = one_line(error.format_message())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _NAME
    return _say(f"{path}: {said.rstrip('.')}; see {path} --help", 2) if said else 2


def _defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a defect, and exit with 70: Python's own 1 means that a guarantee is broken."""
    if issubclass(kind, KeyboardInterrupt) or signals.lost():
        raise SystemExit(_INTERRUPTED)
    sys.__excepthook__(kind, error, trace)
    raise SystemExit(_DEFECT)


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"{text}\n")
    return code
