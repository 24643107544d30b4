"""Text that fits into one line of a message."""

import re


def one_line(text: str, limit: int = 200) -> str:
    """White space and line breaks become single spaces; what is too long is cut."""
    flat = re.sub(r"[ \t\r\n]+", " ", text).strip()
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
