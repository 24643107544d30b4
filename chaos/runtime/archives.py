"""Class archives (AppCDS, JEP 350): the classes of a first, short life of each JVM, mapped into all later ones."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.runtime.artifacts import Parts

KAFKA = "kafka.jsa"
SPARK = "spark.jsa"
RECIPE = "0"

Echo = Callable[[str], None]


def make(parts: "Parts", folder: Path, echo: Echo) -> None:
    """Nothing yet."""
