"""Side files: large tool output beside the log, named by its SHA-256 and durable before its name is logged."""

import hashlib
import os
import re
from pathlib import Path

from ..errors import SideFileError
from .io import CHUNK, FILES, FileIo, publish, release

SIDE_NAME = re.compile(r"[0-9a-f]{64}\.side")


def write_side_file(io: FileIo, directory: Path, data: bytes) -> str:
    """Store the content and return the file's name in `directory`. Storing it again changes nothing.

    Raises:
        WriteFailed, LogPoisoned: it is not stored.
        SideFileError: a file of that name holds something else.
    """
    name = f"{hashlib.sha256(data).hexdigest()}.side"
    if not publish(io, directory / name, lambda write: write(data)):
        read_side_file(directory, name, io=io)
    return name


def read_side_file(directory: Path, name: str, *, io: FileIo = FILES) -> bytes:
    """The content that was stored under that name. The name may come from a log: it is checked before it is used.

    Raises:
        SideFileError: no such name, no such file, or not the content its name says.
    """
    path = directory / name
    if not SIDE_NAME.fullmatch(name):
        raise SideFileError(directory, f"{name!r} is no name of a side file")
    try:
        descriptor = io.open(path, os.O_RDONLY)
        try:
            data = bytearray()
            while part := io.pread(descriptor, CHUNK, len(data)):
                data += part
        finally:
            release(io, descriptor)
    except OSError as error:
        raise SideFileError(path, error.strerror or str(error)) from error
    if f"{hashlib.sha256(data).hexdigest()}.side" != name:
        raise SideFileError(path, "its content is not what its name says")
    return bytes(data)
