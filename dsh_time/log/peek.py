"""A look at the two ends of a log, at a cost that does not grow with it: for listings, not for folds."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from .directory import LOG_NAME, open_log
from .format import LINE_LIMIT, BadLine, Record, read_record
from .io import CHUNK, FILES, FileIo, release
from .scanner import pread

_FIRST_LOOK = 16 << 10  #: bytes from the end that nearly always hold a whole line
_FURTHEST_LOOK = 2 * LINE_LIMIT  #: bytes from the end that hold a whole line if there is one


def newest_records(directory: Path, *, io: FileIo = FILES) -> Generator[Record, None, None]:
    """Yield the lines near the end that verify by themselves, newest first; stop when you have seen enough.

    What was not promised to be safe may be among them, and damage is passed over. At most 16 MiB are read.

    Raises:
        InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable: there is nothing to read.
    """
    descriptor = open_log(io, directory)
    try:
        path = directory / LOG_NAME
        size = start = io.stat_open(descriptor).st_size
        look, rest, unfinished = _FIRST_LOOK, b"", True
        while start and size - start < _FURTHEST_LOOK:
            end, start = start, max(0, start - look)
            look = min(look * 8, CHUNK)
            rest, *lines = (_read(io, descriptor, path, start, end) + rest).split(b"\n")
            if unfinished and lines:
                lines.pop()  # what stands behind the last line end
                unfinished = False
            for line in reversed(lines):
                try:
                    yield read_record(line.removesuffix(b"\r"))
                except BadLine:
                    continue
    finally:
        release(io, descriptor)


def last_record(directory: Path, *, io: FileIo = FILES) -> Record | None:
    """Return the first of `newest_records`, None when there is none. Raises as that does."""
    records = newest_records(directory, io=io)
    try:
        return next(records, None)
    finally:
        records.close()


def _read(io: FileIo, descriptor: int, path: Path, start: int, end: int) -> bytes:
    pieces = []
    while start < end and (piece := pread(io, descriptor, min(CHUNK, end - start), start, path)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
