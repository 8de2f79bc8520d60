"""A reader that follows a log, and what it does when the file is not what it was."""

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import DamagedLog, SessionNotFound, WriteFailed
from dsh_time.log import Draft, Record, Tail, scanner

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


def poll(disk: "Disk", tail: Tail) -> list[int]:
    return disk.seqs(tail.poll())


def test_each_poll_gives_what_came_since_the_last(disk: "Disk") -> None:
    """R16."""
    tail = Tail(disk.directory)
    with pytest.raises(SessionNotFound):
        tail.poll()
    with disk.create() as log:
        assert poll(disk, tail) == []
        log.append(disk.drafts(0, 1))
        assert poll(disk, tail) == [0, 1]
        assert poll(disk, tail) == []
        log.sync()
        log.append(disk.drafts(2))
        assert poll(disk, tail) == [2]
        assert not tail.restarted


def test_a_line_waits_for_its_newline(disk: "Disk") -> None:
    """R1, R16."""
    lines = disk.lines(2)
    disk.put(*lines[:-1], lines[-1][:-1])
    tail = Tail(disk.directory)
    assert poll(disk, tail) == [0]
    assert poll(disk, tail) == []
    disk.put(*lines)
    assert poll(disk, tail) == [1]
    assert not tail.restarted


def test_a_file_that_shrank_is_read_again_from_its_start(disk: "Disk") -> None:
    """R16."""
    lines = disk.lines(3)
    tail = Tail(disk.put(*lines))
    assert poll(disk, tail) == [0, 1, 2]
    disk.put(*lines[:-1])
    assert (poll(disk, tail), tail.restarted) == ([0, 1], True)
    assert (poll(disk, tail), tail.restarted) == ([], False)


def test_a_batch_that_was_taken_back_after_it_was_seen_is_noticed(
    disk: "Disk", faulty: "FaultyIo", monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8, R16: also when the file has grown again in the meantime."""
    with disk.create(faulty) as log:
        log.append(disk.drafts(0))
        tail = Tail(disk.directory)
        tail.poll()
        first = disk.lines(2)[2]
        faulty.fail("write", 1, first)  # the first line of the batch gets through, then the disk is full
        faulty.fail("write", 2, errno.ENOSPC)
        seen: list[Record] = []
        truncate = faulty.truncate

        def look_then_truncate(descriptor: int, length: int) -> None:
            seen.extend(tail.poll())
            truncate(descriptor, length)

        monkeypatch.setattr(faulty, "truncate", look_then_truncate)
        with pytest.raises(WriteFailed):
            log.append(disk.drafts(1, 2))
        assert disk.seqs(seen) == [1]
        log.append([Draft(5, "other", b"{}"), *disk.drafts(2)])
        again = tail.poll()
        assert tail.restarted
        assert [record.type for record in again] == ["user/message", "other", "user/message"]


def test_a_file_that_was_replaced_is_read_again_from_its_start(disk: "Disk", tmp_path: Path) -> None:
    """R16."""
    tail = Tail(disk.put(*disk.lines(2)))
    tail.poll()
    copy = tmp_path / "copy"
    copy.write_bytes(b"".join(disk.lines(3)))
    copy.replace(disk.directory / "log.jsonl")
    assert (poll(disk, tail), tail.restarted) == ([0, 1, 2], True)


def test_converted_line_ends_are_followed_too(disk: "Disk") -> None:
    """R17."""
    lines = [line[:-1] + b"\r\n" for line in disk.lines(3)]
    tail = Tail(disk.put(*lines[:2]))
    assert poll(disk, tail) == [0]
    disk.put(*lines)
    assert (poll(disk, tail), tail.restarted) == ([1, 2], False)


def test_damage_is_raised_after_what_stands_before_it_was_handed_on(disk: "Disk") -> None:
    """C7."""
    lines = disk.lines(1, 1, 1)
    tail = Tail(disk.put(*lines[:2], b"garbage\n", lines[3]))
    assert poll(disk, tail) == [0]
    for _ in range(2):
        with pytest.raises(DamagedLog):
            tail.poll()


def test_a_torn_tail_is_waited_on_until_it_is_cut(disk: "Disk") -> None:
    """R16."""
    tail = Tail(disk.put(*disk.lines(1), b"garbage\n"))
    assert poll(disk, tail) == [0]
    assert poll(disk, tail) == []
    with disk.open() as log:
        log.append(disk.drafts(1))
    assert (poll(disk, tail), tail.restarted) == ([1], False)


@pytest.mark.process
def test_three_followers_of_one_writer_read_the_same(disk: "Disk", monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: while the writer writes, in another process."""
    monkeypatch.setattr(scanner, "CHUNK", 1000)
    script = (
        "import sys, pathlib\n"
        "from dsh_time.log import Draft, SessionHeader, Log\n"
        "log = Log.create(pathlib.Path(sys.argv[1]), SessionHeader(id='s1', created_at=1, writer='w'))\n"
        "print('made', flush=True)\n"
        "for number in range(500):\n"
        '    log.append([Draft(1, \'user/message\', b\'{"number":%d,"text":"hello"}\' % number)])\n'
        "    if number % 50 == 0:\n"
        "        log.sync()\n"
        "log.close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(disk.directory)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"made\n"
        read: list[list[int]] = [[], [], []]

        def follow(into: list[int]) -> None:
            tail = Tail(disk.directory)
            while len(into) < 500:
                into.extend(poll(disk, tail))
                assert not tail.restarted

        followers = [threading.Thread(target=follow, args=(into,)) for into in read]
        for follower in followers:
            follower.start()
        for follower in followers:
            follower.join(30)
    assert read == [list(range(500))] * 3
