"""Benchmarks are programs beside the packages: their modules find each other in their own folder, and so do these tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
