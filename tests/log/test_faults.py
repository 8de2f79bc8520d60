"""Every call of the system, failing in every way, during a whole life of a log."""

import errno
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dsh_time.errors import DshTimeError
from dsh_time.log import FILES, Log, SessionHeader, fork, salvage

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo

ERRNOS = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO]


def live(disk: "Disk", io: "FaultyIo") -> tuple[int, int]:
    """Create, append, sync, crash with a torn tail, reopen, append, as far as it goes.

    Returns how many events were acknowledged, and how many of them as synced.
    """
    written = synced = 0
    log: Log | None = None
    try:
        log = disk.create(io)
        log.write_side_file(b"output")
        for batch in ((0,), (1, 2)):
            log.append(disk.drafts(*batch))
            written = log.next_seq
            log.sync()
            synced = log.synced_seq + 1
        log.append(disk.drafts(3))
        written = log.next_seq
        log.close()
        with log.path.open("ab") as file:
            file.write(b"torn")
        log = disk.open(io)
        synced = log.synced_seq + 1
        log.append(disk.drafts(4))
        written = log.next_seq
        log.sync()
        synced = log.synced_seq + 1
    except DshTimeError:
        pass
    finally:
        if log is not None:
            with suppress(DshTimeError):
                log.close()
    return written, synced


def test_no_failing_call_loses_an_acknowledged_event_or_raises_anything_untyped(
    disk: "Disk", faulty: "FaultyIo"
) -> None:
    """C2, C8, R8, R9: every call times every errno. What was acknowledged is read later."""
    assert live(disk, faulty) == (5, 5)
    totals = {operation: faulty.count(operation) for operation, _ in faulty.calls}
    assert sum(totals.values()) > 60
    root = disk.root
    runs = 0
    for operation, total in totals.items():
        for nth in range(1, total + 1):
            for number in ERRNOS:
                runs += 1
                disk.directory = root / str(runs) / "s1"
                io = type(faulty)()
                io.fail(operation, nth, number)
                written, synced = live(disk, io)
                assert io.left_open() == []
                if not (disk.directory / "log.jsonl").exists():
                    assert written == 0
                    continue
                log = disk.open(FILES)  # checks that a prefix of the events is read, without gap or change
                assert synced <= written <= log.next_seq
                log.append(disk.drafts(log.next_seq))
                log.close()
    assert runs > 300


def test_no_write_that_takes_only_a_part_changes_anything(disk: "Disk", faulty: "FaultyIo") -> None:
    """R6: every write, cut short at every length."""
    live(disk, faulty)
    content = disk.content()
    root = disk.root
    for nth in range(1, faulty.count("write") + 1):
        for length in (1, 2, 50, 137, 150):
            disk.directory = root / f"{nth}-{length}" / "s1"
            io = type(faulty)()
            io.fail("write", nth, b"x" * length)
            assert live(disk, io) == (5, 5)
            assert disk.content() == content


@pytest.mark.parametrize("copy", ["fork", "salvage"])
def test_no_failing_call_leaves_half_a_copy_or_touches_the_source(disk: "Disk", faulty: "FaultyIo", copy: str) -> None:
    """Every call times every errno: the copy is there whole or not at all, and can be made again."""
    with disk.create() as log:
        log.append(disk.drafts(0, 1))
        log.write_side_file(b"output")
        log.append(disk.drafts(2))
        log.sync()
    before = {name: (disk.directory / name).read_bytes() for name in disk.names()}
    target = disk.root / "s2"

    def make(io: "FaultyIo") -> None:
        if copy == "fork":
            fork(disk.directory, target, SessionHeader(id="s2", created_at=1, writer="w"), 1, io=io)
        else:
            salvage(disk.directory, target, created_at=1, writer="w", io=io)

    make(faulty)
    expected = disk.read(target)
    for operation, total in {operation: faulty.count(operation) for operation, _ in faulty.calls}.items():
        for nth in range(1, total + 1):
            for number in ERRNOS:
                target = disk.root / f"{operation}-{nth}-{number}" / "s2"
                io = type(faulty)()
                io.fail(operation, nth, number)
                with suppress(DshTimeError):
                    make(io)
                assert io.left_open() == []
                if not (target / "log.jsonl").exists():
                    make(type(faulty)())
                assert disk.read(target) == expected
    assert {name: (disk.directory / name).read_bytes() for name in disk.names()} == before
