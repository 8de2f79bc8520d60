"""What the program logs about itself (`logging`, not session logs) goes to standard error, one safe line each.

The lines of a traceback follow, indented, so that none passes for a message."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .output import note

_FORMATTER = logging.Formatter()
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _ToStderr(logging.Handler):
    """Prints records as the commands print their notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            for line in _FORMATTER.formatException(record.exc_info).splitlines():
                note(f"  {line}")


def log_to_stderr(verbosity: int) -> Callable[[], None]:
    """Print warnings and worse; with 1 also what goes on, with 2 everything. Returns what ends it."""
    root = logging.getLogger()
    before = root.level
    handler = _ToStderr()
    root.addHandler(handler)
    root.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])

    def end() -> None:
        root.removeHandler(handler)
        root.setLevel(before)

    return end
