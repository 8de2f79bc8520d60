"""The writer: create, append, sync, close."""

import errno
import gc
import logging
import os
import stat
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dsh_time.errors import (
    InvalidDraft,
    InvalidSessionId,
    LogClosed,
    LogFull,
    LogPoisoned,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    WriteFailed,
    WrongProcess,
)
from dsh_time.log import LINE_LIMIT, Draft, FileIo, Log, Record, scan, writer

if TYPE_CHECKING:
    from .conftest import Disk, FaultyIo


def test_a_created_log_holds_its_header_and_nothing_else(disk: "Disk") -> None:
    with disk.create() as log:
        assert (log.next_seq, log.synced_seq, log.header, log.repaired) == (0, -1, disk.header, None)
    assert disk.names() == ["lock", "log.jsonl"]
    assert disk.read() == []


def test_creation_is_durable_before_the_log_has_its_name(disk: "Disk", faulty: "FaultyIo") -> None:
    """R11: temporary file, header, sync, link, sync of the directory; the new directory's entry is synced as well."""
    disk.create(faulty).close()
    happened = [
        call
        for call in faulty.happened()
        if call.split()[0] in ("make_directory", "open", "write", "sync", "link", "unlink")
    ]
    assert happened == [
        "make_directory s1",
        "open sessions",
        "sync sessions",
        "open lock",
        "write lock",
        "unlink log.jsonl.tmp",
        "open log.jsonl.tmp",
        "write log.jsonl.tmp",
        "sync log.jsonl.tmp",
        "link log.jsonl.tmp",
        "unlink log.jsonl.tmp",
        "open s1",
        "sync s1",
        "open log.jsonl",
    ]


def test_files_and_directories_are_private_even_under_umask_zero(disk: "Disk") -> None:
    before = os.umask(0)
    try:
        with Log.create(disk.root / "deep" / "s1", disk.header) as log:
            log.append(disk.drafts(0))
            log.write_side_file(b"output")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.directory.iterdir()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (log.directory, log.directory.parent)} == {0o700}


def test_a_session_is_never_created_over_another(disk: "Disk") -> None:
    with disk.create() as log:
        log.append(disk.drafts(0))
    content = disk.content()
    with pytest.raises(SessionExists, match="Choose another id"):
        disk.create()
    assert disk.content() == content
    disk.open().close()  # the failed attempt left no lock


def test_a_left_over_temporary_file_does_not_hinder_creation_and_goes_at_open(disk: "Disk") -> None:
    (disk.directory).mkdir(mode=0o700)
    (disk.directory / "log.jsonl.tmp").write_bytes(b"half a hea")
    disk.create().close()
    (disk.directory / "x.side.tmp").write_bytes(b"half an out")
    disk.open().close()
    assert disk.names() == ["lock", "log.jsonl"]


def test_the_header_and_the_directory_name_the_same_session(disk: "Disk") -> None:
    with pytest.raises(InvalidSessionId, match="s1"):
        Log.create(disk.root / "s2", disk.header)
    assert list(disk.root.iterdir()) == []


@pytest.mark.parametrize("change", [{"writer": "\ud800"}, {"parent_session": "../x"}, {"version": 2}])
def test_a_header_that_could_not_be_read_back_is_not_written(disk: "Disk", change: dict[str, Any]) -> None:
    with pytest.raises(InvalidDraft, match="'session' cannot be logged"):
        Log.create(disk.directory, msgspec.structs.replace(disk.header, **change))
    assert list(disk.root.iterdir()) == []


def test_appended_events_are_in_the_file_when_append_returns(disk: "Disk") -> None:
    """C1: write-through; one write for a batch."""
    with disk.create() as log:
        records = log.append(disk.drafts(0, 1, 2))
        assert [record.seq for record in records] == [0, 1, 2]
        found: list[Record] = []
        assert scan(log.directory, found.append).state == "ok"
        assert found == records
        assert (log.next_seq, log.synced_seq) == (3, -1)


