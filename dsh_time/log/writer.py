"""The writer of one log. It writes through, one write per batch, and knows at every moment what the disk holds."""

import logging
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ..errors import (
    InvalidDraft,
    LogClosed,
    LogFull,
    LogPoisoned,
    SessionExists,
    WrongProcess,
)
from .directory import LOG_NAME, check_disk, header_line, open_log
from .format import BadLine, Draft, Record, SessionHeader, encode_record
from .io import FILES, FileIo, discard, durably, publish, release, write_all, write_failed
from .lock import claim_directory, take_lock
from .repair import Repair, repair
from .scanner import OnRecord, Position, find_header, scan_lines
from .side import write_side_file

SOFT_LIMIT = 256 << 20  #: bytes of a log from which on a warning is logged
HARD_LIMIT = 2 << 30  #: bytes of a log that no append may pass

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class Log:
    """An open session log, the only one that may write it. Use it as a context manager, or close it.

    Two levels of safety: what `append` returned is *written* and survives the death of this process; what was appended
    before a `sync` that returned is *synced* and survives the loss of power on an honest local disk.

    Two threads may use it: an append waits for a sync that is under way, so that no line claims a sync it was not in.
    """

    directory: Path
    path: Path
    header: SessionHeader
    next_seq: int  #: of the next event
    synced_seq: int  #: of the last event that is synced; -1 when none is
    repaired: Repair | None  #: what was cut off when it was opened

    _closed = True  # until a constructor came to its end

    def __init__(
        self,
        directory: Path,
        header: SessionHeader,
        end: Position,
        descriptors: tuple[int, int],
        io: FileIo,
        repaired: Repair | None = None,
    ) -> None:
        """Not for callers: `create` and `open` make one. Everything before `end` is synced."""
        self.directory = directory
        self.path = directory / LOG_NAME
        self.header = header
        self.next_seq = end.next_seq
        self.synced_seq = end.next_seq - 1
        self.repaired = repaired
        self._io = io
        self._log, self._lock = descriptors
        self._end = end.offset
        self._b = end.b + 1
        self._pid = os.getpid()
        self._failure: str | None = None
        self._one_at_a_time = threading.Lock()
        self._closed = False

    @classmethod
    def create(cls, directory: Path, header: SessionHeader, *, io: FileIo = FILES, force: bool = False) -> Self:
        """Make a session with no events in a directory named as its id; missing directories are made.

        Raises:
            SessionExists, SessionLocked, InvalidSessionId, UnsafePath: it cannot be made there.
            InvalidDraft: this header could not be read back.
            NetworkFileSystem: not on that disk, unless forced.
            WriteFailed, LogPoisoned: the system refused; no session was made or, if poisoned, perhaps an empty one.
        """
        line = header_line(directory, header)
        lock = claim_directory(io, directory, force=force)
        try:
            if not publish(io, directory / LOG_NAME, lambda write: write(line)):
                raise SessionExists(directory)
            log = open_log(io, directory, write=True)
        except BaseException:
            release(io, lock)
            raise
        return cls(directory, header, Position(len(line), 2, 0, -1), (log, lock), io)

    @classmethod
    def open(cls, directory: Path, on_record: OnRecord, *, io: FileIo = FILES, force: bool = False) -> Self:
        """Lock a session, read it in one pass, cut a torn tail, sync, and go on where it ends.

        `on_record` is called for every record there is. If it raises, the error passes through, the lock is released
        and nothing was changed.

        Raises:
            SessionLocked: another process writes it.
            DamagedLog, ConvertedLog, UnsupportedVersion: it must not be continued; nothing was changed.
            NetworkFileSystem: not on that disk, unless forced.
            InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable, WriteFailed, LogPoisoned: see their texts.
        """
        log = open_log(io, directory, write=True)
        descriptors = [log]
        try:
            check_disk(io, directory, force=force)
            descriptors.append(lock := take_lock(io, directory))
            path = directory / LOG_NAME
            found = find_header(io, log, path)
            verdict = scan_lines(io, log, path, found, found.end, on_record)
            if error := verdict.error():
                raise error
            _remove_leftovers(io, directory)
            repaired = None if verdict.state == "ok" else repair(io, log, verdict)
            durably(path, io.sync_data, log)
        except BaseException:
            for descriptor in descriptors:
                release(io, descriptor)
            raise
        return cls(directory, found.header, verdict.end, (log, lock), io, repaired)

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """Write a batch of events, all or none, in one write; returns their records, in order. They are not synced.

        Raises:
            InvalidDraft, LogFull: nothing was written.
            WriteFailed: what was written was taken back; the log can be used.
            LogPoisoned, LogClosed, WrongProcess: this handle writes no more.
        """
        self._check_process()
        with self._one_at_a_time:
            self._check_usable()
            lines, records = [], []
            for seq, draft in enumerate(drafts, self.next_seq):
                try:
                    line, record = encode_record(seq, draft, self._b)
                except BadLine as error:
                    raise InvalidDraft(self.path, draft.type, str(error)) from error
                lines.append(line)
                records.append(record)
            if lines:
                self._write(b"\n".join([*lines, b""]), len(lines))
            return records

    def sync(self) -> None:
        """Return when everything appended so far is synced. Costs nothing when it is already.

        Raises:
            LogPoisoned: the sync failed; it is never tried again. LogClosed, WrongProcess: as `append`.
        """
        self._check_process()
        with self._one_at_a_time:
            self._check_usable()
            if self.synced_seq + 1 < self.next_seq:
                self._sync()

    def write_side_file(self, data: bytes) -> str:
        """Store large output beside the log, synced, and return the name that an event may give for it.

        Raises:
            WriteFailed, SideFileError: it is not stored; the log can be used. LogPoisoned and others: as `append`.
        """
        self._check_process()
        with self._one_at_a_time:
            self._check_usable()
            return self._or_poison(write_side_file, self._io, self.directory, data)

    def close(self) -> None:
        """Close the log and release the lock. Nothing is synced by this. A second call does nothing.

        In a forked child it closes the child's copies; the parent keeps its lock.

        Raises:
            LogPoisoned: the system reported only now that a write was lost.
        """
        if not self._closed:
            self._closed = True
            try:
                durably(self.path, self._io.close, self._log)
            finally:
                durably(self.path, self._io.close, self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self._pid == os.getpid():
            warnings.warn(f"the log {self.path} was never closed", ResourceWarning, source=self, stacklevel=2)
            self.close()

    # -- inside

    def _write(self, data: bytes, count: int) -> None:
        end = self._end + len(data)
        if end > HARD_LIMIT:
            raise LogFull(self.path, self._end, HARD_LIMIT)
        self._check_undisturbed()
        if self._end < SOFT_LIMIT <= end:
            _logger.warning("%s grows over %d bytes; better start a new session soon", self.path, SOFT_LIMIT)
        try:
            write_all(self._io, self._log, data)
            self._end, self.next_seq = end, self.next_seq + count
        except BaseException as error:  # also KeyboardInterrupt: whoever raises has acknowledged nothing
            self._roll_back()
            if isinstance(error, OSError):
                raise write_failed(self.path, error) from error
            raise

    def _roll_back(self) -> None:
        """Take back what a failed write left, and sync that: else a power failure could bring lines of it back."""
        self._failure = "taking back a failed write was interrupted"
        try:
            self._io.truncate(self._log, self._end)
        except OSError as error:
            self._failure = f"a failed write could not be taken back ({error.strerror})"
            raise LogPoisoned(self.path, self._failure) from error
        self._sync()
        self._failure = None

    def _sync(self) -> None:
        self._or_poison(self._io.sync_data, self._log)
        if self.synced_seq + 1 < self.next_seq:  # a stretch without a line has no number
            self.synced_seq = self.next_seq - 1
            self._b += 1

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise WrongProcess(self.path, self._pid)

    def _check_usable(self) -> None:
        if self._closed:
            raise LogClosed(self.path)
        if self._failure is not None:
            raise LogPoisoned(self.path, self._failure)

    def _check_undisturbed(self) -> None:
        """The open file is still the one under its name, and ends where this handle's last write ended."""
        try:
            opened, named = self._io.stat_open(self._log), self._io.stat_path(self.path)
        except FileNotFoundError:
            self._failure = "the file was removed"
        except OSError as error:
            self._failure = f"the file's state cannot be read ({error.strerror})"
        else:
            if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
                self._failure = "the file was replaced by another"
            elif opened.st_size != self._end:
                self._failure = (
                    f"the file has {opened.st_size} bytes instead of {self._end}: something else wrote to it"
                )
        if self._failure is not None:
            raise LogPoisoned(self.path, self._failure)

    def _or_poison(self, action: Callable[..., _Result], *arguments: object) -> _Result:
        try:
            return durably(self.path, action, *arguments)
        except LogPoisoned as error:
            self._failure = error.reason
            raise


def _remove_leftovers(io: FileIo, directory: Path) -> None:
    """Take away temporary files that a crash left. They hinder nothing, so an error does not either."""
    with suppress(OSError):
        for name in io.names(directory):
            if name.endswith(".tmp"):
                discard(io, directory / name)
