"""Reading: what is handed on, and how damage is told from a torn tail."""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.errors import ConvertedLog, DamagedLog, LogUnreadable, SessionNotFound, UnsafePath, UnsupportedVersion
from dsh_time.log import LINE_LIMIT, Record, Verdict, read_header, scan, scanner
from dsh_time.log.format import CRC_LENGTH, encode_record, seal

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo

State = Literal["ok", "pending", "torn", "damaged"]


def judge(directory: Path) -> tuple[State, int, Verdict]:
    """The state, and how many records were handed on."""
    records: list[Record] = []
    verdict = scan(directory, records.append)
    assert [record.seq for record in records] == list(range(verdict.end.next_seq))
    return verdict.state, len(records), verdict


def foreign(text: str, b: int = 0) -> bytes:
    """A line under a sound seal that our writer would not write."""
    return seal(text.encode(), b) + b"\n"


def zeros(line: bytes) -> bytes:
    """What a power failure leaves where a line should be: its bytes, never written."""
    return b"\0" * len(line)


# -- what is good


def test_a_whole_log_is_read_in_order_and_its_end_is_known(disk: "Disk") -> None:
    lines = disk.lines(3, 1, 2)
    state, count, verdict = judge(disk.put(*lines))
    assert (state, count, verdict.reason, verdict.crlf, verdict.error()) == ("ok", 6, "", False, None)
    assert verdict.end == scanner.Position(sum(map(len, lines)), 8, 6, 2)
    assert verdict.header == disk.header == read_header(disk.directory)


def test_a_header_alone_is_a_valid_empty_session(disk: "Disk") -> None:
    """R25."""
    state, count, verdict = judge(disk.put(*disk.lines()))
    assert (state, count, verdict.end.b) == ("ok", 0, -1)


