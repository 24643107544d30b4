"""Load the plugin `chaos` in a clone that has the dependencies, but not the package.

If the package is installed, pytest has loaded the plugin before it reads this file, and nothing happens.
"""

import os
import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin, unless it is loaded already, or forbidden (``-p no:chaos``).

    Raises:
        UsageError: it cannot be imported; the message says what is missing, and what to do.
    """
    if pluginmanager.has_plugin("chaos") or pluginmanager.is_blocked("chaos"):
        return
    root = str(Path(__file__).parent)
    sys.path.append(root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))  # for the processes of a run
    try:
        from chaos.pytest_plugin import plugin  # noqa: PLC0415 - a missing package becomes one line
    except ImportError as error:
        raise pytest.UsageError(f"the plugin chaos cannot be loaded ({error}); install it: pip install -e .") from None
    pluginmanager.register(plugin, "chaos")
    pluginmanager.register(plugin.Late(parser))
