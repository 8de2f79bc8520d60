"""The directory of all sessions."""

from pathlib import Path

import pytest

from dsh_hookspecs import TurnStart
from dsh_time.errors import InvalidSessionId, LogUnreadable, NoSession
from dsh_time.log import LOG_NAME, SessionHeader
from dsh_time.session import Session
from dsh_time.store import Store, default_root


def make(root: Path, name: str, *, created: int, last: int | None = None, parent: str | None = None) -> None:
    header = SessionHeader(id=name, created_at=created, writer="test", parent_session=parent)
    with Session.create(root / name, header) as session:
        if last is not None:
            session.append([TurnStart(turn=1)], last)


def test_the_newest_session_is_the_one_with_the_latest_event(tmp_path: Path) -> None:
    make(tmp_path, "old", created=900, last=1000)
    make(tmp_path, "new", created=100, last=2000)
    assert Store(tmp_path).newest() == "new"


def test_a_session_without_events_is_as_old_as_it_was_made(tmp_path: Path) -> None:
    make(tmp_path, "used", created=100, last=1000)
    make(tmp_path, "empty", created=1001)
    assert Store(tmp_path).newest() == "empty"


def test_of_sessions_with_the_same_last_time_the_one_made_later_is_newer_and_then_the_greater_id(
    tmp_path: Path,
) -> None:
    make(tmp_path, "z", created=1, last=1000)
    make(tmp_path, "a", created=2, last=1000)
    assert Store(tmp_path).newest() == "a"
    make(tmp_path, "b", created=2, last=1000)
    assert Store(tmp_path).newest() == "b"


def test_a_child_is_never_the_newest(tmp_path: Path) -> None:
    make(tmp_path, "parent", created=1, last=1000)
    make(tmp_path, "child", created=2, last=2000, parent="parent")
    assert Store(tmp_path).newest() == "parent"


def test_a_damaged_session_is_listed_and_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "good", created=1, last=1000)
    make(tmp_path, "bad", created=2, last=2000)
    (tmp_path / "bad" / LOG_NAME).write_bytes(b"not a header\n")
    assert Store(tmp_path).ids() == ["bad", "good"]
    assert Store(tmp_path).newest() == "good"
    assert "Session bad was passed over" in caplog.text


def test_what_is_no_session_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "one", created=1)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "with blank").mkdir()
    assert Store(tmp_path).ids() == ["one"]


def test_without_a_session_there_is_none_to_continue(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "not there yet"):
        assert Store(root).ids() == []
        with pytest.raises(NoSession, match="there is no session yet"):
            Store(root).newest()


def test_a_root_that_cannot_be_listed_is_an_error_and_not_an_empty_store(tmp_path: Path) -> None:
    file = tmp_path / "root"
    file.write_text("x", encoding="utf-8")
    for look in (Store(file).ids, Store(file).newest):
        with pytest.raises(LogUnreadable, match="Not a directory"):
            look()


def test_a_session_is_always_below_the_root(tmp_path: Path) -> None:
    assert Store(tmp_path).directory("one") == tmp_path / "one"
    with pytest.raises(InvalidSessionId):
        Store(tmp_path).directory("../one")


def test_sessions_are_kept_with_the_users_data_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_root().name == "sessions"
    assert default_root().parent.name == "dsh-time"


def test_a_directory_whose_making_was_cut_short_is_passed_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cut-short").mkdir()
    with pytest.raises(NoSession):
        Store(tmp_path).newest()
    assert not caplog.text
