"""One line of the log: how it is written, sealed, read and checked. Bytes in, values out; no file is touched here.

A line is one JSON object, UTF-8, ended by a single newline. The header is the first line; every other line is a record.
The last fields seal it: `b`, the number of successful syncs before the line (records only), and `crc`, the CRC-32 of
the line's bytes before `,"crc"`. Verifying never re-serialises. Lines here are passed without their newline.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Raw, Struct

from dsh_hookspecs import SurfaceReplace

FORMAT_VERSION = 1
LINE_LIMIT = 8 << 20  #: bytes of one line, newline included
DEPTH_LIMIT = 200  #: arrays and objects inside one another
INTEGER_LIMIT = 2**63  #: integers n have -2**63 <= n < 2**63

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

Count = Annotated[int, Meta(ge=0)]


class BadLine(Exception):
    """These bytes are no line of a log; the text says why. Callers add the file, the offset and the line number."""


class OtherVersion(BadLine):
    """The header says that another version of the format follows."""

    def __init__(self, found: int) -> None:
        super().__init__(f"format version {found}")
        self.found = found


class SessionHeader(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="session"
):
    """The first line. `created_at` is epoch ms. Fields this program does not know are kept when a session is forked."""

    version: int = msgspec.field(default_factory=lambda: FORMAT_VERSION)  # a factory's default is written out
    id: str
    created_at: int
    parent_session: str | None = None
    ancestor_seqs: tuple[Count, ...] | None = None  #: last seq of each ancestor's log, nearest first
    delegation_depth: Count = msgspec.field(default_factory=int)  #: 0 for a session without a parent
    origin: str | None = None  #: `subagent` for a child
    forked_from: str | None = None
    seed_length: Count | None = None  #: how many leading events came with the fork
    writer: str  #: program and version


class Unsealed(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A record before its seal. `time` is epoch ms and may go back; `seq` alone gives the order."""

    seq: Count
    time: int
    type: str
    data: Raw  #: the payload's JSON; a view that keeps its own line in memory, nothing more
    surface_op: SurfaceReplace | Literal["append"] | None = None  #: None means append, as the word does
    source_event_seqs: tuple[Count, ...] | None = None
    ignorable: bool = False


