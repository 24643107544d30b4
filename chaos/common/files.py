"""Files that are written in one step: a reader sees the old text or the new one, never a part of it."""

from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a text file, replacing what was there; a line break is added at its end.

    Raises:
        OSError: it cannot be written; the old text stays.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
