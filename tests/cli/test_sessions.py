"""`dsh-time sessions`, and how a session is named."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_hookspecs import StepStart, TurnStart
from dsh_time.agent import Agent
from dsh_time.cli.ids import find_session
from dsh_time.errors import AmbiguousSessionId, InvalidSessionId, NoSession, SessionNotFound
from dsh_time.listing import summarize
from dsh_time.log import Draft, Log, SessionHeader
from dsh_time.models.scripted import call, say
from dsh_time.session import Session

from ..kit import make_harness
from .reading_kit import Home, home

__all__ = ["home"]


def listed(home: Home) -> list[dict[str, object]]:
    result = home.run("sessions", "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_a_session_is_listed_with_its_first_prompt_times_and_turns(home: Home) -> None:
    home.make("one", "First question", "Second", answers=(say("a"), say("b")))
    assert listed(home) == [
        {
            "id": "one",
            "createdAt": home.clock.now - 120_000,
            "lastTime": home.clock.now,
            "turns": 2,
            "title": "First question",
            "state": "ok",
            "reason": "",
            "parentSession": None,
            "forkedFrom": None,
        }
    ]
    assert home.run("sessions").output.splitlines() == [
        "ID   CREATED           LAST ACTIVITY     TURNS  STATE  TITLE",
        "one  2026-07-14 08:30  2026-07-14 08:32  2      ok     First question",
    ]


def test_the_session_that_was_used_last_comes_first(home: Home) -> None:
    home.make("zz", "x", answers=(say("a"),))
    home.make("aa", "x", answers=(say("a"),))
    assert [one["id"] for one in listed(home)] == ["aa", "zz"]


def test_without_sessions_the_list_says_how_to_make_one(home: Home) -> None:
    assert "dsh-time run PROMPT" in home.run("sessions").output
    assert home.run("sessions", "--json").output == ""
    assert not home.path.exists()


def test_a_session_in_use_is_locked_and_says_by_whom(home: Home) -> None:
    def look(_: Agent) -> None:
        (one,) = listed(home)
        assert (one["state"], one["turns"]) == ("locked", 0)
        assert f"process {os.getpid()} on" in str(one["reason"])

    home.live("one", look)
    assert listed(home)[0]["state"] == "ok"


def test_a_turn_that_a_crash_left_open_is_shown_although_newer_events_do_not_name_it(home: Home) -> None:
    directory = home.root / "one"
    with Session.create(directory, SessionHeader(id="one", created_at=1, writer="test")) as session:
        session.append([TurnStart(turn=3), StepStart(turn=3, step=1)], 5)
        session.log.append([Draft(time=6, type="note", data=b"{}", ignorable=True)] * 3)
    (one,) = listed(home)
    assert (one["state"], one["reason"], one["turns"], one["lastTime"]) == ("open-turn", "turn 3 did not end", 3, 6)


def test_a_users_own_call_opens_no_turn(home: Home) -> None:
    home.make("one", "x", answers=(say("a"),))

    async def run() -> None:
        async with make_harness(home.root, clock=home.clock) as harness:
            await harness.open("one").call_tool("nothing", "{}")

    asyncio.run(run())
    (one,) = listed(home)
    assert (one["state"], one["turns"]) == ("ok", 1)


def test_copies_and_children_name_where_they_come_from(home: Home) -> None:
    home.make("one", "x", answers=(say("a"),))
    assert home.run("fork", "one", "--as", "two").exit_code == 0
    header = SessionHeader(
        id="kid", created_at=1, writer="test", parent_session="one", ancestor_seqs=(1,), origin="subagent"
    )
    Session.create(home.root / "kid", header).close()
    by_id = {one["id"]: one for one in listed(home)}
    assert by_id["two"]["forkedFrom"] == "one"
    assert by_id["kid"]["parentSession"] == "one"
    text = home.run("sessions").output
    assert "(copy of one)" in text
    assert "(child of one)" in text


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", "the file is empty"),
        (lambda data: data.replace(b'"id":"bad"', b'"id":"god"'), "the checksum of the header"),
        (lambda data: data[: data.index(b"\n") + 1].replace(b"\n", b""), "the header line has no end"),
        (lambda data: data.replace(b"\n", b"\r\n"), "CRLF"),
        (lambda data: data.replace(b"Hello", b"Jello"), "line 3: the checksum does not match"),
        (lambda data: b"{}\n" + data, "no session header"),
    ],
)
def test_a_damaged_session_is_listed_with_its_reason_and_hides_no_other(
    home: Home, damage: Callable[[bytes], bytes], reason: str
) -> None:
    home.make("good", "Hi", answers=(say("a"),))
    home.make("bad", "Hello", "more", answers=(say("a"), say("b")))
    log = home.log("bad")
    log.write_bytes(damage(log.read_bytes()))
    by_id = {one["id"]: one for one in listed(home)}
    assert by_id["bad"]["state"] == "damaged"
    assert reason in str(by_id["bad"]["reason"])
    assert by_id["good"]["state"] == "ok"
    assert reason in home.run("sessions").output


def test_directories_that_are_no_sessions_are_passed_over_or_named_as_damaged(home: Home) -> None:
    home.root.mkdir(parents=True)
    (home.root / ".hidden").mkdir()
    (home.root / "empty").mkdir()
    (home.root / "file").write_text("x")
    (one,) = listed(home)
    assert (one["id"], one["state"]) == ("empty", "damaged")


def test_a_title_cannot_reach_the_terminal_or_a_second_line(home: Home) -> None:
    home.make("one", "\x1b[2J\x9b31m\u202e[red]\nnot a row", answers=(say("a"),))
    _, row = home.run("sessions").output.splitlines()
    assert row.endswith("ok     \\x1b[2J\\x9b31m\\u202e[red] not a row")
    assert listed(home)[0]["title"] == "\x1b[2J\x9b31m\u202e[red]\nnot a row"


def test_a_listing_reads_a_bounded_part_of_a_large_log(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    with Log.open(home.root / "one", lambda _: None) as log:
        text = json.dumps("a" * 500_000).encode()
        log.append([Draft(time=home.clock.now, type="note", data=text, ignorable=True)] * 12)
        log.append([Draft(time=home.clock.now, type="turn/start", data=b'{"turn":2}')])
    read = 0
    real = os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        data = real(descriptor, count, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    monkeypatch.setattr("dsh_time.listing._FIRST_EVENTS", 7)
    summary = summarize(home.root / "one")
    assert (summary.state, summary.turns, summary.title) == ("open-turn", 2, "Hi")
    assert read < 2_000_000 < home.log("one").stat().st_size


# -- how a session is named


def test_a_session_is_found_by_its_id_a_beginning_of_it_or_as_the_newest(home: Home) -> None:
    home.make("20260714-a", "x", answers=(say("a"),))
    home.make("20260715-b", "x", answers=(say("a"),))
    store = make_harness(home.root).store
    assert find_session(store, "20260714-a") == "20260714-a"
    assert find_session(store, "20260714") == "20260714-a"
    assert find_session(store, "last") == find_session(store, "-") == "20260715-b"
    with pytest.raises(AmbiguousSessionId, match="20260714-a, 20260715-b"):
        find_session(store, "2026")
    with pytest.raises(SessionNotFound):
        find_session(store, "2027")


def test_a_whole_id_is_meant_before_the_beginning_of_another_and_before_last(home: Home) -> None:
    for session_id in ("last", "lasting", "newest"):
        home.make(session_id, "x", answers=(say("a"),))
    assert find_session(make_harness(home.root).store, "last") == "last"


def test_without_sessions_there_is_no_last(home: Home) -> None:
    with pytest.raises(NoSession):
        find_session(make_harness(home.root).store, "last")


@pytest.mark.parametrize("name", ["../one", "..", "/etc", "one/../one", "", "a\x1b[2J", ".one", "o" * 65])
@pytest.mark.parametrize("command", [["show"], ["request", "--turn", "1"], ["verify"], ["salvage"], ["fork"]])
def test_a_name_that_could_lead_elsewhere_is_refused(home: Home, command: list[str], name: str) -> None:
    home.make("one", "x", answers=(say("a"),))
    (home.path / "outside").mkdir()
    result = home.run(*command, name)
    assert result.exit_code == 1
    assert "is no session id" in result.output
    assert "\x1b" not in result.output
    with pytest.raises(InvalidSessionId):
        find_session(make_harness(home.root).store, name)


@pytest.mark.parametrize("name", ["../two", "a b", "\u0661", "-x"])
@pytest.mark.parametrize("command", ["fork", "salvage"])
def test_a_new_id_that_is_none_is_refused_before_anything_is_made(home: Home, command: str, name: str) -> None:
    home.make("one", "x", answers=(say("a"), call("t")))
    result = home.run(command, "one", f"--as={name}")
    assert result.exit_code == 1
    assert "is no session id" in result.output
    assert [path.name for path in home.root.iterdir()] == ["one"]


def test_a_link_in_a_sessions_place_is_not_followed(home: Home, tmp_path: Path) -> None:
    home.make("one", "x", answers=(say("a"),))
    (home.root / "link").symlink_to(home.root / "one")
    result = home.run("show", "link")
    assert result.exit_code == 1
    assert "symbolic link" in result.output
