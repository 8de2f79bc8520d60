"""Every touch of a file by the log goes through one object of this class, so that tests can put faults in its way.

The methods are thin: they take and return what `os` does and raise its `OSError`. Paths, not directory handles, name
files; descriptors are plain integers. Nothing here knows what a log is.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ..errors import LogPoisoned, WriteFailed

#: How many bytes one read asks for. It bounds the memory of a scan, together with the longest line.
CHUNK = 1 << 20

_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class FileIo:
    """The real files. A test's double overrides single methods."""

    def open(self, path: Path, flags: int) -> int:
        """Open without ever following a link in the last part of `path`; a created file has mode 0600.

        O_NONBLOCK keeps a named pipe in a file's place from blocking us; it means nothing to a plain file.
        """
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)

    def close(self, descriptor: int) -> None:
        """Close it. An error here can be the report of an earlier write that was lost."""
        os.close(descriptor)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        """At most `count` bytes from `offset`; fewer are no sign of the end, none is."""
        return os.pread(descriptor, count, offset)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write once; returns how many bytes were taken, possibly fewer than given."""
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length` bytes."""
        os.ftruncate(descriptor, length)

    def sync_data(self, descriptor: int) -> None:
        """Return when the content, and the size, are on the disk."""
        _sync_data(descriptor)

    def sync(self, descriptor: int) -> None:
        """Return when the content and all attributes are on the disk; for a directory, its entries."""
        os.fsync(descriptor)

    def stat_open(self, descriptor: int) -> os.stat_result:
        """What the open file is."""
        return os.fstat(descriptor)

    def stat_path(self, path: Path) -> os.stat_result:
        """What the path names now; a link is not followed."""
        return os.lstat(path)

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; FileExistsError instead of replacing one."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Take the name away."""
        os.unlink(path)  # noqa: PTH108 one style in this class: the os call, nothing around it

    def make_directory(self, path: Path) -> None:
        """Make one directory, mode 0700."""
        os.mkdir(path, 0o700)  # noqa: PTH102 as above

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, in no particular order."""
        return os.listdir(directory)  # noqa: PTH208 as above

    def lock(self, descriptor: int) -> None:
        """Take the exclusive lock (flock) or raise BlockingIOError at once. It goes when the last copy is closed.

        Not lockf: its locks vanish when the process closes any other descriptor of the same file.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_table(self) -> str:
        """The text of Linux's table of file locks, empty where there is none."""
        try:
            return Path("/proc/locks").read_text("utf-8", "surrogateescape")
        except OSError:
            return ""

    def real_path(self, path: Path) -> Path:
        """The path with every link on the way followed."""
        return Path(os.path.realpath(path))

    def mount_table(self) -> str:
        """The text of Linux's mount table, empty where there is none."""
        try:
            return Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return ""


_Result = TypeVar("_Result")

#: The one that is used when nobody passes another.
FILES = FileIo()


def release(io: FileIo, descriptor: int) -> None:
    """Close a descriptor that nothing was written through; an error then means nothing."""
    with suppress(OSError):
        io.close(descriptor)


def sync_directory(io: FileIo, directory: Path) -> None:
    """Make the directory's entries durable. Raises OSError."""
    descriptor = io.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        io.sync(descriptor)
    finally:
        release(io, descriptor)


def write_all(io: FileIo, descriptor: int, data: bytes) -> None:
    """Write every byte, however many calls that takes. Raises OSError."""
    written = io.write(descriptor, data)
    while written < len(data):
        written += io.write(descriptor, data[written:])


def discard(io: FileIo, path: Path) -> None:
    """Take a temporary file away if it is there. A failure is harmless: the next one to need the name will say so."""
    with suppress(OSError):
        io.unlink(path)


def durably(path: Path, action: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a sync or a close. Its failure means that what the disk holds is not known: LogPoisoned."""
    try:
        return action(*arguments)
    except OSError as error:
        raise LogPoisoned(path, f"{action.__name__.replace('_', ' ')} failed ({error.strerror})") from error


def publish(io: FileIo, path: Path, fill: Callable[[Callable[[bytes], None]], None]) -> bool:
    """Make a new file appear under its name whole and durable, or not at all; False if the name was taken.

    `fill` is given a function that writes, and calls it with each part of the content. A temporary file in the same
    directory is written and synced, then linked without replacing anything, then the directory is synced. The caller
    holds the directory's lock, so a temporary file left there is a crash's and goes.

    Raises:
        WriteFailed: no file appeared.
        LogPoisoned: a sync or a close failed, so what the disk holds is not known.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    discard(io, temporary)
    try:
        descriptor = io.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            fill(lambda data: write_all(io, descriptor, data))
            durably(path, io.sync, descriptor)
        finally:
            durably(path, io.close, descriptor)
        io.link(temporary, path)
        fresh = True
    except FileExistsError:
        fresh = False
    except OSError as error:
        raise write_failed(path, error) from error
    finally:
        discard(io, temporary)
    durably(path, sync_directory, io, path.parent)
    return fresh


def write_failed(path: Path, error: OSError) -> WriteFailed:
    """The typed error for what the system said."""
    return WriteFailed(path, error.errno or 0, error.strerror or str(error))
