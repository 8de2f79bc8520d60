"""Forks and salvages: whole or not at all, and the source is only read."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from dsh_time.errors import (
    BadPayload,
    DamagedLog,
    EventNotFound,
    InvalidSessionId,
    LogUnreadable,
    NothingToSalvage,
    SessionExists,
    SessionNotFound,
    UnsupportedVersion,
    WriteFailed,
)
from dsh_time.log import (
    Log,
    Record,
    Salvaged,
    SessionHeader,
    copy,
    fork,
    read_header,
    read_side_file,
    salvage,
    scan,
    scanner,
    verify,
)
from dsh_time.log.format import CRC_LENGTH, seal

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


@pytest.fixture
def target(disk: "Disk") -> Path:
    return disk.root / "s2"


def fork_header(length: int) -> SessionHeader:
    return SessionHeader(
        id="s2", created_at=1_790_000_000_500, forked_from="s1", seed_length=length, writer="dsh-time 0.1.0"
    )


def save(disk: "Disk", target: Path, **more: Any) -> Salvaged:
    return salvage(disk.directory, target, created_at=1_790_000_000_500, writer="dsh-time 0.1.0", **more)


# -- fork


def test_a_fork_holds_the_events_up_to_the_cut_under_a_new_seal(disk: "Disk", target: Path) -> None:
    lines = disk.lines(2, 2, 1)
    before = b"".join(disk.lines(2, 2, 1))
    fork(disk.put(*lines), target, fork_header(4), 3)
    assert disk.read(target) == [0, 1, 2, 3]
    assert read_header(target) == fork_header(4)
    assert disk.content() == before
    records: list[Record] = []
    scan(target, records.append)
    assert {record.b for record in records} == {0}
    with Log.open(target, lambda _: None) as log:
        assert [record.b for record in log.append(disk.drafts(4))] == [1]


def test_a_fork_may_hold_no_event(disk: "Disk", target: Path) -> None:
    fork(disk.put(*disk.lines(1)), target, fork_header(0), -1)
    assert disk.read(target) == []


def test_what_this_program_does_not_know_is_taken_over_byte_for_byte(disk: "Disk", target: Path) -> None:
    """R29: fields of the header and of the lines."""
    header = disk.lines()[0][: -CRC_LENGTH - 1] + b',"cwd": {"a" : [1.50]}'
    text = '{"seq":0,"new":"é\u2028", "time":1,"type":"t","data":{"x" : 1.0e2}, "also":[ ]'.encode()
    disk.put(header + b',"crc":"%08x"}\n' % crc32(header), seal(text, 7) + b"\n")
    fork(disk.directory, target, fork_header(1), 0)
    first, second = (target / "log.jsonl").read_bytes().splitlines()
    assert b',"cwd":{"a" : [1.50]},"crc"' in first
    assert second == seal(text, 0)


def test_a_large_log_is_copied_in_parts(disk: "Disk", target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "CHUNK", 300)
    fork(disk.put(*disk.lines(9)), target, fork_header(9), 8)
    assert disk.read(target) == list(range(9))


def test_a_fork_is_made_while_the_source_is_being_written(disk: "Disk", target: Path) -> None:
    """C4, R9: also a handle that writes no more can be forked away from."""
    with disk.create() as log:
        log.append(disk.drafts(0, 1, 2))
        with log.path.open("ab") as file:
            file.write(b'{"half a li')
        fork(disk.directory, target, fork_header(2), 1)
        assert disk.read(target) == [0, 1]


def test_side_files_come_along(disk: "Disk", target: Path) -> None:
    with disk.create() as log:
        name = log.write_side_file(b"output")
        log.append(disk.drafts(0))
    fork(disk.directory, target, fork_header(1), 0)
    assert read_side_file(target, name) == b"output"


def test_a_cut_behind_the_verified_part_is_refused_and_nothing_appears(disk: "Disk", target: Path) -> None:
    disk.put(*disk.lines(2), b"torn\n")
    with pytest.raises(EventNotFound, match=r"event 2 .*dsh-time verify s1"):
        fork(disk.directory, target, fork_header(3), 2)
    with pytest.raises(SessionNotFound):
        read_header(target)
    fork(disk.directory, target, fork_header(2), 1)


def test_a_fork_is_never_made_over_another_session(disk: "Disk", target: Path) -> None:
    disk.put(*disk.lines(2))
    fork(disk.directory, target, fork_header(1), 0)
    with pytest.raises(SessionExists):
        fork(disk.directory, target, fork_header(2), 1)
    with pytest.raises(InvalidSessionId):
        fork(disk.directory, disk.root / "s3", fork_header(1), 0)
    assert disk.read(target) == [0]


@pytest.mark.parametrize(
    "fail",
    [
        lambda io: io.fail("write", 2, b"x" * 100) or io.fail("write", 3, errno.ENOSPC),
        lambda io: io.fail("link", 1, errno.EPERM),
        lambda io: io.fail("link", 2, errno.EPERM),
    ],
)
def test_a_fork_that_fails_leaves_no_session_and_can_be_made_again(
    disk: "Disk", target: Path, faulty: "FaultyIo", fail: Callable[["FaultyIo"], None]
) -> None:
    """R9: written and synced whole."""
    with disk.create() as log:
        log.write_side_file(b"output")
        log.append(disk.drafts(0))
    fail(faulty)
    with pytest.raises(WriteFailed):
        fork(disk.directory, target, fork_header(1), 0, io=faulty)
    with pytest.raises(SessionNotFound):
        read_header(target)
    assert faulty.left_open() == []
    fork(disk.directory, target, fork_header(1), 0)
    assert disk.read(target) == [0]


def test_everything_a_fork_names_is_durable_before_it_has_its_name(
    disk: "Disk", target: Path, faulty: "FaultyIo"
) -> None:
    with disk.create() as log:
        name = log.write_side_file(b"output")
        log.append(disk.drafts(0))
    fork(disk.directory, target, fork_header(1), 0, io=faulty)
    steps = [call for call in faulty.happened() if call.split()[0] in ("link", "sync")]
    assert steps == [
        *("sync sessions", f"link {name}", "sync s2", "sync log.jsonl.tmp", "link log.jsonl.tmp", "sync s2")
    ]


# -- salvage


def test_a_salvage_saves_what_stands_before_the_damage_and_leaves_the_original(disk: "Disk", target: Path) -> None:
    """C7."""
    lines = disk.lines(2, 2)
    disk.put(*lines[:2], b"garbage\n", *lines[3:])
    before = disk.content()
    with pytest.raises(DamagedLog):
        disk.open()
    saved = save(disk, target)
    assert (saved.records, saved.line, saved.header) == (1, 3, fork_header(1))
    assert "seal" in saved.reason
    assert disk.read(target) == [0]
    assert verify(target).ok
    Log.open(target, lambda _: None).close()
    assert disk.content() == before


def test_a_salvage_of_a_good_log_is_a_fork_at_its_end(disk: "Disk", target: Path) -> None:
    disk.put(*disk.lines(2, 1))
    assert save(disk, target) == Salvaged(fork_header(3), 3, 5, "")


def test_a_salvage_makes_converted_line_ends_right_again(disk: "Disk", target: Path) -> None:
    """R17."""
    disk.put(*[line[:-1] + b"\r\n" for line in disk.lines(2, 1)])
    assert save(disk, target).records == 3
    assert disk.read(target) == [0, 1, 2]
    assert b"\r" not in (target / "log.jsonl").read_bytes()
    Log.open(target, lambda _: None).close()


def test_a_salvage_stops_before_an_event_that_its_caller_refuses(disk: "Disk", target: Path) -> None:
    """R22, R26."""
    disk.put(*disk.lines(3))

    def check(record: Record) -> None:
        if record.seq == 2:
            raise BadPayload(disk.directory / "log.jsonl", record.type, record.seq, "no text")

    saved = save(disk, target, check=check)
    assert (saved.records, saved.line) == (2, 4)
    assert "user/message" in saved.reason
    assert disk.read(target) == [0, 1]


@pytest.mark.parametrize("kind", ["broken", "gone", "bom"])
def test_a_salvage_makes_a_lost_header_anew(disk: "Disk", target: Path, kind: str) -> None:
    """R18, R25: a file that an editor gave a byte order mark, or whose first line is damaged or gone."""
    lines = disk.lines(2)
    disk.put({"broken": b"x" * 99 + b"\n", "gone": b"", "bom": b"\xef\xbb\xbf" + lines[0]}[kind], *lines[1:])
    saved = save(disk, target)
    assert (saved.records, saved.header) == (2, fork_header(2))
    assert saved.line == (3 if kind == "gone" else 4)
    assert saved.reason
    assert disk.read(target) == [0, 1]


def test_a_salvage_saves_what_a_failing_disk_still_gives(
    disk: "Disk", target: Path, faulty: "FaultyIo", monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = disk.lines(4)
    disk.put(*lines)
    monkeypatch.setattr(scanner, "CHUNK", len(lines[1]) * 2)
    faulty.fail("pread", 3, errno.EIO)
    saved = save(disk, target, io=faulty)
    assert saved.records == 2
    assert "EIO" in saved.reason
    assert disk.read(target) == [0, 1]


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"garbage\ngarbage\n"])
def test_where_nothing_verifies_nothing_is_made(disk: "Disk", target: Path, content: bytes) -> None:
    disk.put(content)
    with pytest.raises(NothingToSalvage, match="left as it is"):
        save(disk, target)
    assert not target.exists()
    disk.put(*disk.lines())
    with pytest.raises(NothingToSalvage, match="no events"):
        save(disk, target)


def test_another_version_is_not_salvaged_by_this_program(disk: "Disk", target: Path) -> None:
    """R28."""
    disk.put(b'{"type":"session","version":2}\n', *disk.lines(1)[1:])
    with pytest.raises(UnsupportedVersion):
        save(disk, target)


# -- verify


def test_a_report_says_what_is_wrong_where_and_what_to_do(disk: "Disk") -> None:
    """C7."""
    lines = disk.lines(2, 2)
    size = len(b"".join(lines))

    def report(*content: bytes) -> tuple[str, int, int, int, str]:
        found = verify(disk.put(*content))
        assert found.ok == (found.state == "ok")
        assert bool(found.reason) == (not found.ok)
        return found.state, found.records, found.offset, found.line, found.next_step

    cut = "the next resume saves these bytes and cuts them off"
    assert report(*lines) == ("ok", 4, size, 6, "")
    assert report(*lines, b"x") == ("pending", 4, size, 6, f"nothing, if the session is being written; else {cut}")
    assert report(*lines, b"x\n") == ("torn", 4, size, 6, cut)
    broken = (*lines[:2], b"x\n", *lines[3:])
    assert report(*broken) == ("damaged", 1, len(b"".join(lines[:2])), 3, "dsh-time salvage s1")
    crlf = [line[:-1] + b"\r\n" for line in lines]
    assert report(*crlf) == ("converted", 4, size + 5, 6, "dsh-time salvage s1")
    assert report(*crlf, b"x")[:2] == ("converted", 4)
    assert "newline" in verify(disk.directory).reason
    assert report(*lines[1:]) == ("damaged", 0, 0, 1, "dsh-time salvage s1")
    assert report(b'{"type":"session","version":2}\n')[:2] == ("unsupported", 0)
    assert disk.names() == ["log.jsonl"]


def test_a_report_names_damaged_side_files(disk: "Disk") -> None:
    with disk.create() as log:
        good, bad = log.write_side_file(b"good"), log.write_side_file(b"bad")
        (disk.directory / bad).write_bytes(b"worse")
    report = verify(disk.directory)
    assert (report.state, report.ok, report.damaged_side_files) == ("ok", False, (bad,))
    assert good != bad


def test_what_cannot_be_read_is_an_error_and_no_report(disk: "Disk", faulty: "FaultyIo") -> None:
    """R25."""
    with pytest.raises(SessionNotFound):
        verify(disk.directory)
    disk.put(*disk.lines(1))
    for operation in ("pread", "names"):
        faulty.fail(operation, 1, errno.EIO)
        with pytest.raises(LogUnreadable):
            verify(disk.directory, io=faulty)