@pytest.mark.parametrize("chunk", [1, 7, 100, 1000])
def test_the_size_of_a_read_changes_nothing(disk: "Disk", chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = disk.lines(3, 2)
    monkeypatch.setattr(scanner, "CHUNK", chunk)
    assert judge(disk.put(*lines))[:2] == ("ok", 5)
    assert judge(disk.put(*lines[:3], b"x\n", *lines[3:4]))[:2] == ("torn", 2)
    assert judge(disk.put(*lines[:3], b"x\n", *lines[3:]))[:2] == ("damaged", 2)
    assert judge(disk.put(*lines[:-1], lines[-1][:-1]))[:2] == ("pending", 4)


def test_text_that_other_programs_take_for_line_ends_is_text(disk: "Disk") -> None:
    """R20."""
    text = '{"seq":0,"time":1,"type":"t","data":"\u2028\u2029\u0085\\n\\r\x7f"'
    assert judge(disk.put(*disk.lines(), foreign(text)))[:2] == ("ok", 1)


def test_order_is_seq_and_never_time(disk: "Disk") -> None:
    """C5, R32."""
    lines = [
        foreign(f'{{"seq":{seq},"time":{time},"type":"t","data":{{}}')
        for seq, time in enumerate([5, 5, 0, -1, 253402300800000, 4])
    ]
    assert judge(disk.put(*disk.lines(), *lines))[:2] == ("ok", 6)


def test_a_field_that_we_do_not_know_changes_nothing(disk: "Disk") -> None:
    """R29."""
    line = foreign('{"seq":0,"time":1,"type":"t","data":{},"monotonic":[1,2.5,{"b":7}]')
    assert judge(disk.put(*disk.lines(), line))[:2] == ("ok", 1)


def test_a_kept_record_does_not_keep_its_chunk(disk: "Disk") -> None:
    records: list[Record] = []
    scan(disk.put(*disk.lines(100)), records.append)
    assert len(memoryview(records[50].data)) < 50


def test_what_looks_out_of_range_only_in_text_is_read(disk: "Disk") -> None:
    text = foreign('{"seq":0,"time":1,"type":"t","data":"1e999, 123456789012345678901234567890"')
    assert judge(disk.put(*disk.lines(), text))[:2] == ("ok", 1)


# -- the tail


def test_a_last_line_without_newline_is_pending_even_if_it_parses(disk: "Disk") -> None:
    """R1."""
    lines = disk.lines(2)
    state, count, verdict = judge(disk.put(*lines[:-1], lines[-1][:-1]))
    assert (state, count, verdict.end.offset) == ("pending", 1, len(b"".join(lines[:-1])))
    assert verdict.error() is None


@pytest.mark.parametrize("length", [1, 511, 4096, 3 << 20])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_tail_of_zeros_is_no_damage(disk: "Disk", length: int, end: bytes) -> None:
    """R2."""
    state, count, _ = judge(disk.put(*disk.lines(2, 1), b"\0" * length, end))
    assert (state, count) == ("torn" if end else "pending", 3)


def test_a_tail_of_zeros_longer_than_any_line_is_torn_and_read_in_bounded_memory(disk: "Disk") -> None:
    """R2."""
    directory = disk.put(*disk.lines(1))
    with (directory / "log.jsonl").open("r+b") as file:
        file.truncate(3 * LINE_LIMIT)
    state, count, verdict = judge(directory)
    assert (state, count) == ("torn", 1)
    assert "longer than" in verdict.reason


def test_a_record_after_zeros_on_one_endless_line_is_not_taken_for_a_line(disk: "Disk") -> None:
    """R5: never split and guess."""
    lines = disk.lines(1, 1, 1)
    assert judge(disk.put(*lines[:2], b"\0" * LINE_LIMIT, lines[3]))[:2] == ("torn", 1)


@pytest.mark.parametrize("hole", [zeros, lambda line: zeros(line)[:-1] + b"\n", lambda line: b"garbage\n"])
def test_a_hole_inside_the_last_stretch_is_cut_at_the_hole(disk: "Disk", hole: "object") -> None:
    """R3: good lines of the same stretch after the hole were never promised either."""
    lines = disk.lines(1, 4)
    assert callable(hole)
    lines[3] = hole(lines[3])
    assert judge(disk.put(*lines))[:2] == ("torn", 2)


def test_a_hole_of_zeros_where_the_last_stretch_begins_is_cut_at_the_hole(disk: "Disk") -> None:
    """R3: the page that was not written can hold the first line after a sync."""
    lines = disk.lines(2, 3)
    lines[3] = zeros(lines[3])
    assert judge(disk.put(*lines))[:2] == ("torn", 2)
    lines[3] = zeros(lines[3])[:-1] + b"\n"
    assert judge(disk.put(*lines))[:2] == ("torn", 2)


def test_any_hole_before_the_first_sync_is_cut(disk: "Disk") -> None:
    """R3: nothing but the header was promised."""
    lines = disk.lines(3)
    lines[1] = b"garbage\n"
    assert judge(disk.put(*lines))[:2] == ("torn", 0)


def test_damage_followed_by_a_later_stretch_is_damage_to_what_was_promised(disk: "Disk") -> None:
    """R4, C7."""
    lines = disk.lines(2, 2, 2)
    for place in (2, 3, 4):
        for damaged in (zeros(lines[place]), b"garbage\n", lines[place].replace(b"hello", b"jello"), b""):
            state, count, verdict = judge(disk.put(*lines[:place], damaged, *lines[place + 1 :]))
            if place == 4 and damaged == zeros(lines[place]):
                assert (state, count) == ("torn", 3)  # the same bytes can be a power failure's doing
                continue
            assert (state, count) == ("damaged", place - 1)
            error = verdict.error()
            assert isinstance(error, DamagedLog)
            assert (error.offset, error.line) == (len(b"".join(lines[:place])), place + 1)
            assert "dsh-time salvage s1" in str(error)


def test_zeros_amid_a_stretch_that_was_synced_are_damage(disk: "Disk") -> None:
    """R4: a good line of the same stretch stands behind them, and then the next stretch."""
    lines = disk.lines(3, 1)
    assert judge(disk.put(*lines[:2], zeros(lines[2])[:-1] + b"\n", *lines[3:]))[:2] == ("damaged", 1)


def test_a_damaged_line_that_still_says_it_was_synced_is_believed(disk: "Disk") -> None:
    """R4: the last line before a sync, with one letter changed; zeros elsewhere in it do not excuse it."""
    lines = disk.lines(2, 1)
    assert judge(disk.put(*lines[:2], lines[2].replace(b"hello", b"\0ello"), lines[3]))[:2] == ("damaged", 1)
    # the first line after a sync, on the other hand, says that it was not
    lines = disk.lines(1, 2)
    assert judge(disk.put(*lines[:2], lines[2].replace(b"hello", b"jello"), lines[3]))[:2] == ("torn", 1)


def test_lines_that_ran_together_are_not_split(disk: "Disk") -> None:
    """R5."""
    lines = disk.lines(1, 3, 1)
    zero_tail = lines[2][:-1] + b"\0" * 20 + b"\n"
    two_on_one = lines[2][:-1] + lines[3]
    cut_and_whole = lines[2][:40] + lines[3]
    for damaged, rest in ((zero_tail, lines[3:]), (two_on_one, lines[4:]), (cut_and_whole, lines[4:])):
        assert judge(disk.put(*lines[:2], damaged, *rest))[:2] == ("damaged", 1)
        assert judge(disk.put(*lines[:2], damaged, *rest[:-1]))[:2] == ("torn", 1)


@pytest.mark.parametrize(
    "data", ["NaN", "Infinity", "1e999", "[" * 300 + "]" * 300, "[" * 100_000 + "]" * 100_000, "1" * 30]
)
def test_values_out_of_range_are_damage_and_never_a_crash(disk: "Disk", data: str) -> None:
    """R21 to R23."""
    line = foreign('{"seq":1,"time":1,"type":"t","data":' + data)
    assert judge(disk.put(*disk.lines(1), line))[:2] == ("torn", 1)
    later = [encode_record(seq, disk.drafts(seq)[0], 2)[0] + b"\n" for seq in (2, 3)]
    assert judge(disk.put(*disk.lines(1), line, *later))[:2] == ("damaged", 1)


@pytest.mark.parametrize("seq", ["0", "2", "true", "1.0", '"1"', "-1", "1e0"])
def test_seq_is_the_next_whole_number_and_nothing_like_it(disk: "Disk", seq: str) -> None:
    """R24: gap, repeat and what only compares equal."""
    line = foreign('{"seq":' + seq + ',"time":1,"type":"t","data":{}')
    state, count, verdict = judge(disk.put(*disk.lines(1), line))
    assert (state, count) == ("torn", 1)
    assert "seq" in verdict.reason


def test_a_line_that_was_taken_out_is_damage(disk: "Disk") -> None:
    """R24, C7."""
    lines = disk.lines(2, 2)
    for place in (1, 2, 3):
        assert judge(disk.put(*lines[:place], *lines[place + 1 :]))[:2] == ("damaged", place - 1)


def test_a_stretch_number_does_not_go_back(disk: "Disk") -> None:
    lines = disk.lines(1, 1)
    again = encode_record(2, disk.drafts(2)[0], 0)[0] + b"\n"
    state, count, verdict = judge(disk.put(*lines, again))
    assert (state, count, verdict.reason) == ("torn", 2, "b is 0 after 1")


def test_bytes_that_are_no_utf_8_are_damage_even_under_a_sound_seal(disk: "Disk") -> None:
    """R18: the checksum alone does not make text of them."""
    line = seal(b'{"seq":1,"time":1,"type":"t","data":"\xff"', 0) + b"\n"
    state, count, verdict = judge(disk.put(*disk.lines(1), line))
    assert (state, count) == ("torn", 1)
    assert "UTF-8" in verdict.reason


def test_a_line_over_the_limit_is_damage_even_under_a_sound_seal(disk: "Disk") -> None:
    """C10."""
    line = foreign('{"seq":1,"time":1,"type":"t","data":"' + "x" * LINE_LIMIT + '"')
    assert judge(disk.put(*disk.lines(1), line))[:2] == ("torn", 1)


def test_a_line_of_nearly_the_limit_is_read(disk: "Disk") -> None:
    """C10."""
    frame = len(foreign('{"seq":0,"time":1,"type":"t","data":""'))
    line = foreign('{"seq":0,"time":1,"type":"t","data":"' + "x" * (LINE_LIMIT - frame) + '"')
    assert len(line) == LINE_LIMIT
    assert judge(disk.put(*disk.lines(), line))[:2] == ("ok", 1)


@pytest.mark.parametrize("stretches", [(3,), (2, 3), (1, 2, 3)])
def test_whatever_a_power_failure_leaves_of_the_last_stretch_is_a_prefix(
    disk: "Disk", stretches: tuple[int, ...]
) -> None:
    """C2: cut anywhere, made longer with zeros, or with a hole of zeros: never refused, nothing synced lost."""
    lines = disk.lines(*stretches)
    whole = b"".join(lines)
    promised = sum(stretches[:-1])
    safe = len(b"".join(lines[: promised + 1]))
    directory = disk.put()
    states = {whole[:end] for end in range(safe, len(whole), 3)}
    states |= {whole[:end].ljust(len(whole) + more, b"\0") for end in range(safe, len(whole), 3) for more in (0, 99)}
    for start in range(safe, len(whole), 11):
        for end in [*range(start, len(whole), 13), len(whole)]:
            states.add(whole[:start] + b"\0" * (end - start) + whole[end:])
    for state in states:
        (directory / "log.jsonl").write_bytes(state)
        found, count, _ = judge(directory)
        assert found != "damaged"
        assert promised <= count <= sum(stretches)
    assert len(states) > 500


# -- the header


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "the file is empty"),
        (b"\0" * 5000, "has no end"),
        (b"{}\n", "no session header"),
        (b"\xff\xfe{\n", "UTF-8"),
        (None, "no session header"),
    ],
)
def test_a_log_without_a_usable_header_is_damaged_and_never_an_empty_session(
    disk: "Disk", first: bytes | None, reason: str
) -> None:
    """R18, R25."""
    lines = disk.lines(2)
    disk.put(*lines[1:] if first is None else [first])
    for attempt in (lambda: scan(disk.directory, lambda _: None), lambda: read_header(disk.directory)):
        with pytest.raises(DamagedLog, match=reason) as caught:
            attempt()
        assert (caught.value.offset, caught.value.line) == (0, 1)


