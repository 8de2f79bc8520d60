"""Errors that come from the kernel itself: a full device, a file size limit, injected failures of system calls."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import WriteFailed
from dsh_time.log import FileIo

if TYPE_CHECKING:
    from .conftest import Disk
    from .victims_program import Victims


class FullDevice(FileIo):
    """Writes go to /dev/full when `full` is set: the kernel says that there is no room."""

    full = False

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.full:
            return super().write(descriptor, data)
        device = os.open("/dev/full", os.O_WRONLY)
        try:
            return super().write(device, data)
        finally:
            os.close(device)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_a_full_device_refuses_and_the_log_goes_on_later(disk: Disk) -> None:
    """R8."""
    io = FullDevice()
    with disk.create(io) as log:
        log.append(disk.drafts(0))
        io.full = True
        with pytest.raises(WriteFailed, match="No space left on device") as caught:
            log.append(disk.drafts(1))
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(WriteFailed):
            log.write_side_file(b"output")
        io.full = False
        log.append(disk.drafts(1))
    assert disk.read() == [0, 1]


@pytest.mark.process
@pytest.mark.parametrize("room", [400, 1000, 1001, 4096])
def test_a_file_size_limit_stops_a_batch_in_its_middle_and_the_log_goes_on_later(
    victims: Victims, tmp_path: Path, room: int
) -> None:
    """R8: EFBIG after a part of the batch was written."""
    directory = tmp_path / "s1"
    victims.start("outgrow", directory, room)
    said, status = victims.end()
    assert status == 0
    assert said[-2] == [str(errno.EFBIG)]
    written = int(said[-3][1]) if len(said) > 2 else 0
    assert said[-1] == ["s", str(written + 1)]
    lines = (directory / "log.jsonl").read_bytes().split(b"\n")
    assert len(lines) == written + 3
    assert lines[-1] == b""


# -- system calls that strace makes fail

SCRIPT = """
import sys, pathlib
from dsh_time.errors import DshTimeError
from dsh_time.log import Draft, Log, SessionHeader
directory = pathlib.Path(sys.argv[1])
log = None
def step(name, action):
    try:
        action()
    except DshTimeError as error:
        print(name, type(error).__name__, flush=True)
    else:
        print(name, "ok", log.next_seq, log.synced_seq, flush=True)
def create():
    global log
    log = Log.create(directory, SessionHeader(id="s1", created_at=1, writer="w"))
def append():
    numbers = range(log.next_seq, log.next_seq + 2)
    log.append([Draft(1, "user/message", b'{"number":%d,"text":"hello"}' % number) for number in numbers])
def sync():
    log.sync()
step("create", create)
if log is not None:
    for action in (append, sync, append, sync):
        step(action.__name__, action)
    step("close", lambda: log.close())
"""


@cache
def strace() -> str:
    """Why strace cannot be used here; empty when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = ["strace", "-o", os.devnull, "-e", "inject=getcwd:error=ENOSPC", "true"]
    return "" if subprocess.run(probe, capture_output=True).returncode == 0 else "strace may not trace here"


def injected(directory: Path, call: str, name: str, nth: int, file: str) -> Iterator[list[str]]:
    """What the script says when the `nth` system call `call` on a file of the session fails."""
    said = subprocess.run(
        [
            *("strace", "-o", os.devnull, "-P", str(directory / file if file else directory)),
            *("-e", f"inject={call}:error={name}:when={nth}"),
            *(sys.executable, "-c", SCRIPT, str(directory)),
        ],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    for line in said.stdout.decode().splitlines():
        yield line.split()


@pytest.mark.process
@pytest.mark.parametrize(
    ("call", "name", "nth", "file", "expected"),
    [
        ("write", "ENOSPC", 1, "log.jsonl", "create ok, append WriteFailed, sync ok, append ok, sync ok, close ok"),
        ("write", "EIO", 2, "log.jsonl", "create ok, append ok, sync ok, append WriteFailed, sync ok, close ok"),
        ("write", "EDQUOT", 1, "log.jsonl.tmp", "create WriteFailed"),
        (
            "fdatasync",
            "EIO",
            1,
            "log.jsonl",
            "create ok, append ok, sync LogPoisoned, append LogPoisoned, sync LogPoisoned, close ok",
        ),
        ("fdatasync", "ENOSPC", 2, "log.jsonl", "create ok, append ok, sync ok, append ok, sync LogPoisoned, close ok"),
        ("fsync", "EIO", 1, "log.jsonl.tmp", "create LogPoisoned"),
        ("fsync", "EIO", 1, "", "create LogPoisoned"),
        ("linkat", "ENOSPC", 1, "log.jsonl.tmp", "create WriteFailed"),
        ("openat", "EACCES", 1, "log.jsonl", "create WriteFailed"),
        ("flock", "ENOLCK", 1, "lock", "create WriteFailed"),
        ("close", "EIO", 1, "log.jsonl", "create ok, append ok, sync ok, append ok, sync ok, close LogPoisoned"),
    ],
)
def test_a_system_call_that_fails_is_told_and_loses_nothing(
    disk: Disk, call: str, name: str, nth: int, file: str, expected: str
) -> None:
    """C8, R8, R9, R11: the system calls of this Python and this kernel are those the log counts with."""
    if reason := strace():
        pytest.skip(reason)
    disk.directory.mkdir(mode=0o700)
    for known in ("log.jsonl.tmp", "log.jsonl", "lock"):
        if known == file:
            (disk.directory / known).touch()  # strace finds out now which path that is
            (disk.directory / known).unlink()
    said = list(injected(disk.directory, call, name, nth, file))
    assert ", ".join(" ".join(words[:2]) for words in said) == expected
    acknowledged = [(int(words[2]), int(words[3])) for words in said if words[1] == "ok"]
    if (disk.directory / "log.jsonl").exists():
        log = disk.open()
        assert log.next_seq >= max((written for written, _ in acknowledged), default=0)
        log.append(disk.drafts(log.next_seq))
        log.close()
    else:
        assert not acknowledged
        disk.create().close()
