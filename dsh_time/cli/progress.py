"""How far the reading of a large log has come, where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dsh_time.log import FileIo

#: Bytes of a log from which on reading it takes long enough to be shown.
_LARGE: Final = 32 << 20


@contextmanager
def reading(directory: Path, doing: str, *, times: int = 1) -> Iterator[FileIo]:
    """The way to a session's files, which is read `times` times; with a bar on standard error if that is a terminal.

    Only while the context lasts is anything shown; the files can be used after it.
    """
    from dsh_time.log import FILES, LOG_NAME, FileIo

    try:
        size = (directory / LOG_NAME).stat().st_size * times
    except OSError:
        size = 0
    if size < _LARGE or not sys.stderr.isatty():
        yield FILES
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{doing} {directory.name}", total=size)

        class Counting(FileIo):
            def pread(self, descriptor: int, count: int, offset: int) -> bytes:
                data = super().pread(descriptor, count, offset)
                progress.advance(task, len(data))
                return data

        yield Counting()