def test_a_header_of_another_session_is_damage(disk: "Disk") -> None:
    """R25, D5."""
    disk.put(*disk.lines(1)).rename(disk.root / "s2")
    with pytest.raises(DamagedLog, match=r"session s1\..*salvage s2"):
        scan(disk.root / "s2", lambda _: None)


def test_a_header_longer_than_one_read_is_read(disk: "Disk") -> None:
    body = disk.lines()[0][: -CRC_LENGTH - 1] + b',"note":"' + b"x" * 20_000 + b'"'
    directory = disk.put(body + b',"crc":"%08x"}\n' % crc32(body), *disk.lines(2)[1:])
    assert judge(directory)[:2] == ("ok", 2)


@pytest.mark.parametrize(("version", "direction"), [(2, "newer.*update dsh-time"), (0, "older")])
def test_another_version_is_refused_and_says_in_which_direction(disk: "Disk", version: int, direction: str) -> None:
    """R28."""
    body = b'{"type":"session","version":%d,"id":"s1"' % version
    disk.put(body + b',"crc":"%08x"}\n' % crc32(body))
    with pytest.raises(UnsupportedVersion, match=direction):
        scan(disk.directory, lambda _: None)


def test_a_file_with_converted_line_ends_is_readable_and_says_so(disk: "Disk") -> None:
    """R17."""
    lines = [line[:-1] + b"\r\n" for line in disk.lines(2, 1)]
    state, count, verdict = judge(disk.put(*lines))
    assert (state, count, verdict.crlf) == ("ok", 3, True)
    assert verdict.end.offset == sum(map(len, lines))
    assert isinstance(verdict.error(), ConvertedLog)
    assert "dsh-time salvage s1" in str(verdict.error())
    assert judge(disk.put(*lines[:2], b"garbage\r\n", *lines[3:]))[:2] == ("damaged", 1)


