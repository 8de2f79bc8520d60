"""Every way a few bytes can go wrong: cut, flipped, doubled, swapped, converted. Nothing is ever silently different."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_time.errors import DshTimeError, NothingToSalvage, UnsupportedVersion
from dsh_time.log import Draft, FileIo, Log, Record, SessionHeader, Tail, fork, last_record, salvage, scan, verify
from dsh_time.log.format import encode_header, encode_record

from .memory_disk import MemoryDisk

ROOT = Path("/home")
SESSION = ROOT / "s1"
LOG = SESSION / "log.jsonl"
HEADER = SessionHeader(id="s1", created_at=1_790_000_000_000, writer="dsh-time 0.1.0")
TEXTS = ["plain", "几点了？", 'quoted "b":0', "\u2028\u0085", "", "0" * 30]


def log_lines(*stretches: int) -> list[bytes]:
    """A header and events, so many in each stretch between two syncs; each line with its newline."""
    lines = [encode_header(HEADER) + b"\n"]
    for b, count in enumerate(stretches):
        for _ in range(count):
            seq = len(lines) - 1
            text = TEXTS[seq % len(TEXTS)].replace('"', '\\"')
            draft = Draft(1_790_000_000_000 + seq, "user/message", b'{"text":"%s"}' % text.encode())
            lines.append(encode_record(seq, draft, b)[0] + b"\n")
    return lines


def machine(content: bytes) -> MemoryDisk:
    return MemoryDisk({ROOT: None, SESSION: None, LOG: content})


Event = tuple[int, int, str, bytes]


def read(io: FileIo, directory: Path = SESSION) -> tuple[str, list[Event]]:
    """The state a reader sees, and the events it gets."""
    records: list[Record] = []
    verdict = scan(directory, records.append, io=io)
    return verdict.state, events_of(records)


def events_of(records: list[Record]) -> list[Event]:
    return [(record.seq, record.time, record.type, bytes(record.data)) for record in records]


class Silent(AssertionError):
    """A log was read differently from what was written, and nobody said so."""


def examine(content: bytes, original: list[Event]) -> str:
    """Do with these bytes all that can be done with a log. Returns how they were judged.

    Whatever they are: nothing but typed errors, nothing that was not written, and no change without a word.
    """
    disk = machine(content)
    refusal: DshTimeError | None = None
    try:
        state, found = read(disk)
    except DshTimeError as error:
        state, found, refusal = "refused", [], error
    if state == "refused":
        assert str(LOG) in str(refusal)
        assert "dsh-time salvage s1" in str(refusal) or isinstance(refusal, UnsupportedVersion)
    if found != original[: len(found)]:
        raise Silent(f"read {found}")
    if state == "ok" and content.replace(b"\r\n", b"\n") != b"".join(LINES[: len(found) + 1]):
        raise Silent(f"ok with {len(found)} of {len(original)} events")
    report = verify(SESSION, io=disk)
    assert (report.state == "ok") == (state == "ok" and b"\r\n" not in content)
    assert report.records == len(found)
    if found:
        assert events_of(Tail(SESSION, io=disk).poll()) == found
    last_record(SESSION, io=disk)
    assert disk.tree()[LOG] == content
    try:
        assert salvage(SESSION, ROOT / "s2", created_at=1, writer="w", io=disk).records >= len(found)
        assert read(disk, ROOT / "s2")[1][: len(found)] == found
    except (NothingToSalvage, UnsupportedVersion):
        assert not found
    if found:
        fork(SESSION, ROOT / "s3", SessionHeader(id="s3", created_at=1, writer="w"), len(found) - 1, io=disk)
        assert read(disk, ROOT / "s3") == ("ok", found)
    records: list[Record] = []
    try:
        log = Log.open(SESSION, records.append, io=disk)
    except DshTimeError:
        assert state in ("refused", "damaged") or report.state == "converted"
        assert disk.tree()[LOG] == content
        return state
    assert events_of(records) == found
    assert (log.repaired is None) == (state == "ok")
    repaired = disk.tree()[LOG]
    assert repaired is not None
    if log.repaired is not None:
        assert repaired + (disk.tree()[log.repaired.saved] or b"") == content
    log.append([Draft(1, "user/message", b"{}")])
    log.close()
    again = Log.open(SESSION, lambda record: None, io=disk)
    assert again.repaired is None
    again.close()
    assert (disk.tree()[LOG] or b"").startswith(repaired)
    return state


LINES = log_lines(2, 2, 1)
WHOLE = b"".join(LINES)
ORIGINAL = read(machine(WHOLE))[1]
LAST_STRETCH = len(b"".join(LINES[:-1]))
HEADER_END = len(LINES[0])


def test_cut_at_every_byte_it_is_a_prefix() -> None:
    """R1, R25: and where a line is whole, it is found."""
    for end in range(len(WHOLE)):
        state = examine(WHOLE[:end], ORIGINAL)
        if end < HEADER_END:
            assert state == "refused"
        else:
            at_a_line_end = WHOLE[:end].endswith(b"\n")
            assert state == ("ok" if at_a_line_end else "pending")
            assert len(read(machine(WHOLE[:end]))[1]) == WHOLE[:end].count(b"\n") - 1


def test_no_flipped_bit_goes_unnoticed() -> None:
    """C7: in what was synced and followed by more it is refused; in the last stretch it is cut off, and told."""
    seen = dict.fromkeys(("refused", "damaged", "torn", "pending"), 0)
    for at in range(len(WHOLE)):
        for bit in range(8):
            flipped = bytearray(WHOLE)
            flipped[at] ^= 1 << bit
            state = examine(bytes(flipped), ORIGINAL)
            seen[state] += 1
            if at < HEADER_END - 1:
                assert state == "refused"
            elif at < LAST_STRETCH:
                assert state in ("damaged", "refused")
    assert seen["refused"] > 8 * HEADER_END - 16
    assert sum(seen.values()) == 8 * len(WHOLE)


def test_no_byte_that_is_missing_doubled_or_replaced_goes_unnoticed() -> None:
    for at in range(len(WHOLE)):
        for instead in (b"", WHOLE[at : at + 1] * 2, b"\0", b"\n", b"\r", b" ", b"\xff", b"0", b'"'):
            if instead != WHOLE[at : at + 1]:
                examine(WHOLE[:at] + instead + WHOLE[at + 1 :], ORIGINAL)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """A log that something went over, a few times."""
    content = WHOLE
    for _ in range(draw(st.integers(1, 4))):
        lines = content.splitlines(keepends=True) or [b""]
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        place = draw(st.integers(0, len(content)))
        end = draw(st.integers(place, min(len(content), place + 300)))
        match draw(
            st.sampled_from(
                [
                    "delete",
                    "double",
                    "swap",
                    "move",
                    "crlf",
                    "bom",
                    "utf-16",
                    "zeros",
                    "cut",
                    "insert",
                    "hole",
                    "join",
                    "space",
                ]
            )
        ):
            case "delete":
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "move":
                lines.insert(other, lines.pop(at))
            case "crlf":
                lines = [line.replace(b"\n", b"\r\n") for line in lines]
            case "bom":
                lines[at] = b"\xef\xbb\xbf" + lines[at]
            case "utf-16":
                lines = [content.decode("utf-8", "replace").encode("utf-16")]
            case "zeros":
                lines.append(b"\0" * draw(st.integers(1, 5000)))
            case "cut":
                lines = [content[:place]]
            case "insert":
                lines = [content[:place], draw(st.binary(max_size=50)), content[place:]]
            case "hole":
                lines = [content[:place], b"\0" * (end - place), content[end:]]
            case "join":
                lines[at] = lines[at].rstrip(b"\n")
            case "space":
                lines[at] = b" " + lines[at]
        content = b"".join(lines)
    return content


@settings(max_examples=500)
@given(hostile())
def test_whatever_goes_over_a_log_nothing_untyped_is_raised_and_nothing_is_invented(content: bytes) -> None:
    examine(content, ORIGINAL)


@settings(max_examples=150)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_at_all_crash_a_reader(content: bytes, with_header: bool) -> None:
    """R18, R25."""
    examine((LINES[0] if with_header else b"") + content, ORIGINAL if with_header and content == WHOLE else [])


@pytest.mark.parametrize("number", range(1, len(LINES)))
def test_a_line_of_zeros_is_never_skipped(number: int) -> None:
    """R3, R4: whatever it is taken for, the events behind it are not handed on as if nothing had been."""
    zeros = b"\0" * (len(LINES[number]) - 1) + b"\n"
    content = b"".join([*LINES[:number], zeros, *LINES[number + 1 :]])
    assert examine(content, ORIGINAL) in ("damaged", "torn")
    assert len(read(machine(content))[1]) == number - 1
