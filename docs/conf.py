"""The site of these pages: `make docs`. They are plain Markdown, as a code host shows it; what a site needs beside is here."""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
SOURCE = os.environ.get("PROJECT_URL", "")  # the address of the repository, as in hatch_build.py; "" where it has none
SHORT = 32  # letters

CONTENTS = {  # page -> caption -> the pages below it, as patterns; the build fails for a page that is nowhere
    "docs/index": {
        "Start": ["docs/index", "docs/install", "docs/tutorial/demo", "docs/tutorial/your-pipeline", "docs/tutorial/*"],
        "Scenarios": [
            "docs/guides/writing-scenarios",
            "docs/guides/topics-and-rows",
            "docs/guides/pipelines",
            "docs/guides/what-is-expected",
            "docs/guides/without-a-model",
            "docs/guides/triggers-and-faults",
            "docs/guides/running",
            "docs/guides/ci",
            "docs/guides/matrix",
            "docs/guides/several-topics",
            "docs/guides/tables-and-state",
            "docs/guides/services",
            "docs/python",
            "docs/guides/from-version-1",
        ],
        "Audits": ["docs/guides/audit-topics", "docs/guides/audit-models", "docs/guides/*audit*", "docs/guides/follow"],
        "Systems": ["docs/external", "docs/containers"],
        "Extend": ["docs/adapters", "docs/plugins", "docs/adding-a-fault"],
        "Reference": ["docs/reference"],
        "Concepts": ["docs/claims", "docs/proofs", "docs/cost", "docs/concepts/*"],
        "Examples and findings": ["examples/README", "museum/README", "conformance/README", "docs/findings/README"],
        "Project": ["README", "docs/comparison", "ARCHITECTURE", "docs/adr/README", "CONTRIBUTING", "SECURITY", "CHANGELOG"],
    },
    "docs/adr/README": {"": ["docs/adr/[0-9]*"]},
    "docs/findings/README": {"": ["docs/findings/[!A-Z]*"]},
    "examples/README": {"": ["examples/*/README"]},
    "museum/README": {"": ["museum/*/README"]},
    "conformance/README": {"": ["conformance/table"]},
    "conformance/table": {"": ["conformance/table/*"]},
}
ENTRIES = {"docs/index": "Overview <self>", "README": "README </README>"}  # where it is not the page with its own title

project = html_title = "Kafka and Spark chaos tests"
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "examples/README.md",
    "examples/*/README.md",
    "museum/README.md",
    "museum/*/README.md",
    "conformance/README.md",
    "conformance/table.md",
    "conformance/table/*.md",
    "*.md",
]
exclude_patterns = [".*", "site", "runs", "mutants", "allure-*", "chaos", "tests", "pipelines", "toxiproxy", "**/node_modules"]
extensions = ["myst_parser", "sphinx_copybutton"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # JSON and YAML with … in them

myst_heading_anchors = 6
myst_disable_syntax = ["myst_role", "myst_target", "myst_line_comment", "myst_block_break"]  # a code host has none of them
myst_enable_extensions = ["alert"]
highlight_language = "text"  # of blocks that do not say what they are

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_use_index = False
html_theme_options = {"source_repository": SOURCE, "source_branch": "main", "source_directory": ""} if SOURCE else {}


def pages_below(patterns: list[str]) -> list[str]:
    """The pages that there are, each once, in the order of the patterns."""
    found = dict.fromkeys(path for pattern in patterns for path in sorted(ROOT.glob(f"{pattern}.md")))
    return [path.relative_to(ROOT).with_suffix("").as_posix() for path in found]


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the table of contents at the end of a page; that of the first page is shown at the side only."""
    for caption, patterns in CONTENTS.get(page, {}).items():
        options = [":hidden:", f":caption: {caption}"] if caption else [":maxdepth: 1"]
        entries = [ENTRIES.get(name, f"/{name}") for name in pages_below(patterns)]
        source[0] += "\n".join(["\n\n```{toctree}", *options, "", *entries, "```\n"])


def lead_to_source(app: Sphinx, document: nodes.document) -> None:
    """Let links to files and folders that are no pages lead to the repository.

    Where its address is not known, a file is there to be downloaded. A folder with a page README.md leads to that.
    """
    for node in list(document.findall(lambda one: isinstance(one, addnodes.download_reference | addnodes.pending_xref))):
        if node.get("refdomain"):
            continue  # a page, which is looked up with its anchor later
        name, absolute = app.env.relfn2path(node["reftarget"], app.env.docname)
        readme = f"{name.rstrip('/')}/README"
        if readme in app.env.found_docs:
            node.attributes |= {"refdomain": "doc", "reftarget": readme, "reftargetid": None}
        elif SOURCE and Path(absolute).exists():
            node.replace_self(nodes.reference("", "", *node.children, refuri=f"{SOURCE}/blob/main/{name}"))
        elif Path(absolute).is_dir():
            node.replace_self(node.children)


def keep_whole(_: Sphinx, document: nodes.document) -> None:
    """Mark what is short enough not to be broken at the end of a line."""
    for node in document.findall(nodes.literal):
        if len(node.astext()) <= SHORT:
            node["classes"].append("whole")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect them."""
    app.connect("source-read", add_contents)
    app.connect("doctree-read", lead_to_source, priority=1)  # before files to be downloaded are collected
    app.connect("doctree-read", keep_whole)
    return {"parallel_read_safe": True}