# -- what cannot be read


def test_an_error_while_reading_is_an_error_and_never_the_end_of_the_log(disk: "Disk", faulty: "FaultyIo") -> None:
    """R25."""
    disk.put(*disk.lines(2))
    for nth in (1, 2, 3):
        faulty.fail("pread", nth, errno.EIO)
        with pytest.raises(LogUnreadable, match="EIO at byte"):
            scan(disk.directory, lambda _: None, io=faulty)
    for operation in ("open", "stat_path"):
        faulty.fail(operation, 1, errno.EACCES)
        with pytest.raises(LogUnreadable, match="EACCES"):
            scan(disk.directory, lambda _: None, io=faulty)


def test_what_is_not_there_is_not_found(disk: "Disk") -> None:
    with pytest.raises(SessionNotFound):
        scan(disk.directory, lambda _: None)
    disk.directory.mkdir()
    with pytest.raises(SessionNotFound):
        read_header(disk.directory)


def test_links_and_pipes_are_not_followed(disk: "Disk") -> None:
    """D5."""
    disk.put(*disk.lines(1)).rename(disk.root / "real")
    disk.directory.symlink_to("real")
    with pytest.raises(UnsafePath, match="symbolic link"):
        scan(disk.directory, lambda _: None)
    disk.directory.unlink()
    disk.directory.mkdir()
    (disk.directory / "log.jsonl").symlink_to("../real/log.jsonl")
    with pytest.raises(UnsafePath, match="plain file"):
        scan(disk.directory, lambda _: None)
    (disk.directory / "log.jsonl").unlink()
    os.mkfifo(disk.directory / "log.jsonl")
    with pytest.raises(UnsafePath, match="plain file"):
        scan(disk.directory, lambda _: None)
    (disk.directory / "log.jsonl").unlink()
    disk.directory.rmdir()
    disk.directory.write_bytes(b"")
    with pytest.raises(UnsafePath, match="not a directory"):
        scan(disk.directory, lambda _: None)


