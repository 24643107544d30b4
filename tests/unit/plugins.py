"""Packages that add faults and verifiers, as pip would have installed them: some code, and the folder with its entry points."""

from pathlib import Path

FAULT = """\
from typing import Literal
from chaos.faults.base import FaultBase

class Stall(FaultBase):
    needs = frozenset()
    kind: Literal["stall"]
"""
VERIFIER = """\
class Tidy:
    name = "tidy"
    guarantee = "everything is tidy"
    subjects = frozenset({"sink"})
    views = frozenset({"told"})
    anomalies = ("untidy",)

    def check(self, evidence):
        raise NotImplementedError
"""


def install(folder: Path, name: str, points: dict[str, str], **modules: str) -> None:
    """Put a package below a folder that is, or will be, on the path.

    Args:
        points: ``chaos.faults: stall`` -> ``module:Class``.
        modules: name -> text.
    """
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        line for point, value in points.items() for line in (f"[{point.split(': ')[0]}]", f"{point.split(': ')[1]} = {value}")
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
