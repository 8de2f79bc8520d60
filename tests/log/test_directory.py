"""Where sessions live: names that lead nowhere else, and disks that can be trusted."""

import errno
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import InvalidSessionId, NetworkFileSystem, SessionNotFound, UnsafePath, WriteFailed
from dsh_time.log import FileIo, Log, session_directory
from dsh_time.log.directory import check_directory, file_system, make_directory
from dsh_time.log.io import FILES

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /home rw shared:7 - nfs4 server:/home rw
31 27 0:31 / /home/me/locál\040disk rw shared:8 master:1 - ext4 /dev/vdb rw
32 27 0:32 / /over rw - ext4 /dev/vdc rw
33 27 0:33 / /over rw - fuse.sshfs host: rw
34 27 broken row
"""


@pytest.mark.parametrize("name", ["a", "0", "A-b_9", "x" * 64])
def test_a_session_id_names_a_directory_below_the_root(name: str) -> None:
    assert session_directory(Path("/r"), name) == Path("/r") / name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/a", "-a", "_a", "a.b", "a\n", "é", "x" * 65, "a\0"])
def test_what_could_lead_elsewhere_is_no_session_id(name: str) -> None:
    """D5."""
    with pytest.raises(InvalidSessionId, match="1 to 64 letters"):
        session_directory(Path("/r"), name)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/me/sessions", "nfs4"),
        ("/home/me/locál disk/sessions", "ext4"),
        ("/homes", "ext4"),
        ("/over/x", "fuse.sshfs"),
        ("/proc", "proc"),
    ],
)
def test_the_mount_table_says_what_holds_a_place(place: str, kind: str) -> None:
    """C9."""
    assert file_system(MOUNTS, Path(place)) == kind


def test_without_a_mount_table_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_system("", Path("/home")) == ""
    assert file_system(FILES.mount_table(), Path("/proc/self")) in ("proc", "")
    monkeypatch.setattr(Path, "read_text", lambda *_: (_ for _ in ()).throw(OSError()))
    assert FILES.mount_table() == FILES.lock_table() == ""


class Networked(FileIo):
    """Every place is on NFS."""

    def mount_table(self) -> str:
        return "27 1 0:1 / / rw - nfs server:/ rw\n"


def test_writing_on_a_network_file_system_is_refused_unless_forced(
    disk: "Disk", caplog: pytest.LogCaptureFixture
) -> None:
    """C9."""
    with pytest.raises(NetworkFileSystem, match=r"nfs.*local disk"):
        Log.create(disk.directory, disk.header, io=Networked())
    with caplog.at_level(logging.WARNING):
        Log.create(disk.directory, disk.header, io=Networked(), force=True).close()
    assert "network file system (nfs)" in caplog.text
    with pytest.raises(NetworkFileSystem):
        Log.open(disk.directory, lambda _: None, io=Networked())
    Log.open(disk.directory, lambda _: None, io=Networked(), force=True).close()
    assert disk.read() == []


def test_a_directory_is_made_with_its_parents_and_each_entry_is_synced(disk: "Disk", faulty: "FaultyIo") -> None:
    make_directory(faulty, disk.root / "a" / "b" / "s1")
    assert [call for call in faulty.happened() if call.split()[0] in ("make_directory", "sync")] == [
        *("make_directory a", "sync sessions", "make_directory b", "sync a", "make_directory s1", "sync b")
    ]
    make_directory(faulty, disk.root / "a" / "b" / "s1")


def test_two_may_make_the_same_directory(disk: "Disk", faulty: "FaultyIo") -> None:
    disk.directory.mkdir()
    faulty.fail("stat_path", 1, FileNotFoundError())
    make_directory(faulty, disk.directory)


def test_a_directory_that_cannot_be_made_is_an_error(disk: "Disk", faulty: "FaultyIo") -> None:
    faulty.fail("make_directory", 1, errno.ENOSPC)
    with pytest.raises(WriteFailed, match="ENOSPC"):
        make_directory(faulty, disk.directory)
    disk.directory.write_bytes(b"a file")
    with pytest.raises(UnsafePath, match="not a directory"):
        make_directory(faulty, disk.directory)
    with pytest.raises(SessionNotFound):
        check_directory(faulty, disk.directory / "s2")


def test_no_session_is_made_through_a_link(disk: "Disk", tmp_path: Path) -> None:
    """D5."""
    (tmp_path / "elsewhere").mkdir()
    disk.directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath, match="symbolic link"):
        disk.create()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["lock", "log.jsonl", "log.jsonl.tmp"])
def test_no_file_of_a_session_is_written_through_a_link(disk: "Disk", tmp_path: Path, name: str) -> None:
    """D5: a link in a file's place is refused or goes; what it points to is left alone."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    disk.directory.mkdir()
    (disk.directory / name).symlink_to(victim)
    if name == "log.jsonl.tmp":
        disk.create().close()
    else:
        with pytest.raises(Exception, match="exists already" if name == "log.jsonl" else "could not be written"):
            disk.create()
    assert victim.read_bytes() == b"precious"