def test_one_batch_is_one_write_and_appending_nothing_is_none(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create(faulty) as log:
        before = faulty.count("write")
        log.append(disk.drafts(0, 1, 2))
        assert log.append([]) == []
        assert faulty.count("write") == before + 1


def test_a_sync_counts_and_a_second_one_costs_nothing(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create(faulty) as log:
        log.sync()
        assert faulty.count("sync_data") == 0
        assert [record.b for record in log.append(disk.drafts(0, 1))] == [0, 0]
        log.sync()
        log.sync()
        assert faulty.count("sync_data") == 1
        assert log.synced_seq == 1
        assert [record.b for record in log.append(disk.drafts(2))] == [1]


def test_opening_syncs_first_and_goes_on_with_the_next_stretch(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create() as log:
        log.append(disk.drafts(0, 1))
    records: list[Record] = []
    with Log.open(disk.directory, records.append, io=faulty) as log:
        assert faulty.happened()[-1] == "sync_data log.jsonl"
        assert [record.seq for record in records] == [0, 1]
        assert (log.next_seq, log.synced_seq) == (2, 1)
        assert [record.b for record in log.append(disk.drafts(2))] == [1]
    with disk.open() as log:
        assert [record.b for record in log.append(disk.drafts(3))] == [2]
    assert disk.read() == [0, 1, 2, 3]


def test_a_log_with_only_a_header_goes_on_with_stretch_zero(disk: "Disk") -> None:
    """R25: header only is a valid empty session."""
    disk.create().close()
    with disk.open() as log:
        assert [record.b for record in log.append(disk.drafts(0))] == [0]


def test_what_does_not_exist_is_not_opened_and_nothing_is_made(disk: "Disk") -> None:
    with pytest.raises(SessionNotFound):
        disk.open()
    (disk.directory).mkdir()
    with pytest.raises(SessionNotFound):
        disk.open()
    assert list((disk.directory).iterdir()) == []


def test_an_error_of_the_consumer_passes_through_and_changes_nothing(disk: "Disk") -> None:
    """R22, R26: the layer above refuses an event; the lock is free again, even a torn tail is still there."""
    with disk.create() as log:
        log.append(disk.drafts(0))
    with log.path.open("ab") as file:
        file.write(b"torn")
    content = disk.content()
    with pytest.raises(ZeroDivisionError):
        Log.open(log.directory, lambda record: record.seq // 0)
    assert disk.content() == content
    assert disk.names() == ["lock", "log.jsonl"]
    disk.open().close()


def test_a_draft_that_cannot_be_logged_stops_its_whole_batch(disk: "Disk") -> None:
    """C10."""
    with disk.create() as log:
        size = log.path.stat().st_size
        with pytest.raises(InvalidDraft, match=r"'user/message' cannot be logged: the line is longer than"):
            log.append([*disk.drafts(0), Draft(1, "user/message", b'"' + b"x" * LINE_LIMIT + b'"')])
        assert log.path.stat().st_size == size
        assert [record.seq for record in log.append(disk.drafts(0))] == [0]


def test_the_hard_limit_refuses_and_the_soft_limit_warns(
    disk: "Disk", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C10."""
    with disk.create() as log:
        size = log.path.stat().st_size
        monkeypatch.setattr(writer, "SOFT_LIMIT", size + 150)
        monkeypatch.setattr(writer, "HARD_LIMIT", size + 300)
        with caplog.at_level(logging.WARNING):
            log.append(disk.drafts(0))
            assert caplog.messages == []
            log.append(disk.drafts(1))
            assert len(caplog.messages) == 1
        with pytest.raises(LogFull, match="start a new"):
            log.append(disk.drafts(2))
        assert disk.read() == [0, 1]


def test_an_append_waits_for_a_sync_that_is_under_way(disk: "Disk", monkeypatch: pytest.MonkeyPatch) -> None:
    """A line written during a sync may not be in it, so it must not carry the number from before."""
    with disk.create(FileIo()) as log:
        log.append(disk.drafts(0))
        syncing, go_on = threading.Event(), threading.Event()

        def slow(descriptor: int) -> None:
            syncing.set()
            assert go_on.wait(30)

        monkeypatch.setattr(log._io, "sync_data", slow)
        appended: list[Record] = []
        sync = threading.Thread(target=log.sync)
        append = threading.Thread(target=lambda: appended.extend(log.append(disk.drafts(1))))
        sync.start()
        assert syncing.wait(30)
        append.start()
        append.join(0.05)
        assert append.is_alive()
        go_on.set()
        append.join(30)
        sync.join(30)
        assert [(record.seq, record.b) for record in appended] == [(1, 1)]
        assert log.synced_seq == 0


# -- failing disks


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("taken", [None, b"x" * 50, b"x" * 130])
def test_a_disk_full_in_the_middle_of_a_batch_loses_nothing(
    disk: "Disk", faulty: "FaultyIo", number: int, taken: bytes | None
) -> None:
    """R8, C8: typed error, cut back to the known end, readable, and appends later."""
    with disk.create(faulty) as log:
        log.append(disk.drafts(0))
        content = disk.content()
        if taken:
            faulty.fail("write", 1, taken)
        faulty.fail("write", 2 if taken else 1, number)
        with pytest.raises(WriteFailed) as caught:
            log.append(disk.drafts(1, 2))
        assert caught.value.errno == number
        assert disk.content() == content
        assert log.next_seq == 1
        log.append(disk.drafts(1, 2))
        log.sync()
        assert disk.read() == [0, 1, 2]


def test_short_writes_are_continued(disk: "Disk", faulty: "FaultyIo") -> None:
    """R6."""
    with disk.create(faulty) as log:
        for nth in range(1, 40):
            faulty.fail("write", nth, b"x" * 5)
        log.append(disk.drafts(0, 1))
        assert faulty.count("write") > 40
        assert disk.read() == [0, 1]


def test_an_interrupted_append_is_taken_back(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create(faulty) as log:
        faulty.fail("write", 1, b"x" * 10)
        faulty.fail("write", 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            log.append(disk.drafts(0))
        log.append(disk.drafts(0))
        assert disk.read() == [0]


@pytest.mark.parametrize("fault", [errno.EIO, KeyboardInterrupt()])
def test_a_failed_roll_back_poisons(disk: "Disk", faulty: "FaultyIo", fault: int | BaseException) -> None:
    """C8."""
    with disk.create(faulty) as log:
        log.append(disk.drafts(0))
        faulty.fail("write", 1, b"x" * 10)
        faulty.fail("write", 2, errno.ENOSPC)
        faulty.fail("truncate", 1, fault)
        with pytest.raises(LogPoisoned if isinstance(fault, int) else KeyboardInterrupt):
            log.append(disk.drafts(1))
        for again in (log.sync, lambda: log.append(disk.drafts(1)), lambda: log.write_side_file(b"x")):
            with pytest.raises(LogPoisoned, match="dsh-time fork s1"):
                again()
    assert disk.read() == [0]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_poisons_and_is_never_tried_again(disk: "Disk", faulty: "FaultyIo", number: int) -> None:
    """R9, C8."""
    with disk.create(faulty) as log:
        log.append(disk.drafts(0))
        faulty.fail("sync_data", 1, number)
        with pytest.raises(LogPoisoned, match="sync data failed"):
            log.sync()
        with pytest.raises(LogPoisoned):
            log.sync()
        with pytest.raises(LogPoisoned):
            log.append(disk.drafts(1))
        assert faulty.count("sync_data") == 1
        assert log.synced_seq == -1


def test_a_failed_close_is_told_and_still_releases_the_lock(disk: "Disk", faulty: "FaultyIo") -> None:
    """R9."""
    log = disk.create(faulty)
    faulty.fail("close", 1, errno.EIO)
    with pytest.raises(LogPoisoned, match="close failed"):
        log.close()
    log.close()
    disk.open().close()


def test_a_failed_sync_of_a_side_file_poisons_but_a_full_disk_does_not(disk: "Disk", faulty: "FaultyIo") -> None:
    with disk.create(faulty) as log:
        faulty.fail("write", 1, errno.ENOSPC)
        with pytest.raises(WriteFailed):
            log.write_side_file(b"output")
        log.append(disk.drafts(0))
        faulty.fail("sync", 1, errno.EIO)
        with pytest.raises(LogPoisoned):
            log.write_side_file(b"output")
        with pytest.raises(LogPoisoned):
            log.append(disk.drafts(1))
    assert disk.names() == ["lock", "log.jsonl"]


# -- somebody else's hand


def test_a_file_that_somebody_else_changed_poisons(disk: "Disk") -> None:
    """R13."""
    with disk.create() as log:
        with log.path.open("ab") as file:
            file.write(b"x")
        with pytest.raises(LogPoisoned, match="something else wrote"):
            log.append(disk.drafts(0))


def test_a_file_that_was_replaced_poisons(disk: "Disk", tmp_path: Path) -> None:
    """R13."""
    with disk.create() as log:
        copy = tmp_path / "copy"
        copy.write_bytes(disk.content())
        copy.replace(log.path)
        with pytest.raises(LogPoisoned, match="replaced"):
            log.append(disk.drafts(0))


def test_a_descriptor_that_came_to_mean_another_file_poisons(disk: "Disk", tmp_path: Path) -> None:
    """R13: something in the process closed a number that is not its own, and the system gave it to the next file."""
    with disk.create() as log:
        log.append(disk.drafts(0))
        own = os.dup(log._log)
        other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR, 0o600)
        os.dup2(other, log._log)
        with pytest.raises(LogPoisoned, match="replaced"):
            log.append(disk.drafts(1))
        os.dup2(own, log._log)
        os.close(own)
        os.close(other)
    assert (tmp_path / "other").read_bytes() == b""


def test_a_file_that_was_removed_poisons(disk: "Disk") -> None:
    """R13."""
    with disk.create() as log:
        log.path.unlink()
        with pytest.raises(LogPoisoned, match="removed"):
            log.append(disk.drafts(0))


def test_a_file_whose_state_cannot_be_read_poisons(disk: "Disk", faulty: "FaultyIo") -> None:
    """R13."""
    with disk.create(faulty) as log:
        faulty.fail("stat_open", 1, errno.EIO)
        with pytest.raises(LogPoisoned, match="state"):
            log.append(disk.drafts(0))


# -- the life of a handle


def test_a_closed_log_takes_nothing(disk: "Disk") -> None:
    log = disk.create()
    log.close()
    for attempt in (lambda: log.append(disk.drafts(0)), log.sync, lambda: log.write_side_file(b"x")):
        with pytest.raises(LogClosed, match="open the session again"):
            attempt()


def test_a_log_that_was_never_closed_is_a_resource_warning(disk: "Disk") -> None:
    log = disk.create()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del log
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    disk.open().close()


@pytest.mark.process
def test_a_forked_child_may_not_write_and_cannot_release_its_parents_lock(
    disk: "Disk", monkeypatch: pytest.MonkeyPatch
) -> None:
    """R15."""
    with disk.create() as log:
        log.append(disk.drafts(0))
        child = os.fork()
        if not child:
            answer = 1
            try:
                try:
                    log.append(disk.drafts(1))
                except WrongProcess:
                    answer = 0
                log.__del__()
                log.close()
            finally:
                os._exit(answer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(SessionLocked):
            disk.open()
        log.append(disk.drafts(1))
        monkeypatch.setattr(os, "getpid", lambda: 0)
        for attempt in (lambda: log.append(disk.drafts(2)), log.sync, lambda: log.write_side_file(b"x")):
            with pytest.raises(WrongProcess, match="forked child"):
                attempt()
        monkeypatch.undo()
    assert disk.read() == [0, 1]
