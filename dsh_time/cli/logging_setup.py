"""What the program logs about itself (`logging`, not session logs) goes to standard error, one safe line each."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .output import note

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class _ToStderr(logging.Handler):
    """Prints records as the commands print their notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {self.format(record)}")


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
