"""The folder of a demo: a scenarios file and two programs, which the user may read and change.

No existing file is overwritten: the folder is new, empty, or the unchanged folder of an earlier demo.
"""

from pathlib import Path

from chaos.common.errors import ChaosError
from chaos.common.files import require_folder, write_atomically

SCENARIOS = "scenarios.yaml"
PAGE = "report.html"
RUNS = "runs"
_SHIPPED = Path(__file__).with_name("files")
_IGNORED = ".gitignore"
_ELSEWHERE = "name another folder with --into"


class DemoUsageError(ChaosError):
    """The files of the demo cannot be written to this folder; the message says why, and what to do."""


def texts() -> dict[str, str]:
    """Map each file to its text, the scenarios first: by them a later demo recognizes its folder."""
    shipped = {path.name: path.read_text(encoding="utf-8") for path in sorted(_SHIPPED.glob("*.*"))}
    return {SCENARIOS: shipped.pop(SCENARIOS), **shipped, _IGNORED: "*\n"}


def check(folder: Path) -> None:
    """Check that the files can be written, and that the folder holds no files of the user.

    Raises:
        DemoUsageError: a file cannot be written, or the folder holds other files.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _require_earlier_demo(folder)
        elif folder.exists() and not folder.is_dir():
            raise DemoUsageError(f"{folder}: is a file; {_ELSEWHERE}")
        require_folder(folder)
    except OSError as error:
        raise _failed(folder, error) from None


def write(folder: Path) -> None:
    """Write the files that do not exist yet.

    Raises:
        DemoUsageError: one cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts().items():
            if not (folder / name).exists():
                write_atomically(folder / name, text.rstrip("\n"))
    except OSError as error:
        raise _failed(folder, error) from None


def _require_earlier_demo(folder: Path) -> None:
    marker = texts()[SCENARIOS].partition("\n")[0]
    if _text(folder / SCENARIOS).partition("\n")[0] != marker:
        raise DemoUsageError(f"{folder}: is not empty, and is not the folder of an earlier demo; {_ELSEWHERE}")
    for name, text in texts().items():
        if (folder / name).exists() and _text(folder / name) != text:
            raise DemoUsageError(
                f"{folder / name}: differs from the file of this demo, and is not overwritten; {_ELSEWHERE}, "
                f"or run the existing files: cd {folder} && pytest -m chaos {SCENARIOS}"
            )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _failed(folder: Path, error: OSError) -> DemoUsageError:
    return DemoUsageError(f"{folder}: cannot be written: {error.strerror}; {_ELSEWHERE}")
