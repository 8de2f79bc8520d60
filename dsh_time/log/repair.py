"""Cut a torn tail. Only a writer that holds the lock does this, after the bytes it cuts were saved and synced."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from .io import CHUNK, FileIo, durably, publish, write_failed
from .scanner import Verdict, pread


@attrs.frozen
class Repair:
    """What was cut. Always reported to the user."""

    offset: int  #: first byte that was cut
    line: int  #: its line, counted from 1 (the header)
    length: int  #: bytes
    reason: str
    saved: Path  #: where these bytes are now

    def __str__(self) -> str:
        return (
            f"{self.length} bytes at byte {self.offset}, line {self.line}, were cut off ({self.reason}): they had never"
            f" been promised to be safe. They are kept in {self.saved}."
        )


def repair(io: FileIo, descriptor: int, verdict: Verdict) -> Repair:
    """Save everything behind the verified part beside the log, then cut it. Done twice, it saves the same file.

    Raises:
        WriteFailed, LogUnreadable: nothing was cut.
        LogPoisoned: a sync failed.
    """
    path, offset = verdict.path, verdict.end.offset

    def tail() -> Iterator[bytes]:
        place = offset
        while chunk := pread(io, descriptor, CHUNK, place, path):
            place += len(chunk)
            yield chunk

    digest, length = hashlib.sha256(), 0
    for chunk in tail():
        digest.update(chunk)
        length += len(chunk)

    def fill(write: Callable[[bytes], None]) -> None:
        for chunk in tail():
            write(chunk)

    saved = path.with_name(f"{path.name}.cut-{offset}-{digest.hexdigest()[:16]}")
    publish(io, saved, fill)
    try:
        io.truncate(descriptor, offset)
    except OSError as error:
        raise write_failed(path, error) from error
    durably(path, io.sync, descriptor)
    return Repair(offset, verdict.end.line, length, verdict.reason, saved)
