"""Side files: large output beside the log."""

import errno
import hashlib
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import SideFileError, WriteFailed
from dsh_time.log import read_side_file

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


def test_a_side_file_is_named_by_its_content_and_read_back(disk: "Disk") -> None:
    """C10."""
    with disk.create() as log:
        data = bytes(range(256)) * 10_000
        name = log.write_side_file(data)
        assert name == hashlib.sha256(data).hexdigest() + ".side"
        assert read_side_file(disk.directory, name) == data
        assert log.write_side_file(data) == name
        assert disk.names() == sorted([name, "lock", "log.jsonl"])


def test_a_side_file_is_durable_before_its_name_is_known(disk: "Disk", faulty: "FaultyIo") -> None:
    """C10: content synced, then linked, then the directory synced."""
    with disk.create(faulty) as log:
        before = len(faulty.calls)
        name = log.write_side_file(b"output")
        assert faulty.happened()[before:] == [
            *(f"unlink {name}.tmp", f"open {name}.tmp", f"write {name}.tmp", f"sync {name}.tmp", f"close {name}.tmp"),
            *(f"link {name}.tmp", f"unlink {name}.tmp", "open s1", "sync s1", "close s1"),
        ]


def test_content_that_is_not_what_its_name_says_is_refused(disk: "Disk") -> None:
    with disk.create() as log:
        name = log.write_side_file(b"output")
        (disk.directory / name).write_bytes(b"outpux")
        for attempt in (lambda: read_side_file(disk.directory, name), lambda: log.write_side_file(b"output")):
            with pytest.raises(SideFileError, match="its content is not"):
                attempt()
        log.append(disk.drafts(0))


@pytest.mark.parametrize("name", ["", "../s2/log.jsonl", "log.jsonl", "A" * 64 + ".side", "a" * 64 + ".side\n"])
def test_a_name_from_a_log_cannot_lead_elsewhere(disk: "Disk", name: str) -> None:
    """D5."""
    disk.create().close()
    with pytest.raises(SideFileError, match="no name"):
        read_side_file(disk.directory, name)


def test_a_side_file_that_cannot_be_read_is_an_error(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create() as log:
        name = log.write_side_file(b"output")
    faulty.fail("pread", 1, errno.EIO)
    with pytest.raises(SideFileError, match="EIO"):
        read_side_file(disk.directory, name, io=faulty)
    with pytest.raises(SideFileError, match="No such file"):
        read_side_file(disk.directory, "0" * 64 + ".side")


def test_a_side_file_that_cannot_be_written_leaves_nothing(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create(faulty) as log:
        faulty.fail("write", 1, b"xx")
        faulty.fail("write", 2, errno.ENOSPC)
        with pytest.raises(WriteFailed):
            log.write_side_file(b"output")
        assert disk.names() == ["lock", "log.jsonl"]
        log.write_side_file(b"output")
