"""A session's directory: its name, its kind, the files in it, and whether its disk can be trusted."""

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Raw

from ..errors import InvalidDraft, InvalidSessionId, LogUnreadable, NetworkFileSystem, SessionNotFound, UnsafePath
from .format import SESSION_ID, BadLine, SessionHeader, encode_header
from .io import FileIo, durably, sync_directory, write_failed

LOG_NAME = "log.jsonl"
LOCK_NAME = "lock"

#: File systems whose locks or syncs may mean nothing to another machine, as the mount table names them.
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "smbfs"}
)


def session_directory(root: Path, name: str) -> Path:
    """Where the session of that id lives below `root`; it need not exist.

    Raises:
        InvalidSessionId: the name could lead elsewhere, or is none.
    """
    if not SESSION_ID.fullmatch(name):
        raise InvalidSessionId(root, name)
    return root / name


def check_directory(io: FileIo, directory: Path) -> None:
    """A session is a real directory with a session id for a name: then no link and no `..` leads anywhere else.

    Raises:
        InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable: what else it is.
    """
    session_directory(directory.parent, directory.name)
    try:
        mode = io.stat_path(directory).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SessionNotFound(directory) from error
    except OSError as error:
        raise LogUnreadable(directory, error.strerror or str(error)) from error
    if not stat.S_ISDIR(mode):
        raise UnsafePath(directory, "is not a directory" if not stat.S_ISLNK(mode) else "is a symbolic link")


def open_log(io: FileIo, directory: Path, *, write: bool = False) -> int:
    """A descriptor of the session's log, for reading or also for appending. The log must exist.

    Raises:
        InvalidSessionId, SessionNotFound, UnsafePath: nothing of the right kind is there.
        LogUnreadable, WriteFailed: the system refused.
    """
    check_directory(io, directory)
    path = directory / LOG_NAME
    try:
        if not stat.S_ISREG(io.stat_path(path).st_mode):
            raise UnsafePath(path, "is not a plain file")
        return io.open(path, os.O_RDWR | os.O_APPEND if write else os.O_RDONLY)
    except FileNotFoundError as error:
        raise SessionNotFound(directory) from error
    except OSError as error:
        raise write_failed(path, error) if write else LogUnreadable(path, error.strerror or str(error)) from error


def header_line(directory: Path, header: SessionHeader, unknown: Mapping[str, Raw] | None = None) -> bytes:
    """The first line of a new session's log, with its newline.

    Raises:
        InvalidSessionId: the directory is not named as the session.
        InvalidDraft: a reader would refuse this header.
    """
    if directory.name != header.id:
        raise InvalidSessionId(directory, header.id)
    try:
        return encode_header(header, unknown) + b"\n"
    except BadLine as error:
        raise InvalidDraft(directory / LOG_NAME, "session", str(error)) from error


def list_names(io: FileIo, directory: Path) -> list[str]:
    """The names of the files in a session's directory. Raises LogUnreadable."""
    try:
        return io.names(directory)
    except OSError as error:
        raise LogUnreadable(directory, error.strerror or str(error)) from error


def make_directory(io: FileIo, directory: Path) -> None:
    """Make the session's directory, and its root if need be, private and durable. One that is there is taken.

    Raises:
        InvalidSessionId, UnsafePath: nothing of that kind can be there.
        WriteFailed, LogPoisoned: the system refused.
    """
    session_directory(directory.parent, directory.name)
    missing = []
    place = directory
    try:
        while not _exists(io, place):
            missing.append(place)
            place = place.parent
        for place in reversed(missing):
            io.make_directory(place)
            durably(place, sync_directory, io, place.parent)
    except FileExistsError:
        pass  # somebody else was quicker
    except OSError as error:
        raise write_failed(directory, error) from error
    check_directory(io, directory)


def check_disk(io: FileIo, directory: Path, *, force: bool) -> None:
    """Refuse to write on a network file system; with `force`, warn.

    Raises:
        NetworkFileSystem: the directory is on one.
    """
    kind = file_system(io.mount_table(), io.real_path(directory))
    if kind in NETWORK_FILE_SYSTEMS:
        error = NetworkFileSystem(directory, kind)
        if not force:
            raise error
        logging.getLogger(__name__).warning("%s (forced)", error)


def file_system(mount_table: str, place: Path) -> str:
    """The kind of file system that holds `place`, by the text of Linux's mountinfo; empty when it does not say."""
    kind, depth = "", -1
    for row in mount_table.splitlines():
        before, _, after = row.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 4 and after:
            mount = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))  # a blank is \\040
            if place.is_relative_to(mount) and len(mount.parts) >= depth:
                kind, depth = after.split(" ")[0], len(mount.parts)
    return kind


def _exists(io: FileIo, path: Path) -> bool:
    try:
        io.stat_path(path)
    except FileNotFoundError:
        return False
    return True
