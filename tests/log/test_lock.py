"""One writer at a time, and whose it is."""

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from dsh_time.errors import SessionLocked, WriteFailed

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


def test_the_second_writer_is_refused_and_told_who_writes_and_what_to_do(disk: "Disk") -> None:
    """C4, R14."""
    with disk.create() as log:
        holder = msgspec.json.decode((disk.directory / "lock").read_bytes())
        with pytest.raises(SessionLocked, match=r"read-only.*dsh-time fork s1") as caught:
            disk.open()
        error = caught.value
        assert (error.pid, error.host, error.started) == (os.getpid(), os.uname().nodename, holder["started"])
        log.append(disk.drafts(0))
    disk.open().close()
    assert "lock" in disk.names()


def test_reading_needs_no_lock(disk: "Disk") -> None:
    with disk.create() as log:
        log.append(disk.drafts(0))
        assert disk.read() == [0]
        assert disk.read() == [0]
        with pytest.raises(SessionLocked):  # and did not take the writer's away
            disk.open()


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid":"x"}', b'{"pid":7,"host":"h","started":99999999999999999}'])
def test_an_unreadable_lock_file_only_makes_the_message_poorer(disk: "Disk", content: bytes) -> None:
    with disk.create():
        (disk.directory / "lock").write_bytes(content)
        with pytest.raises(SessionLocked, match="process") as caught:
            disk.open()
        assert str(caught.value)


def test_an_error_from_the_lock_file_is_an_error(disk: "Disk", faulty: "FaultyIo") -> None:
    disk.create().close()
    for operation, nth in (("open", 2), ("lock", 1), ("truncate", 1), ("write", 1)):
        faulty.fail(operation, nth, errno.ENOLCK)
        with pytest.raises(WriteFailed):
            disk.open(faulty)
        disk.open().close()
    faulty.fail("lock", 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        disk.open(faulty)
    disk.open().close()


@pytest.mark.process
def test_another_process_is_refused_and_the_lock_goes_with_its_holder(disk: "Disk") -> None:
    """C4, R14: however the holder ends, the lock is free."""
    script = (
        "import sys, pathlib\n"
        "from dsh_time.log import SessionHeader, Log\n"
        "header = SessionHeader(id='s1', created_at=1, writer='w')\n"
        "log = Log.create(pathlib.Path(sys.argv[1]), header)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(disk.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(SessionLocked) as caught:
            disk.open()
        assert caught.value.pid == child.pid
        child.kill()
        child.wait()
        disk.open().close()
