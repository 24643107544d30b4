"""Render the templates of the pages. All values are shown as text: they are escaped, unless they are `Markup`."""

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chaos.common.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGES = ("jinja2", "bokeh")


def require_packages() -> None:
    """Check that the packages for pages can be imported, without importing them.

    Raises:
        RuntimeUnavailableError: one is not installed.
    """
    absent = [name for name in _PACKAGES if find_spec(name) is None]
    if absent:
        raise RuntimeUnavailableError(f"pages need {' and '.join(absent)}, not installed here: pip install {' '.join(absent)}")


def rendered(name: str, values: Mapping[str, Any]) -> str:
    """Render a template with these values."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only needed to write a page

    made = Environment(
        loader=PackageLoader("chaos.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    made.policies["json.dumps_kwargs"] = {"sort_keys": False, "ensure_ascii": False}  # BokehJS wants a model before its uses
    return made
