"""Cutting a torn tail: only under the lock, only after saving it, always told."""

import errno
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import ConvertedLog, DamagedLog, LogPoisoned, WriteFailed
from dsh_time.log import io, repair

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


@pytest.mark.parametrize("tail", [b'{"seq":2', b"\0" * 5000, b"\0" * 50 + b"\n", b"garbage\n{}\n"])
def test_a_torn_tail_is_saved_and_cut_and_told(disk: "Disk", tail: bytes) -> None:
    """R1 to R3, C6."""
    lines = disk.lines(1, 1)
    disk.put(*lines, tail)
    with disk.open() as log:
        assert log.repaired is not None
        assert (log.repaired.offset, log.repaired.line, log.repaired.length) == (len(b"".join(lines)), 4, len(tail))
        assert log.repaired.saved.read_bytes() == tail
        assert log.repaired.saved.parent == disk.directory
        assert log.repaired.saved.stat().st_mode & 0o777 == 0o600
        assert str(log.repaired.saved) in str(log.repaired)
        assert disk.content() == b"".join(lines)
        assert [record.b for record in log.append(disk.drafts(2))] == [2]
    with disk.open() as log:
        assert log.repaired is None
    assert disk.read() == [0, 1, 2]


def test_a_tail_larger_than_one_read_is_saved_whole(disk: "Disk", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "CHUNK", 10)
    disk.put(*disk.lines(1), b"torn" * 50)
    with disk.open() as log:
        assert log.repaired is not None
        assert log.repaired.saved.read_bytes() == b"torn" * 50


def test_bytes_are_saved_and_synced_before_they_are_cut(disk: "Disk", faulty: "FaultyIo") -> None:
    """C6."""
    disk.put(*disk.lines(1), b"torn")
    disk.open(faulty).close()
    happened = [call.split()[0] for call in faulty.happened()]
    names = [name for _, name in faulty.calls]
    saved = next(name for name in names if name.startswith("log.jsonl.cut-"))
    calls = faulty.happened()
    cut = calls.index("truncate log.jsonl")
    for earlier in (f"sync {saved}", f"link {saved}", "sync s1"):
        assert calls.index(earlier) < cut
    assert happened[cut + 1 :] == ["sync", "sync_data", "close", "close"]


def test_damage_to_what_was_promised_is_refused_and_nothing_is_changed(disk: "Disk") -> None:
    """C7."""
    lines = disk.lines(2, 2)
    disk.put(*lines[:1], b"x\n", *lines[2:], b"torn")
    before = disk.content()
    with pytest.raises(DamagedLog, match="dsh-time salvage s1"):
        disk.open()
    assert disk.content() == before
    assert disk.names() == ["lock", "log.jsonl"]
    with pytest.raises(DamagedLog):
        disk.open()  # and the lock is free


def test_converted_line_ends_are_refused_for_writing_and_nothing_is_changed(disk: "Disk") -> None:
    """R17."""
    disk.put(*[line[:-1] + b"\r\n" for line in disk.lines(2)], b"torn")
    before = disk.content()
    with pytest.raises(ConvertedLog, match="CRLF"):
        disk.open()
    assert disk.content() == before


def test_without_room_to_save_nothing_is_cut(disk: "Disk", faulty: "FaultyIo") -> None:
    """C6."""
    disk.put(*disk.lines(1), b"torn")
    before = disk.content()
    faulty.fail("write", 2, errno.ENOSPC)  # the first one writes the lock file
    with pytest.raises(WriteFailed):
        disk.open(faulty)
    assert disk.content() == before
    assert disk.names() == ["lock", "log.jsonl"]


@pytest.mark.parametrize(("operation", "error"), [("truncate", WriteFailed), ("sync", LogPoisoned)])
def test_a_repair_that_failed_half_way_is_done_again(
    disk: "Disk", faulty: "FaultyIo", operation: str, error: type[Exception]
) -> None:
    """The same bytes are saved under the same name."""
    disk.put(*disk.lines(1), b"torn")
    faulty.fail(operation, 2 if operation == "truncate" else 3, errno.EIO)  # the first cuts the lock file
    with pytest.raises(error):
        disk.open(faulty)
    disk.open().close()
    assert disk.read() == [0]
    assert len([name for name in disk.names() if ".cut-" in name]) == 1


def test_a_sync_that_fails_at_open_is_no_open_log(disk: "Disk", faulty: "FaultyIo") -> None:
    disk.put(*disk.lines(1))
    faulty.fail("sync_data", 1, errno.EIO)
    with pytest.raises(LogPoisoned, match="dsh-time fork s1"):
        disk.open(faulty)
    disk.open().close()


def test_a_temporary_file_that_cannot_be_removed_stops_nothing(disk: "Disk", faulty: "FaultyIo") -> None:
    disk.put(*disk.lines(1))
    (disk.directory / "x.tmp").write_bytes(b"")
    faulty.fail("unlink", 1, errno.EACCES)
    disk.open(faulty).close()
    io.discard(faulty, disk.directory / "x.tmp")
    assert disk.names() == ["lock", "log.jsonl"]
