"""A look at the two ends of a log, at a cost that does not grow with it: for listings, not for folds."""

from __future__ import annotations

from pathlib import Path

from .directory import LOG_NAME, open_log
from .format import LINE_LIMIT, BadLine, Record, read_record
from .io import CHUNK, FILES, FileIo, release
from .scanner import pread

_FIRST_LOOK = 16 << 10  #: bytes from the end that nearly always hold a whole line


def last_record(directory: Path, *, io: FileIo = FILES) -> Record | None:
    """Return the newest line that verifies by itself, None when there is none near the end.

    What was not promised to be safe may be among it, and damage further back is not seen.

    Raises:
        InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable: there is nothing to read.
    """
    descriptor = open_log(io, directory)
    try:
        path = directory / LOG_NAME
        size = io.stat_open(descriptor).st_size
        look = _FIRST_LOOK
        while True:
            start = max(0, size - look)
            tail = _read(io, descriptor, path, start, size)
            lines = tail.split(b"\n")[:-1]
            for line in reversed(lines[1:]):  # the first may be cut off, or is the header
                try:
                    return read_record(line.removesuffix(b"\r"))
                except BadLine:
                    continue
            if start == 0 or look > LINE_LIMIT:
                return None
            look *= 8
    finally:
        release(io, descriptor)


def _read(io: FileIo, descriptor: int, path: Path, start: int, end: int) -> bytes:
    pieces = []
    while start < end and (piece := pread(io, descriptor, min(CHUNK, end - start), start, path)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
