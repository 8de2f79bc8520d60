"""Make a new session from the beginning of another: a fork up to a given event, a salvage as far as it verifies.

The source is only read, also while another process writes it. The copy is written and synced whole before it has its
name, so it is there whole or not at all. Lines are taken over byte for byte; only their seals are made anew, with `b`
0, since one sync covers them all.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs

from ..errors import DamagedLog, EventNotFound, LogError, NothingToSalvage, SessionExists
from .directory import LOG_NAME, header_line, list_names, open_log
from .format import BadLine, Record, SessionHeader, read_record, restamp
from .io import CHUNK, FILES, FileIo, durably, publish, release, sync_directory, write_failed
from .lock import claim_directory
from .scanner import FoundHeader, OnRecord, Position, find_header, first_line, scan_lines
from .side import SIDE_NAME


@attrs.frozen
class Salvaged:
    """What a salvage saved, and what ended it."""

    header: SessionHeader  #: of the new session
    records: int
    line: int  #: first line that was left behind, counted from 1 (the header)
    reason: str  #: why; empty when nothing was


class _Enough(Exception):
    """The last line that is wanted was read."""


def fork(
    source: Path, directory: Path, header: SessionHeader, upto_seq: int, *, io: FileIo = FILES, force: bool = False
) -> None:
    """Copy the events up to and including `upto_seq` (-1: none) and all side files into the new session `directory`.

    `header` is the new session's; fields of the source's header that this program does not know are added to it.

    Raises:
        EventNotFound: the source's verified part ends before that event.
        SessionExists, SessionLocked, NetworkFileSystem, WriteFailed, LogPoisoned and others: as `Log.create`.
        DamagedLog, UnsupportedVersion, LogUnreadable and others: as `scan`, about the source.
    """
    descriptor = open_log(io, source)
    try:
        found = find_header(io, descriptor, source / LOG_NAME)
        _Copy(io, descriptor, source, found).write(directory, header, upto_seq, force=force)
    finally:
        release(io, descriptor)


def salvage(
    source: Path,
    directory: Path,
    *,
    created_at: int,
    writer: str,
    check: OnRecord = lambda _: None,
    io: FileIo = FILES,
    force: bool = False,
) -> Salvaged:
    """Copy all events that verify, up to the first that does not, into the new session `directory`, as a fork.

    `check` may refuse an event by raising a LogError: it and all that follow stay behind. Line ends that were converted
    become right again. A header that cannot be read is made anew, then what the session was a child of is lost.

    Args:
        created_at: epoch ms, and `writer`: program and version; both for the new header.

    Raises:
        NothingToSalvage: not one event verified. UnsupportedVersion: another program has to do this.
        Others: as `fork`.
    """
    descriptor = open_log(io, source)
    try:
        path = source / LOG_NAME
        try:
            found = find_header(io, descriptor, path)
            reason = ""
        except DamagedLog as error:
            found, reason = _without_header(io, descriptor, path), error.reason
        records = 0

        def count(record: Record) -> None:
            nonlocal records
            check(record)
            records += 1

        try:
            reason = scan_lines(io, descriptor, path, found, found.end, count).reason or reason
        except LogError as error:
            reason = str(error)
        if not records:
            raise NothingToSalvage(path, reason or "it has no events")
        header = SessionHeader(
            id=directory.name, created_at=created_at, forked_from=source.name, seed_length=records, writer=writer
        )
        _Copy(io, descriptor, source, found).write(directory, header, records - 1, force=force)
        return Salvaged(header, records, found.end.line + records, reason)
    finally:
        release(io, descriptor)


@attrs.frozen
class _Copy:
    """An open log to take lines from."""

    io: FileIo
    descriptor: int
    source: Path
    found: FoundHeader

    def write(self, directory: Path, header: SessionHeader, upto_seq: int, *, force: bool) -> None:
        line = header_line(directory, header, self.found.unknown)
        lock = claim_directory(self.io, directory, force=force)
        try:
            self._link_side_files(directory)
            if not publish(self.io, directory / LOG_NAME, lambda write: self._fill(write, line, upto_seq)):
                raise SessionExists(directory)
        finally:
            release(self.io, lock)

    def _fill(self, write: Callable[[bytes], None], header: bytes, upto_seq: int) -> None:
        path = self.source / LOG_NAME
        waiting = bytearray(header)

        def take(line: bytes) -> None:
            waiting.extend(restamp(line, 0) + b"\n")
            if len(waiting) >= CHUNK:
                write(bytes(waiting))
                waiting.clear()

        def stop(record: Record) -> None:
            if record.seq == upto_seq:
                raise _Enough

        if upto_seq >= 0:
            try:
                scan_lines(self.io, self.descriptor, path, self.found, self.found.end, stop, take)
            except _Enough:
                pass
            else:
                raise EventNotFound(path, upto_seq)
        write(bytes(waiting))

    def _link_side_files(self, directory: Path) -> None:
        """They never change, so both sessions can have the same ones; durable before the log that names them."""
        for name in filter(SIDE_NAME.fullmatch, list_names(self.io, self.source)):
            try:
                self.io.link(self.source / name, directory / name)
            except FileExistsError:
                pass  # from an attempt that failed later
            except OSError as error:
                raise write_failed(directory / name, error) from error
        durably(directory, sync_directory, self.io, directory)


def _without_header(io: FileIo, descriptor: int, path: Path) -> FoundHeader:
    """Where the records begin in a log whose first line is no header of it."""
    line, newline = first_line(io, descriptor, path)
    start = Position(len(line) + len(newline), 2, 0, -1)
    with suppress(BadLine):
        if read_record(line).seq == 0:  # the header is gone altogether
            start = Position(0, 1, 0, -1)
    return FoundHeader(SessionHeader(id=path.parent.name, created_at=0, writer=""), {}, start, crlf=False)
