"""Text that fits into one line of a message."""

import re


def one_line(text: str, limit: int = 200) -> str:
    """Replace each run of white space by one space, and cut the text off at `limit` characters."""
    flat = re.sub(r"[ \t\r\n]+", " ", text).strip()
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
