"""The look at a log's end, and at who holds its lock."""

import errno
import fcntl
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.log import Draft, FileIo, Log, Record, SessionHeader, last_record, lock_holder, newest_records, scan
from dsh_time.log.format import encode_header, encode_record

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Disk, FaultyIo


def write(directory: "Path", sizes: list[int], tail: bytes = b"", line_end: bytes = b"\n") -> list[Record]:
    """A log with one event per size, its data that long, and `tail` behind it. Returns its records."""
    directory.mkdir(exist_ok=True)
    lines = [encode_header(SessionHeader(id=directory.name, created_at=1, writer="test"))]
    records = []
    for seq, size in enumerate(sizes):
        line, record = encode_record(seq, Draft(time=seq, type="x", data=b'"' + b"a" * size + b'"'), 0)
        lines.append(line)
        records.append(record)
    (directory / "log.jsonl").write_bytes(b"".join(line + line_end for line in lines) + tail)
    return records


@given(
    sizes=st.lists(st.sampled_from([0, 1, 100, 5_000, 16_384, 40_000, 150_000]), max_size=12),
    tail=st.sampled_from([b"", b"{", b"\0" * 50_000, b'{"seq":0}', b"junk\njunk\n"]),
)
def test_newest_records_are_all_records_from_the_end(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], tail: bytes
) -> None:
    directory = tmp_path_factory.mktemp("root") / "one"
    records = write(directory, sizes, tail)
    assert [bytes(record.data) for record in newest_records(directory)] == [
        bytes(record.data) for record in reversed(records)
    ]


def test_a_line_without_its_end_is_not_there_yet_even_if_it_is_whole(tmp_path: "Path") -> None:
    whole, _ = encode_record(1, Draft(time=1, type="x", data=b"1"), 0)
    write(tmp_path / "one", [1], whole)
    assert [record.seq for record in newest_records(tmp_path / "one")] == [0]


def test_line_ends_that_were_converted_do_not_hide_the_last_record(tmp_path: "Path") -> None:
    write(tmp_path / "one", [1, 1], line_end=b"\r\n")
    last = last_record(tmp_path / "one")
    assert last is not None
    assert last.seq == 1


def test_a_log_without_events_has_no_last_record(tmp_path: "Path") -> None:
    write(tmp_path / "one", [])
    assert last_record(tmp_path / "one") is None


def test_the_look_reads_only_the_end_of_a_large_log(tmp_path: "Path", monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one", [100_000] * 40 + [10])
    read = 0
    real = os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        data = real(descriptor, count, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert last_record(tmp_path / "one") is not None
    assert read <= 16 << 10


def test_the_holder_of_a_lock_is_known_while_it_is_held_and_only_then(tmp_path: "Path") -> None:
    directory = tmp_path / "one"
    with Log.create(directory, SessionHeader(id="one", created_at=1, writer="test")):
        holder = lock_holder(directory)
        assert holder is not None
        assert holder.pid == os.getpid()
    assert lock_holder(directory) is None
    with Log.open(directory, lambda _: None):  # asking left no lock behind
        assert lock_holder(directory) is not None


def test_asking_takes_no_lock_so_that_nobody_who_opens_the_session_is_refused(
    tmp_path: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "one"
    Log.create(directory, SessionHeader(id="one", created_at=1, writer="test")).close()
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: pytest.fail("a lock was taken"))
    assert lock_holder(directory) is None


def test_a_system_without_a_table_of_locks_shows_no_holder(tmp_path: "Path") -> None:
    directory = tmp_path / "one"

    class Elsewhere(FileIo):
        def lock_table(self) -> str:
            return ""

    with Log.create(directory, SessionHeader(id="one", created_at=1, writer="test")):
        assert lock_holder(directory, io=Elsewhere()) is None


def test_a_lock_file_that_cannot_be_looked_at_shows_no_holder(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create():
        faulty.fail("stat_open", 1, errno.EIO)
        assert lock_holder(disk.directory, io=faulty) is None
        assert lock_holder(disk.directory, io=faulty) is not None
        assert faulty.left_open() == []


def test_asking_for_the_holder_makes_no_lock_file(tmp_path: "Path") -> None:
    write(tmp_path / "one", [1])
    assert lock_holder(tmp_path / "one") is None
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["log.jsonl"]


def test_scan_gives_each_line_as_it_stands_before_its_record(tmp_path: "Path") -> None:
    directory = tmp_path / "one"
    write(directory, [1, 2])
    seen: list[object] = []
    scan(directory, lambda record: seen.append(record.seq), seen.append)
    _, first, second = (directory / "log.jsonl").read_bytes().splitlines()
    assert seen == [first, 0, second, 1]
