"""Files that are written in one step: who reads one sees the old text or the new one, never half of it."""

from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a text file, in place of what was there; a line break is added at its end.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
