"""Follow a log that another process may be writing."""

from pathlib import Path

from ..errors import LogUnreadable, SessionNotFound
from .directory import LOG_NAME, open_log
from .format import Record
from .io import FILES, FileIo, durably, release
from .scanner import FoundHeader, Position, find_header, pread, scan_lines

_MARK = 64  #: bytes that are remembered from before the place that was read up to


class Tail:
    """A reader that remembers how far it came. It holds nothing open between two polls and takes no lock."""

    restarted: bool  #: the last poll began again at seq 0: fold its records anew, those handed on before are void

    def __init__(self, directory: Path, *, io: FileIo = FILES) -> None:
        self.restarted = False
        self._directory = directory
        self._path = directory / LOG_NAME
        self._io = io
        self._found: FoundHeader | None = None
        self._end = Position(0, 1, 0, -1)
        self._identity = (0, 0)
        self._mark = b""

    def poll(self) -> list[Record]:
        """The records that were completed since the last poll. A line without its newline waits for the next.

        A file that shrank, was replaced, or holds other bytes where this reader has been (a writer took a failed batch
        back) is read from its start, and `restarted` says so.

        Raises:
            DamagedLog: after all records before the damage were handed on.
            Others: as `scan`.
        """
        descriptor = open_log(self._io, self._directory)
        try:
            return self._read(descriptor)
        finally:
            release(self._io, descriptor)

    def changed(self) -> bool:
        """Whether the file is another, longer or shorter than where this reader is: a poll may give something.

        Costs one look at the file's attributes. Raises SessionNotFound or LogUnreadable.
        """
        try:
            status = self._io.stat_path(self._path)
        except FileNotFoundError as error:
            raise SessionNotFound(self._directory) from error
        except OSError as error:
            raise LogUnreadable(self._path, error.strerror or str(error)) from error
        return (status.st_dev, status.st_ino, status.st_size) != (*self._identity, self._end.offset)

    def sync(self) -> None:
        """Make durable what was read, so that it may be told elsewhere. Raises LogPoisoned and others, as `poll`."""
        descriptor = open_log(self._io, self._directory)
        try:
            durably(self._path, self._io.sync_data, descriptor)
        finally:
            release(self._io, descriptor)

    def _read(self, descriptor: int) -> list[Record]:
        status = self._io.stat_open(descriptor)
        identity = (status.st_dev, status.st_ino)
        found, start, mark = self._found, self._end, self._mark
        self.restarted = found is not None and (identity != self._identity or not self._is_where_it_was(descriptor))
        if found is None or self.restarted:
            found = find_header(self._io, descriptor, self._path)
            start, mark = found.end, b""
        records: list[Record] = []
        lines: list[bytes] = []
        verdict = scan_lines(self._io, descriptor, self._path, found, start, records.append, lines.append)
        if verdict.state == "damaged" and not records and (error := verdict.error()):
            raise error
        if lines:
            mark = lines[-1][-_MARK:] + (b"\r\n" if verdict.crlf else b"\n")
        self._found, self._end, self._identity, self._mark = found, verdict.end, identity, mark
        return records

    def _is_where_it_was(self, descriptor: int) -> bool:
        mark = self._mark
        return pread(self._io, descriptor, len(mark), self._end.offset - len(mark), self._path) == mark
