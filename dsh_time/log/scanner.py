"""Read a log: verify every line in one pass, hand each record on, and judge what stands behind the last good one.

Reading never writes and takes no lock. The hot loop does inline what `format.read_record` does, then that function says
what is wrong with the first line that did not pass.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from zlib import crc32

import attrs
from msgspec import Raw

from ..errors import ConvertedLog, DamagedLog, LogUnreadable, UnsupportedVersion
from .directory import LOG_NAME, open_log
from .format import (
    CRC_LENGTH,
    DECODE_ERRORS,
    FORMAT_VERSION,
    LINE_LIMIT,
    BadLine,
    OtherVersion,
    Record,
    SessionHeader,
    decode_header,
    decode_record,
    nesting_suspicious,
    numbers_suspicious,
    read_record,
)
from .io import CHUNK, FILES, FileIo, release

_FIRST_READ = 4096  # a header nearly always fits, and a listing reads nothing else

OnRecord = Callable[[Record], object]


@attrs.frozen
class Position:
    """A place between two lines, and what the next line has to be."""

    offset: int  #: bytes before it
    line: int  #: number of the line that follows, counted from 1 (the header)
    next_seq: int
    b: int  #: of the record before it; -1 when there is none


@attrs.frozen
class FoundHeader:
    """A header as it was read."""

    header: SessionHeader
    unknown: dict[str, Raw]  #: fields this program does not know
    end: Position
    crlf: bool  #: the line ended in CRLF


@attrs.frozen
class Verdict:
    """What a scan found.

    `state`: `ok`; `pending`, when a last line without its newline may still be being written; `torn`, when what follows
    was never promised to be safe; `damaged`, when it was.
    """

    path: Path
    header: SessionHeader
    state: Literal["ok", "pending", "torn", "damaged"]
    end: Position  #: of the verified part; everything before it was handed on
    reason: str  #: what is wrong with the line at `end`; empty when ok
    crlf: bool  #: lines end in CRLF

    def error(self) -> DamagedLog | None:
        """Why this log cannot be continued; None if it can, once its tail is repaired."""
        if self.state == "damaged":
            return DamagedLog(self.path, self.end.offset, self.end.line, self.reason)
        if self.crlf:
            return ConvertedLog(self.path, 0, 1, "something turned its line ends into CRLF")
        return None


def scan(
    directory: Path, on_record: OnRecord, on_line: Callable[[bytes], object] | None = None, *, io: FileIo = FILES
) -> Verdict:
    """Read the session's whole log, calling `on_record` for every verified record in order.

    `on_line` gets each record's line as it stands in the file, without its line end, before the record is handed on.
    What `on_record` raises passes through. A record may be kept: it holds its own line in memory and nothing more.

    Raises:
        DamagedLog, UnsupportedVersion: already the header is not usable.
        InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable: there is nothing to read.
    """
    descriptor = open_log(io, directory)
    try:
        found = find_header(io, descriptor, directory / LOG_NAME)
        return scan_lines(io, descriptor, directory / LOG_NAME, found, found.end, on_record, on_line)
    finally:
        release(io, descriptor)


def read_header(directory: Path, *, io: FileIo = FILES) -> SessionHeader:
    """Read and check the header alone. Raises what `scan` does."""
    descriptor = open_log(io, directory)
    try:
        return find_header(io, descriptor, directory / LOG_NAME).header
    finally:
        release(io, descriptor)


def find_header(io: FileIo, descriptor: int, path: Path) -> FoundHeader:
    """The header of an open log, which has to belong to the directory the log is in."""
    line, newline = first_line(io, descriptor, path)
    try:
        if not line and not newline:
            raise BadLine("the file is empty")
        if not newline:
            raise BadLine("the header line has no end")
        header, unknown = decode_header(line.removesuffix(b"\r"))
        if header.id != path.parent.name:
            raise BadLine(f"the header is that of session {header.id}")
    except OtherVersion as error:
        raise UnsupportedVersion(path, error.found, FORMAT_VERSION) from error
    except BadLine as error:
        raise DamagedLog(path, 0, 1, str(error)) from error
    return FoundHeader(header, unknown, Position(len(line) + 1, 2, 0, -1), line.endswith(b"\r"))


def first_line(io: FileIo, descriptor: int, path: Path) -> tuple[bytes, bytes]:
    """The first line of an open log, and its newline, empty if it has none within the limit."""
    block = pread(io, descriptor, _FIRST_READ, 0, path)
    while b"\n" not in block and len(block) <= LINE_LIMIT and (more := pread(io, descriptor, CHUNK, len(block), path)):
        block += more
    line, newline, _ = block.partition(b"\n")
    return line, newline


def scan_lines(
    io: FileIo,
    descriptor: int,
    path: Path,
    found: FoundHeader,
    start: Position,
    on_record: OnRecord,
    on_line: Callable[[bytes], object] | None = None,
) -> Verdict:
    """Scan an open log from `start`. `on_line` gets each verified line (no line end) before its record is handed on."""
    offset, seq, b, crlf = start.offset, start.next_seq, start.b, found.crlf
    unread, rest, reason = offset, b"", ""
    while not reason and (chunk := pread(io, descriptor, CHUNK, unread, path)):
        unread += len(chunk)
        block = rest + chunk
        length = block.rfind(b"\n") + 1
        if not length:
            rest = block
            if len(rest) >= LINE_LIMIT:
                reason = f"the line is longer than {LINE_LIMIT} bytes"
            continue
        rest = block[length:]
        block = block[: length - 1]
        careful = _suspicious(block)
        for line in block.split(b"\n"):
            try:
                record = decode_record(line)
                good = (
                    not (careful and _suspicious(line))
                    and record.seq == seq
                    and record.b >= b
                    and line.endswith(b',"b":%d,"crc":"%08x"}' % (record.b, crc32(line[:-CRC_LENGTH])))
                    and not nesting_suspicious(line)
                )
            except DECODE_ERRORS:
                good = False
            size = len(line) + 1
            if not good:
                try:
                    record = _read_in_place(line.removesuffix(b"\r"), seq, b)
                except BadLine as error:
                    reason = str(error)
                    break
                if line.endswith(b"\r"):
                    line, crlf = line[:-1], True
            if on_line is not None:
                on_line(line)
            on_record(record)
            offset += size
            seq += 1
            b = record.b
    end = Position(offset, start.line + seq - start.next_seq, seq, b)
    if reason:
        return Verdict(path, found.header, _judge(io, descriptor, path, end), end, reason, crlf)
    if rest:
        return Verdict(path, found.header, "pending", end, "the last line has no newline", crlf)
    return Verdict(path, found.header, "ok", end, "", crlf)


def pread(io: FileIo, descriptor: int, count: int, offset: int, path: Path) -> bytes:
    """Read, or raise LogUnreadable: an error is never taken for the end of the file."""
    try:
        return io.pread(descriptor, count, offset)
    except OSError as error:
        raise LogUnreadable(path, f"{error.strerror} at byte {offset}") from error


def _suspicious(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return True
    return len(block) >= LINE_LIMIT or numbers_suspicious(block)


def _read_in_place(line: bytes, seq: int, b: int) -> Record:
    record = read_record(line)
    if record.seq != seq:
        raise BadLine(f"seq is {record.seq} where {seq} has to come")
    if record.b < b:
        raise BadLine(f"b is {record.b} after {b}")
    return record


# -- judging damage
#
# Syncs number the log's stretches: every line with the same `b` was written between the same two syncs, no number is
# left out, and a line with `b` proves that all lines with a smaller one were on the disk. So damage followed by a line
# of a later stretch than the damaged one is damage to what was promised; damage to the last stretch can be what a power
# failure left of a batch nobody had been promised.

_CLAIMED_B = re.compile(rb',"b":(0|[1-9][0-9]{0,18}),"crc":"[0-9a-f]{8}"\}')


def _judge(io: FileIo, descriptor: int, path: Path, end: Position) -> Literal["torn", "damaged"]:
    """Whether the bytes at `end`, which are no good line, may be a power failure's doing."""
    zeros, claimed = False, set[int]()
    first = highest = None
    for piece in _pieces(io, descriptor, path, end.offset):
        try:
            b = read_record(piece.removesuffix(b"\r")).b
        except BadLine:
            if first is None:
                zeros = zeros or b"\0" in piece
                claimed |= {b for match in _CLAIMED_B.findall(piece) if (b := int(match)) >= end.b}
            continue
        first = b if first is None else first
        highest = b if highest is None else max(b, highest)
    if claimed and min(claimed) < max(*claimed, highest or 0):
        return "damaged"  # a line that is still legible there was followed by a sync
    if highest is None or highest <= end.b:
        return "torn"  # nothing later was ever begun
    if first != highest or highest > end.b + 1:
        return "damaged"  # the stretch of the damage was followed by a sync
    if end.b < 0:
        return "torn"  # nothing was synced but the header
    # What follows is the stretch after that of the last good line. The damaged lines may be of the one or of the other,
    # and nothing good says which. A power failure leaves zeros; what is still legible may say.
    return "torn" if zeros or highest in claimed else "damaged"


def _pieces(io: FileIo, descriptor: int, path: Path, offset: int) -> Iterator[bytes]:
    """The lines from `offset` on, also a last one without newline; one that is too long comes in pieces."""
    rest = b""
    while chunk := pread(io, descriptor, CHUNK, offset, path):
        offset += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) >= LINE_LIMIT:
            yield rest
            rest = b"}"  # so that what follows of this line is not taken for a line of its own
    if rest:
        yield rest
