"""`packages:` of a command: packages of one registry, in exact versions.

    packages: {pypi: [aiokafka==0.14.0]}            # {python} is an interpreter that imports only these
    packages: {pypi: [confluent-kafka==1.5.0], python: python3.8}
    packages: {npm: [kafkajs@2.2.4]}                # {packages} is the folder node_modules
    packages: {go: [github.com/twmb/franz-go/pkg/kgo@v1.20.7]}          # {packages} is a folder with a go.mod
    packages: {maven: [org.springframework.kafka:spring-kafka:4.0.6]}    # {packages} is the class path

A registry is one class here, with its key, and one in `chaos.install.registries`, which fetches the packages. Versions are
exact, because packages in the cache are found by them.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union

from pydantic import AfterValidator, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from chaos.grammar.base import Message, WrongValueError, shown
from chaos.install.packages import Registry
from chaos.install.registries import GoModules, MavenCentral, Npm, PyPI
from chaos.scenario.one_of import KindByKey, OneOf
from chaos.scenario.texts import Written


def _form(pattern: str, example: str) -> Callable[[str], str]:
    """A check that a text names a package and its version."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise WrongValueError("not-a-package", f"{shown(text)} does not name a package; write {example}")
        return text

    return check


Jar = Annotated[
    str,
    AfterValidator(
        _form(r"[^\s:]+:[^\s:]+:[^\s:]+", "group:artifact:version, e.g. org.apache.spark:spark-avro_2.13:4.2.0"),
    ),
]
Wheel = Annotated[str, AfterValidator(_form(r"[\w.-]+(\[[\w.,-]+\])?==[\w.!+-]+", "name==version, e.g. aiokafka==0.14.0"))]
Module = Annotated[str, AfterValidator(_form(r"(@[\w.-]+/)?[\w.-]+@\d[\w.+-]*", "name@version, e.g. kafkajs@2.2.4"))]

GoPackage = Annotated[
    str,
    AfterValidator(_form(r"[\w.~-]+(/[\w.~-]+)+@v\d[\w.+-]*", "path@version, e.g. github.com/twmb/franz-go/pkg/kgo@v1.20.7")),
]


class PackagesBase(KindByKey):
    """Packages of one registry."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = ("packages",)
    """One of them must be in the command: a program that names none would run without its packages."""
    NOT_NAMED: ClassVar[str]
    """The message if none of them is."""

    @property
    def registry(self) -> Registry:
        """Return the registry that fetches them."""
        raise NotImplementedError


class MavenPackages(PackagesBase):
    """Jars."""

    NOT_NAMED: ClassVar[str] = (
        "nothing here uses {packages}, the class path of packages; write it where it is needed, or leave packages out"
    )

    maven: Annotated[tuple[Jar, ...], Field(min_length=1)]
    """of Maven Central, as ``group:artifact:version``. ``{packages}`` is their class path."""

    @property
    def registry(self) -> Registry:
        return MavenCentral(self.maven)


class PyPIPackages(PackagesBase):
    """Python packages, in an environment of their own."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = ("python", "packages")
    NOT_NAMED: ClassVar[str] = (
        "packages are in an environment of their own, and nothing here names its Python; write {python} in place of python3"
    )
    MISPLACED: ClassVar[Mapping[str, Message]] = {
        "python": Message(
            "python-without-pypi", "python runs packages of PyPI, and these are of another registry; leave it out"
        )
    }

    pypi: Annotated[tuple[Wheel, ...], Field(min_length=1)]
    """of PyPI, as ``name==version``. They get an environment of their own, and ``{python}`` is its interpreter."""
    python: Written | None = None
    """the Python of that environment, a command on the path such as ``python3.8``; the default is the Python that runs this
    framework.
    """

    @property
    def registry(self) -> Registry:
        return PyPI(self.pypi, self.python or "")


class NpmPackages(PackagesBase):
    """Packages for Node.js."""

    NOT_NAMED: ClassVar[str] = (
        "packages are a folder node_modules, and nothing here names it; write environment: {NODE_PATH: '{packages}'}"
    )

    npm: Annotated[tuple[Module, ...], Field(min_length=1)]
    """of npm, as ``name@version``. ``{packages}`` is their folder ``node_modules``, for ``NODE_PATH``."""

    @property
    def registry(self) -> Registry:
        return Npm(self.npm)


class GoPackages(PackagesBase):
    """Packages for Go."""

    NOT_NAMED: ClassVar[str] = (
        "packages are a folder with a go.mod, and nothing here names it; write run: [go, run, -C, '{packages}', …]"
    )

    go: Annotated[tuple[GoPackage, ...], Field(min_length=1)]
    """for Go, as ``path@version``, by what a program imports. ``{packages}`` is a folder with their ``go.mod``, for
    ``go run -C``.
    """

    @property
    def registry(self) -> Registry:
        return GoModules(self.go)


KINDS: tuple[type[PackagesBase], ...] = (MavenPackages, PyPIPackages, NpmPackages, GoPackages)


class _OneOfOrJars(OneOf):
    """Marks the union of kinds, and none; a list names packages of Maven Central, and an empty one stands for none."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        of_one = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, of_one, {"type": "null"}]}

    def _read(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            value = {"maven": value} if value else None
        return None if value is None else super()._read(value)


OF_PACKAGES = _OneOfOrJars(
    KINDS, "Packages", "What a command needs of a registry", ("not-one-registry", "packages are of one registry:")
)

if TYPE_CHECKING:
    Packages = PackagesBase | None
else:
    Packages = Annotated[Union[(*KINDS, None)], OF_PACKAGES]
"""Packages of any registry, or none."""
