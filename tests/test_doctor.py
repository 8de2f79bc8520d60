"""The doctor: what it finds in a session, and what it puts right."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from dsh_hookspecs import Payload, SideFile, TurnEnd, TurnEndReason, TurnStart
from dsh_time.doctor import Checkup, examine
from dsh_time.log import Draft, FileIo, Log, SessionHeader
from dsh_time.models.scripted import call, say
from dsh_time.session import Session

from .events import assistant, result, user
from .events import call as called
from .kit import make_harness
from .test_crash_points import Busy

HEADER = SessionHeader(id="s1", created_at=1, writer="w")
DONE = TurnEnd(turn=1, reason=TurnEndReason(kind="completed"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a session goes."""
    return tmp_path / "s1"


def kinds(found: Checkup) -> list[str]:
    return [finding.kind for finding in found.findings]


def session(directory: Path, *payloads: Payload) -> Path:
    """A session with these events, synced, one stretch each."""
    with Session.create(directory, HEADER) as made:
        for payload in payloads:
            made.append([payload], 1)
            made.sync()
    return directory


async def test_a_sound_session_has_nothing_to_say(tmp_path: Path) -> None:
    async with make_harness(tmp_path, call("beside") + call("alone"), say("ok"), plugins={"busy": Busy}) as harness:
        agent = harness.create("s1")
        await agent.prompt("Hi")
        await agent.call_tool("broken", "{}")
    assert examine(tmp_path / "s1") == Checkup("s1", 18, ())


def test_a_torn_tail_is_told_and_cut_off_only_when_asked(directory: Path) -> None:
    log = session(directory, user("a")) / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b"torn\n")
    found = examine(directory)
    assert (kinds(found), found.damaged, found.events) == (["log-torn"], False, 1)
    assert f"{log}, byte {len(whole)}, line 3" in found.findings[0].text
    assert log.read_bytes() == whole + b"torn\n"
    assert sorted(path.name for path in directory.iterdir()) == ["lock", "log.jsonl"]
    (mended,) = examine(directory, fix=True).findings
    assert mended.fixed
    assert "5 bytes" in mended.next_step
    assert log.read_bytes() == whole
    (kept,) = examine(directory, fix=True).findings
    assert (kept.kind, kept.level, kept.fixed) == ("cut-off", "note", False)


def test_a_damaged_log_is_told_with_the_next_command_and_never_touched(directory: Path) -> None:
    """C7: not even a temporary file beside it."""
    log = session(directory, user("a"), user("b"), user("c")) / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"text":"a"', b'"text":"x"'))
    (directory / "log.jsonl.tmp").write_bytes(b"")
    (directory / "log.jsonl.tmp").chmod(0o600)
    before = {path: path.read_bytes() for path in directory.iterdir()}
    for fix in (False, True):
        found = examine(directory, fix=fix)
        assert found.damaged
        assert kinds(found) == ["log-damaged", "temporary-file"]
        assert found.findings[0].next_step == "dsh-time salvage s1"
        assert "line 2" in found.findings[0].text
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def test_other_users_rights_are_told_and_taken_away(directory: Path) -> None:
    session(directory, user("a"))
    directory.chmod(0o755)
    (directory / "log.jsonl").chmod(0o644)
    found = examine(directory)
    assert kinds(found) == ["permissions", "permissions"]
    assert "mode 0755 instead of 0700" in found.findings[0].text
    assert all(finding.fixed for finding in examine(directory, fix=True).findings)
    assert examine(directory).findings == ()


def test_what_a_crash_left_is_told_and_removed_and_what_is_not_ours_is_left(directory: Path) -> None:
    session(directory, user("a"))
    for name in ("log.jsonl.tmp", "notes.txt"):
        (directory / name).write_bytes(b"x")
        (directory / name).chmod(0o600)
    (directory / "folder").mkdir(mode=0o700)
    (directory / "link").symlink_to("/etc/passwd")
    assert kinds(examine(directory)) == ["stray-file", "stray-file", "temporary-file", "stray-file"]
    examine(directory, fix=True)
    assert sorted(path.name for path in directory.iterdir()) == ["folder", "link", "lock", "log.jsonl", "notes.txt"]


def test_files_of_somebody_else_are_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(directory, user("a"))
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert kinds(examine(directory)) == ["owner"] * 3


def test_a_session_in_use_is_not_touched(directory: Path) -> None:
    with Log.create(directory, HEADER):
        (directory / "x.tmp").write_bytes(b"")
        (directory / "x.tmp").chmod(0o600)
        found = examine(directory, fix=True)
        assert [finding.kind for finding in found.findings if finding.level == "note"] == ["temporary-file", "in-use"]
        assert (directory / "x.tmp").exists()