class Record(Unsealed, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A record as it stands in the log. Its payload is decoded by type, by whoever reads that type."""

    b: Count  #: number of successful syncs before this line


class Draft(Struct, frozen=True, gc=False):
    """An event to append: all but `seq`, which the log counts. `data` is one JSON value without a raw newline."""

    time: int  #: epoch ms
    type: str
    data: bytes
    surface_op: SurfaceReplace | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False


decode_record = msgspec.json.Decoder(Record).decode

#: What decoding any bytes can raise: wrong JSON or shape, and nesting that exhausts the interpreter's stack.
DECODE_ERRORS = (msgspec.MsgspecError, RecursionError)

_encode = msgspec.json.Encoder().encode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_header = msgspec.json.Decoder(SessionHeader).decode

CRC_LENGTH = len(',"crc":"00000000"}')
_SEAL = re.compile(rb',"b":(0|[1-9][0-9]{0,18}),"crc":"[0-9a-f]{8}"\}\Z')
_HEADER_FIELDS = frozenset({*SessionHeader.__struct_encode_fields__, "type", "crc"})


def clean_text(text: str | bytes) -> tuple[str, bool]:
    """Make text fit for the log: what is no Unicode becomes U+FFFD; the flag says whether anything did.

    Text from a user, a tool or a model passes here once; the flag goes into the event's data as `lossy`.
    """
    if isinstance(text, bytes):
        try:
            return text.decode(), False
        except UnicodeDecodeError:
            return text.decode("utf-8", "replace"), True
    if text.isascii():
        return text, False
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text), True
    return text, False


def encode_header(header: SessionHeader, unknown: Mapping[str, Raw] | None = None) -> bytes:
    """The header's line; `unknown` are fields taken over from another header as they stood.

    Raises:
        BadLine: a reader would refuse it.
    """
    try:
        body = _encode(header)[:-1]
    except UnicodeEncodeError as error:
        raise BadLine(str(error)) from error
    if unknown:
        body += b"," + _encode(unknown)[1:-1]
    line = body + b',"crc":"%08x"}' % crc32(body)
    decode_header(line)
    return line


def decode_header(line: bytes) -> tuple[SessionHeader, dict[str, Raw]]:
    """Read and check the header's line; also returns the fields this program does not know.

    The version is looked at before anything else in the line, since another version may seal or shape it otherwise.

    Raises:
        OtherVersion: the line is sound, or of a later version.
        BadLine: it is no header.
    """
    sound = line.endswith(b',"crc":"%08x"}' % crc32(line[:-CRC_LENGTH]))
    fields = _parse(line, _decode_fields)
    try:
        version = msgspec.json.decode(fields.get("version", b""), type=int)
    except DECODE_ERRORS:
        version = FORMAT_VERSION  # decoding the whole header says what is wrong with it
    if version > FORMAT_VERSION or (sound and version != FORMAT_VERSION):
        raise OtherVersion(version)
    if bytes(fields.get("type", b"")) != b'"session"':
        raise BadLine("the line is no session header")
    if not sound:
        raise BadLine("the checksum of the header does not match")
    check_limits(line)
    header = _parse(line, _decode_header)
    if "version" not in fields:
        raise BadLine("the header has no version")
    for name in (header.id, header.parent_session, header.forked_from):
        if name is not None and not SESSION_ID.fullmatch(name):
            raise BadLine(f"the header names {name!r}, which is no session id")
    return header, {name: value for name, value in fields.items() if name not in _HEADER_FIELDS}


def encode_record(seq: int, draft: Draft, b: int) -> tuple[bytes, Record]:
    """The line of an event, and the record a reader will get from it.

    The line is read back with the reader's own checks (but for the seal, which was just made), so that nothing is
    written that would be refused later.

    Raises:
        BadLine: the draft cannot be logged.
    """
    try:
        _decode_raw(draft.data)  # one value, not a value and then fields of the envelope
        body = _encode(
            Unsealed(
                seq, draft.time, draft.type, Raw(draft.data), draft.surface_op, draft.source_event_seqs, draft.ignorable
            )
        )
    except (*DECODE_ERRORS, UnicodeEncodeError) as error:
        raise BadLine(f"its data is no JSON ({error})") from error
    line = seal(body[:-1], b)
    if b"\n" in line:
        raise BadLine("its data has a raw newline")
    _check_length(line)
    return line, _read_sealed(line)


def seal(open_line: bytes, b: int) -> bytes:
    """Finish a line whose closing brace was cut off."""
    body = b'%b,"b":%d' % (open_line, b)
    return body + b',"crc":"%08x"}' % crc32(body)


def restamp(line: bytes, b: int) -> bytes:
    """The same verified line with another `b`: only the seal is cut and made anew, unknown fields stay as they are."""
    match = _find_seal(line)
    assert match is not None
    return seal(line[: match.start()], b)


def read_record(line: bytes) -> Record:
    """Check one line by itself: length, seal, encoding, shape, limits. Its place in the log is the scanner's matter.

    The scanner does the same, inlined; this one also says what is wrong.

    Raises:
        BadLine: with the reason.
    """
    _check_length(line)
    if not _find_seal(line):
        raise BadLine("the line does not end in its seal (b and crc)")
    if not line.endswith(b'"%08x"}' % crc32(line[:-CRC_LENGTH])):
        raise BadLine("the checksum does not match")
    return _read_sealed(line)


def _check_length(line: bytes) -> None:
    if len(line) >= LINE_LIMIT:
        raise BadLine(f"the line is longer than {LINE_LIMIT} bytes")


def _read_sealed(line: bytes) -> Record:
    record = _parse(line, decode_record)
    check_limits(line)
    return record


def _find_seal(line: bytes) -> re.Match[bytes] | None:
    return _SEAL.search(line, max(0, len(line) - 64))


_Line = TypeVar("_Line")


def _parse(line: bytes, decode: Callable[[bytes], _Line]) -> _Line:
    if line.startswith(b"\xef\xbb\xbf"):
        raise BadLine("the line begins with a byte order mark")
    try:
        line.decode()
        return decode(line)
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise BadLine(f"nested deeper than {DEPTH_LIMIT}") from error
    except msgspec.MsgspecError as error:
        raise BadLine(str(error)) from error


# The limits on numbers cost too much to check number by number in every line. So a cheap look at the bytes first: with
# all digits made 0, a number out of range begins with a long run of zeros or ends in a large exponent. Text can look
# like that too; then the careful check decides.
_FLAT = bytes(ord("0") if chr(byte).isdigit() else ord("e") if byte == ord("E") else byte for byte in range(128))
_FLAT += bytes(range(128, 256))
_RUN = b"0" * 19
_LONG = re.compile(rb"[:,\[\s-]0{19}")
_EXPONENT = re.compile(rb"0e[+-]?000+[,}\]\s]")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # the last quote is optional to stay linear on any bytes
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*+")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def numbers_suspicious(text: bytes) -> bool:
    """Whether these bytes, one line or many, may hold a number out of range. False is certain."""
    flat = text.translate(_FLAT)
    return (_RUN in flat and _LONG.search(flat) is not None) or _EXPONENT.search(flat) is not None


def nesting_suspicious(line: bytes) -> bool:
    """Whether this line may be nested too deeply. False is certain."""
    return len(line) > 2 * DEPTH_LIMIT and line.count(b"{") + line.count(b"[") > DEPTH_LIMIT


def check_limits(line: bytes) -> None:
    """Check the numbers and the nesting of a line that is valid JSON.

    Raises:
        BadLine: an integer, a float or the nesting is out of range.
    """
    if not (nesting_suspicious(line) or numbers_suspicious(line)):
        return
    bare = _STRING.sub(b'""', line)
    depth = 0
    for bracket in bare.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_LIMIT:
            raise BadLine(f"nested deeper than {DEPTH_LIMIT}")
    for number in _NUMBER.findall(bare):
        if not number.lstrip(b"-").isdigit():
            if math.isinf(float(number)):
                raise BadLine(f"the number {number[:40].decode()} is out of range")
        elif len(number) > 20 or not -INTEGER_LIMIT <= int(number) < INTEGER_LIMIT:
            raise BadLine(f"the integer {number[:40].decode()} is out of range")