# -- reading never writes, whatever it reads


@given(
    stretches=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    edits=st.lists(
        st.tuples(
            st.sampled_from(["delete", "double", "swap", "zeros", "flip", "cut", "crlf", "bom"]), st.integers(0, 5000)
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_no_edit_of_a_log_is_read_as_something_that_was_never_written(
    tmp_path_factory: pytest.TempPathFactory, stretches: list[int], edits: list[tuple[str, int]]
) -> None:
    """C2, C6, C9: whatever happens to the bytes, a prefix of the events is read, and reading changes nothing."""
    from .conftest import Disk

    disk = Disk(tmp_path_factory.mktemp("sessions"))
    written = lines = disk.lines(*stretches)
    for kind, place in edits:
        lines = edit(lines, kind, place)
    disk.put(*lines)
    before = disk.content()
    try:
        records: list[Record] = []
        scan(disk.directory, records.append)
    except (DamagedLog, UnsupportedVersion):
        records = []
    assert disk.seqs(records) == list(range(len(records)))
    assert len(records) < len(written)
    assert disk.content() == before
    assert disk.names() == ["log.jsonl"]


def edit(lines: list[bytes], kind: str, place: int) -> list[bytes]:
    if not lines:
        return lines
    at = place % len(lines)
    line = lines[at]
    byte = place % max(1, len(line))
    changed = {
        "delete": [],
        "double": [line, line],
        "swap": [*lines[at + 1 : at + 2], line],
        "zeros": [b"\0" * len(line)],
        "flip": [line[:byte] + bytes([line[byte] ^ 1]) + line[byte + 1 :]] if line else [],
        "cut": [line[:byte]],
        "crlf": [line[:-1] + b"\r\n"],
        "bom": [b"\xef\xbb\xbf" + line],
    }[kind]
    return [*lines[:at], *changed, *lines[at + (2 if kind == "swap" else 1) :]]


def test_every_flipped_bit_and_every_cut_of_a_small_log_is_noticed(disk: "Disk") -> None:
    """No silent difference: a prefix is read, and a flip in what was promised refuses."""
    lines = disk.lines(2, 2, 1)
    whole = b"".join(lines)
    ends = [len(b"".join(lines[: count + 1])) for count in range(len(lines))]
    directory = disk.put(whole)
    path = directory / "log.jsonl"
    for place in range(len(lines[0]), len(whole)):
        broken = sum(end <= place for end in ends) - 1
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            state, count, _ = judge(directory)
            assert state != "ok"
            assert count == broken
            assert state == "damaged" or broken == 4
    for length in range(ends[0], len(whole)):
        path.write_bytes(whole[:length])
        state, count, _ = judge(directory)
        assert state == ("ok" if length in ends else "pending")
        assert count == sum(end <= length for end in ends) - 1
