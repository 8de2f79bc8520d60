"""One writer: a kernel lock on the file `lock`, held as long as its descriptor is open. It is never unlinked.

The file's content only serves the message of a second writer. The kernel drops the lock when the process ends, however
it ends, so there is no staleness to judge.
"""

import os
import time
from pathlib import Path

import msgspec

from ..errors import SessionLocked
from .directory import LOCK_NAME, check_disk, make_directory
from .io import FILES, FileIo, release, write_all, write_failed


class Holder(msgspec.Struct, frozen=True):
    """Who holds the lock. `started`: epoch ms."""

    pid: int | None = None
    host: str | None = None
    started: int | None = None


def take_lock(io: FileIo, directory: Path) -> int:
    """Become the directory's only writer; closing the returned descriptor ends that.

    Raises:
        SessionLocked: another one holds it.
        WriteFailed: the lock file could not be made, locked or written.
    """
    path = directory / LOCK_NAME
    try:
        descriptor = io.open(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise write_failed(path, error) from error
    try:
        io.lock(descriptor)
        io.truncate(descriptor, 0)
        write_all(io, descriptor, msgspec.json.encode(_myself()))
    except BaseException as error:
        holder = _read_holder(io, descriptor)
        release(io, descriptor)
        if isinstance(error, BlockingIOError):
            raise SessionLocked(directory, holder.pid, holder.host, holder.started) from error
        if isinstance(error, OSError):
            raise write_failed(path, error) from error
        raise
    return descriptor


def claim_directory(io: FileIo, directory: Path, *, force: bool) -> int:
    """Make the directory of a new session and take its lock, which is returned.

    Raises:
        InvalidSessionId, UnsafePath, SessionLocked, NetworkFileSystem, WriteFailed, LogPoisoned: see their texts.
    """
    make_directory(io, directory)
    check_disk(io, directory, force=force)
    return take_lock(io, directory)


def lock_holder(directory: Path, *, io: FileIo = FILES) -> Holder | None:
    """Say who writes the session now; None when nobody does, or when the lock file cannot be read.

    Only the system's table of locks is looked at (Linux has one; elsewhere nobody is seen): taking the lock to find
    out could refuse somebody who opens the session just then.
    """
    try:
        descriptor = io.open(directory / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        inode = io.stat_open(descriptor).st_ino
        rows = [row.split() for row in io.lock_table().splitlines()]
        # `1: FLOCK ADVISORY WRITE <process> <major>:<minor>:<inode> 0 EOF`; a row with `->` only waits for the lock
        held = any(row[1:2] == ["FLOCK"] and row[5].endswith(f":{inode}") for row in rows if len(row) > 5)
        return _read_holder(io, descriptor) if held else None
    except OSError:
        return None
    finally:
        release(io, descriptor)


def _myself() -> Holder:
    return Holder(os.getpid(), os.uname().nodename, time.time_ns() // 1_000_000)


def _read_holder(io: FileIo, descriptor: int) -> Holder:
    try:
        return msgspec.json.decode(io.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return Holder()  # it is just being written
