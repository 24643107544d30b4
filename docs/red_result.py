"""Draws the picture of README.md: what a terminal shows of a red run, shortened.

python3 docs/red_result.py RUN docs/red-result.svg
"""

import re
import sys
import textwrap
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.report.failure_text import explain
from chaos.report.model import FILE, Report

WIDTH = 112
LEFT_OUT = re.compile(r"^(scenario |Judge again|Run directory|  … and )")
STYLES = {
    r"^INVALID.*": "bold red",
    r"^(Broken: .*|Faults:|Replay:)": "bold",
    r"\bduplicate:|\bcause: \w+": "bold yellow",
}


def shortened(text: str) -> list[str]:
    """Return the lines about duplicates and faults, without those about the order."""
    lines, is_kept = list[str](), True
    for line in text.splitlines():
        if not line.startswith(" "):
            is_kept = not line.startswith("Broken: ordering")
        if is_kept and not LEFT_OUT.match(line):
            lines.append(line)
    return lines


def main() -> None:
    """Read the report, and write the picture."""
    run, picture = map(Path, sys.argv[1:])
    report = Report.model_validate_json((run / FILE).read_text(encoding="utf-8"))
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text("$ pytest -m chaos scenarios.yaml", style="bold green"))
    for line in shortened(explain(report)):
        indent = " " * (len(line) - len(line.lstrip()))
        shown = Text(textwrap.fill(line, WIDTH - 2, subsequent_indent=f"{indent}    ", break_on_hyphens=False))
        for pattern, style in STYLES.items():
            shown.highlight_regex(pattern, style)
        console.print(shown)
    console.save_svg(str(picture), title="executors-killed-before-acknowledgement", clear=False)


if __name__ == "__main__":
    main()