def test_what_cannot_be_put_right_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = session(directory, user("a")) / "log.jsonl"
    with log.open("ab") as file:
        file.write(b"torn")

    class Networked(FileIo):
        def mount_table(self) -> str:
            return "27 1 0:1 / / rw - nfs server:/ rw\n"

    assert kinds(examine(directory, fix=True, io=Networked())) == ["log-pending", "not-fixed"]
    assert all(finding.fixed for finding in examine(directory, fix=True, io=Networked(), force=True).findings)
    directory.chmod(0o755)

    def refuse(descriptor: int, mode: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    found = examine(directory, fix=True)
    assert kinds(found)[-1] == "not-fixed"
    assert not any(finding.fixed for finding in found.findings)


def test_calls_and_results_that_do_not_belong_together_are_told(directory: Path) -> None:
    log: list[Payload] = [
        TurnStart(turn=1),
        assistant("", "c1", "c2"),
        called("c1"),
        called("c9"),
        result("c1"),
        result("c1", "again"),
    ]
    found = examine(session(directory, *log, result("c8"), DONE))
    assert kinds(found) == ["orphan-call", "orphan-result", "orphan-result", "call-without-result"]
    texts = [finding.text for finding in found.findings]
    assert "event 3" in texts[0]
    assert "c1, which has a result already" in texts[1]
    assert "c8, which is in no answer before it" in texts[2]
    assert "c2 has no result" in texts[3]
    assert not found.damaged


def test_a_real_result_after_one_that_stood_in_belongs_there(directory: Path) -> None:
    """R31."""
    stand_in = result("c1", code="TOOL_OUTCOME_UNKNOWN")
    log: list[Payload] = [
        TurnStart(turn=1),
        assistant("", "c1"),
        called("c1"),
        stand_in,
        result("c1"),
        called("u1", by_user=True),
    ]
    log += [result("u1", by_user=True), called("u2", by_user=True)]  # a crash, which repairs no call of a user's
    assert kinds(examine(session(directory, *log, DONE))) == []


def test_an_open_turn_is_worth_a_note(directory: Path) -> None:
    (note,) = examine(session(directory, TurnStart(turn=3), user("a"), assistant("", "c1"))).findings
    assert (note.level, note.kind) == ("note", "open-turn")
    assert "turn 3" in note.text


def test_side_files_that_are_not_there_or_not_what_was_stored_are_told(directory: Path) -> None:
    with Session.create(directory, HEADER) as made:
        name = made.log.write_side_file(b"output")
        missing = SideFile(file="0" * 64 + ".side", bytes=3)
        made.append(
            [TurnStart(turn=1), assistant("", "c1"), msgspec.structs.replace(result("c1"), output=missing), DONE], 1
        )
    (directory / name).write_bytes(b"other")
    found = examine(directory)
    assert kinds(found) == ["side-file", "side-file"]
    assert found.damaged


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-Abcdefghij0123456789_-x",
        "ghp_" + "a1" * 18,
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_text_that_looks_like_a_key_is_told_without_repeating_it(directory: Path, key: str) -> None:
    """D10."""
    found = examine(session(directory, user(f"use {key}, please")))
    assert set(kinds(found)) == {"key"}
    assert key not in repr(found)
    assert "event 0" in found.findings[0].text


@pytest.mark.parametrize("text", ["task-management-for-everybody-and-more", "sk-short1", "sk-nothing-but-letters-here"])
def test_other_text_is_no_key(directory: Path, text: str) -> None:
    assert kinds(examine(session(directory, user(text)))) == []


@pytest.mark.parametrize("piece", ["sk-", "-----BEGIN ", "sk-a1", "A", "ghp_-"])
def test_looking_for_keys_takes_time_in_proportion_to_the_text(directory: Path, piece: str) -> None:
    """D16."""
    session(directory, user(piece * (100_000 // len(piece))))
    started = time.process_time()
    examine(directory)
    assert time.process_time() - started < 2


def test_events_that_this_program_does_not_know_are_told(directory: Path) -> None:
    """R26, R22."""
    with Log.create(directory, HEADER) as log:
        log.append([Draft(1, "later/kind", b"{}", ignorable=True), Draft(1, "other/kind", b"{}")])
    found = examine(directory, fix=True)
    assert (kinds(found), found.damaged) == (["unknown-event-type"], True)
    shutil.rmtree(directory)
    with Log.create(directory, HEADER) as log:
        log.append([Draft(1, "turn/start", b'{"turn":"x"}')])
    assert kinds(examine(directory)) == ["bad-payload"]


def test_a_directory_without_a_log_and_one_that_cannot_be_read_are_told(directory: Path) -> None:
    directory.mkdir()
    (only,) = examine(directory).findings
    assert (only.kind, only.level) == ("no-log", "warning")
    (directory / "log.jsonl").symlink_to("/etc/passwd")
    (only,) = examine(directory).findings
    assert (only.kind, only.level) == ("unreadable", "damage")
    assert "log.jsonl: is not a plain file" in only.text


def test_another_version_is_told(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "log.jsonl").write_bytes(b'{"type":"session","version":2}\n')
    (directory / "log.jsonl").chmod(0o600)
    assert kinds(examine(directory)) == ["log-unsupported"]
