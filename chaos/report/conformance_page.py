"""The conformance table in Markdown: the table, and a page for each client with what was found in its cells."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from chaos.report.conformance import OUTCOMES, VALID, Cell, Result, page_beside
from chaos.report.formatting import day, in_cell
from chaos.report.html.addresses import address

_TITLE = "Conformance of Kafka clients"
_ABOUT = "README.md"  # in the folder of the scenarios
_NO_LETTER = re.compile(r"[^\w\- ]")


def pages(table: Sequence[Cell], page: Path) -> Mapping[Path, str]:
    """Write the table, and the pages of the clients in a folder beside it.

    A cell leads to the page of its run, if that is in the folder of the page or below it; else to its entry in the page of the
    client, with the command that repeats the run, and with what its report says.

    Returns:
        Path of a page -> its text.
    """
    found = {page: _table(table, page)}
    alone = [cell for cell in table if cell.result and not page_beside(cell.result, page.parent)]
    for client in dict.fromkeys(cell.case.client for cell in alone):
        own = [cell for cell in alone if cell.case.client == client]
        found[_of_client(client, page)] = "\n".join(_entries(client, own, page))
    return found


def _of_client(client: str, page: Path) -> Path:
    return page.with_suffix("") / f"{client}.md"


def _table(table: Sequence[Cell], page: Path) -> str:
    clients = list(dict.fromkeys(cell.case.client for cell in table))
    ran = [cell.result for cell in table if cell.result]
    asked = sum(not cell.case.why_not for cell in table)
    lines = [f"# {_TITLE}", "", f"{len(ran)} of {asked} cells were run{_when(ran)}.{_on(ran)}", ""]
    if (page.parent / _ABOUT).is_file():
        lines += [f"[What is asked, and what the words mean]({_ABOUT}).", ""]
    outcomes = [word for word in OUTCOMES if any(cell.outcome == word for cell in table)]
    lines += _drawn(["client", "version", *outcomes], [_counted(client, table, outcomes) for client in clients])
    for axes in dict.fromkeys(cell.case.axes for cell in table):
        own = [cell for cell in table if cell.case.axes == axes]
        lines += ["", f"## {' × '.join(axes).capitalize()}", "", *_crossed(axes, clients, own, page)]  # noqa: RUF001
        lines += _reasons(own)
    return "\n".join((*lines, ""))


def _when(ran: Iterable[Result]) -> str:
    days = sorted({day(one.began_ms) for one in ran if one.began_ms is not None})
    if not days:
        return ""
    return f" on {days[0]}" if len(days) == 1 else f" from {days[0]} to {days[-1]}"


def _on(ran: Iterable[Result]) -> str:
    parts: dict[str, set[str]] = {}
    for one in ran:
        for part, version in one.versions.items():
            parts.setdefault(part, set()).add(version.partition("+")[0])  # without the build
    named = ", ".join(f"{part.capitalize()} {' and '.join(sorted(numbers))}" for part, numbers in parts.items())
    return f" {named}." if named else ""


def _counted(client: str, table: Iterable[Cell], outcomes: Iterable[str]) -> list[str]:
    own = [cell for cell in table if cell.case.client == client]
    counts = Counter(cell.outcome for cell in own)
    versions = sorted({cell.result.version for cell in own if cell.result})
    return [client, ", ".join(map(in_cell, versions)), *(str(counts[outcome] or "") for outcome in outcomes)]


def _crossed(axes: Sequence[str], clients: Sequence[str], own: Sequence[Cell], page: Path) -> list[str]:
    there = {(cell.case.row, cell.case.client): cell for cell in own}
    rows = [
        [*map(in_cell, row), *(_linked(there.get((row, client)), page) for client in clients)]
        for row in dict.fromkeys(cell.case.row for cell in own)
    ]
    return _drawn([*axes, *clients], rows)


def _drawn(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows)]


def _linked(cell: Cell | None, page: Path) -> str:
    if cell is None:
        return ""
    text = in_cell(cell.text)
    if cell.result is None:
        return text
    return f"[{f'**{text}**' if cell.result.is_red else text}]({_target(cell, cell.result, page)})"


def _target(cell: Cell, result: Result, page: Path) -> str:
    if of_run := page_beside(result, page.parent):
        return address(of_run, page.parent)
    return f"{address(_of_client(cell.case.client, page), page.parent)}#{_anchor(_name(cell))}"


def _reasons(own: Iterable[Cell]) -> Iterator[str]:
    """Yield why cells have no answer, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for cell in own:
        if cell.why:
            reasons.setdefault(f"{cell.outcome}: {cell.why}", []).append(f"{cell.case.client}, {' '.join(cell.case.row)}")
    if reasons:
        yield ""
    for why, places in reasons.items():
        yield f"* {in_cell('; '.join(places))}: {in_cell(why)}"


# of a client ----------------------------------------------------------------------------------------------------------


def _entries(client: str, own: Sequence[Cell], page: Path) -> Iterator[str]:
    """Yield the lines of its page: a heading for each cell, so that the table can lead to it."""
    table = address(page, _of_client(client, page).parent)
    yield from (f"# {client}", "", f"What was found in each cell of [{_TITLE}]({table}), and the command that runs it again.")
    for cell in own:
        if cell.result:
            yield from _entry(cell, cell.result)
    yield ""


def _entry(cell: Cell, result: Result) -> Iterator[str]:
    yield from ("", f"## {in_cell(_name(cell))}", "")
    began = "" if result.began_ms is None else f", {day(result.began_ms)}"
    yield f"**{in_cell(result.text)}**, {in_cell(result.version)}{began}: `{result.replay}`"
    if result.outcome != VALID and result.story:
        yield from ("", "```text", *result.story, "```")


def _name(cell: Cell) -> str:
    return ", ".join(cell.case.row)


def _anchor(heading: str) -> str:
    """As a code host and the site make it of a heading."""
    return _NO_LETTER.sub("", heading.lower()).replace(" ", "-")
