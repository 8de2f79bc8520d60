"""`dsh-time verify`, `salvage` and `fork`; and what every command says of a log that is not what was written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from dsh_time.cli import progress
from dsh_time.log import FILES, Draft, Log, scan
from dsh_time.models.scripted import say
from dsh_time.replay import rebuild_request

from ..kit import logged, types
from .reading_kit import Home, home

__all__ = ["home"]

Change = Callable[[bytes], bytes]


@frozen
class Damage:
    """A way a log can be wrong, and what is to be expected of it."""

    name: str
    change: Change
    state: str
    exit_code: int
    #: In what `verify` says.
    reason: str
    #: First line that does not verify.
    line: int
    #: Events that a salvage saves; None: nothing can be saved.
    saved: int | None
    #: Whether `show` prints the beginning and still succeeds, prints it and fails, or has nothing to print.
    shown: str
    #: Whether the session can be continued all the same.
    opens: bool = False


def header_of_another(data: bytes) -> bytes:
    """The log of another session, which a person copied here."""
    return data.replace(b'"id":"one"', b'"id":"two"')


# Two turns: lines 2 to 8 are the first turn's events, 9 to 14 the second's.
DAMAGES = [
    Damage("truncated", lambda d: d[:-10], "pending", 0, "has no newline", 14, 12, "fine", opens=True),
    Damage("nul-tailed", lambda d: d + b"\0" * 4096, "pending", 0, "has no newline", 15, 13, "fine", opens=True),
    Damage("nul-then-line-end", lambda d: d + b"\0" * 100 + b"\n", "torn", 0, "seal", 15, 13, "fine", opens=True),
    Damage("bit-flipped", lambda d: d.replace(b"First", b"Fjrst"), "damaged", 4, "checksum", 3, 1, "partly"),
    Damage(
        "line-missing", lambda d: d.replace(d.split(b"\n")[2] + b"\n", b""), "damaged", 4, "seq is 2", 3, 1, "partly"
    ),
    Damage("crlf", lambda d: d.replace(b"\n", b"\r\n"), "converted", 4, "CRLF", 15, 13, "fine"),
    Damage("empty", lambda d: b"", "damaged", 4, "the file is empty", 1, None, "nothing"),
    Damage("foreign", lambda d: b"PNG\r\n\x1a\n\x1b[2J" * 9, "damaged", 4, "", 1, None, "nothing"),
    Damage("header-flipped", header_of_another, "damaged", 4, "checksum of the header", 1, 13, "nothing"),
    Damage("header-gone", lambda d: d.split(b"\n", 1)[1], "damaged", 4, "no session header", 1, 13, "nothing"),
]


@pytest.fixture(params=DAMAGES, ids=lambda damage: damage.name)
def damage(home: Home, request: pytest.FixtureRequest) -> Damage:
    found: Damage = request.param
    home.make("one", "First", "Second", answers=(say("a"), say("b")))
    home.log("one").write_bytes(found.change(home.log("one").read_bytes()))
    return found


def test_verify_says_where_a_log_is_wrong_and_what_to_do(home: Home, damage: Damage) -> None:
    before = home.contents("one")
    result = home.run("verify", "one")
    assert result.exit_code == damage.exit_code, result.output
    assert damage.reason in result.output
    assert f"{home.log('one')}, byte " in result.output
    assert f"line {damage.line}: " in result.output
    assert ("dsh-time salvage one" in result.output) == (not damage.opens)
    assert "\x1b" not in result.output
    report = json.loads(home.run("verify", "--json", "one").output)
    assert (report["state"], report["line"]) == (damage.state, damage.line)
    assert home.contents("one") == before


def test_show_prints_what_can_be_trusted_and_says_where_that_ends(home: Home, damage: Damage) -> None:
    before = home.contents("one")
    for words in (["show"], ["show", "--full"], ["show", "--raw"]):
        result = home.run(*words, "one")
        assert result.exit_code == (0 if damage.shown == "fine" else 4), result.output
        assert (result.stdout == "") == (damage.shown == "nothing")
        assert "\x1b" not in result.output
        if damage.shown != "fine":
            assert (
                f"damaged at byte {json.loads(home.run('verify', '--json', 'one').output)['offset']}, " in result.stderr
            )
            assert "dsh-time salvage one" in result.stderr
    assert home.contents("one") == before


def test_what_must_not_be_continued_is_refused_and_left_as_it_is(home: Home, damage: Damage) -> None:
    before = home.contents("one")
    result = home.run("run", "--session", "one", "Third")
    if damage.opens:
        assert result.exit_code == 0, result.output
        assert types(home.root / "one")[-1] == "turn/end"
        cut = [data for name, data in home.contents("one").items() if ".cut-" in name]
        assert len(cut) == 1
    else:
        assert result.exit_code == 4
        assert "dsh-time salvage one" in result.stderr
        assert "Traceback" not in result.output
        assert {name: data for name, data in home.contents("one").items() if name != "lock"} == {
            name: data for name, data in before.items() if name != "lock"
        }


def test_salvage_makes_a_new_session_of_the_verified_beginning(home: Home, damage: Damage) -> None:
    before = home.contents("one")
    result = home.run("salvage", "one", "--as", "saved")
    assert home.contents("one") == before
    if damage.saved is None:
        assert result.exit_code == 1
        assert "nothing to salvage" in result.stderr
        assert not home.log("saved").exists()
        return
    assert result.exit_code == 0, result.output
    assert f"{damage.saved} events of one are in the new session saved." in result.output
    assert "dsh-time run --session saved PROMPT" in result.output
    assert len(logged(home.root / "saved")) == damage.saved
    assert home.run("verify", "saved").exit_code == 0
    assert home.run("run", "--session", "saved", "Third").exit_code == 0
    assert home.run("verify", "saved").exit_code == 0


# -- verify


def test_a_sound_log_is_ok(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    assert home.run("verify", "one").output == "ok  one: 7 events\n"
    assert json.loads(home.run("verify", "one", "--json").output) == {
        "id": "one",
        "state": "ok",
        "file": str(home.log("one")),
        "events": 7,
        "offset": home.log("one").stat().st_size,
        "line": 9,
        "reason": "",
        "next": "",
        "damagedSideFiles": [],
    }


def test_all_sessions_are_checked_also_behind_one_that_is_damaged_or_cannot_be_read(home: Home) -> None:
    for session_id in ("a", "b", "d"):
        home.make(session_id, "Hi", answers=(say("a"),))
    home.log("a").write_bytes(b"")
    (home.root / "c").mkdir()
    result = home.run("verify", "--all")
    assert result.exit_code == 4
    assert [line.split()[:2] for line in result.output.splitlines()] == [
        ["damaged", "a:"],
        ["ok", "b:"],
        ["unreadable", "c:"],
        ["ok", "d:"],
    ]
    states = [json.loads(line)["state"] for line in home.run("verify", "--all", "--json").output.splitlines()]
    assert states == ["damaged", "ok", "unreadable", "ok"]
    assert home.run("verify", "c", "b").exit_code == 1
    assert home.run("verify", "b", "d").exit_code == 0


def test_a_side_file_that_changed_is_damage(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    with Log.open(home.root / "one", lambda _: None) as log:
        name = log.write_side_file(b"output")
    (home.root / "one" / name).write_bytes(b"other")
    result = home.run("verify", "one")
    assert result.exit_code == 4
    assert f"{home.root / 'one' / name}: the side file is not what was stored" in result.output
    assert json.loads(home.run("verify", "--json", "one").output)["damagedSideFiles"] == [name]


def test_verify_wants_names_or_all(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    assert home.run("verify").exit_code == 2
    assert home.run("verify", "--all", "one").exit_code == 2
    assert home.run("verify", "two").exit_code == 1


def test_a_large_log_shows_how_far_its_checking_is_when_somebody_watches(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    monkeypatch.setattr(progress, "_LARGE", 1)
    with progress.reading(home.root / "one", "Checking") as io:
        assert io is FILES  # nobody watches
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.reading(home.root / "one", "Checking") as io:
        assert io is not FILES
        assert scan(home.root / "one", lambda _: None, io=io).state == "ok"
    assert "Checking one" in capsys.readouterr().err


# -- salvage and fork


def test_salvage_leaves_behind_what_this_program_must_not_skip(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    with Log.open(home.root / "one", lambda _: None) as log:
        log.append(
            [Draft(time=1, type="later/thing", data=b"{}"), Draft(time=1, type="turn/start", data=b'{"turn":2}')]
        )
    assert home.run("run", "--session", "one", "x").exit_code == 1
    result = home.run("salvage", "one", "--as", "saved")
    assert "7 events of one are in the new session saved. Left behind: line 9 and what follows (" in result.output
    assert "later/thing" in result.output
    assert home.run("run", "--session", "saved", "x").exit_code == 0


def test_new_sessions_get_an_id_that_says_when_they_were_made(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    assert home.run("salvage", "one").exit_code == 0
    assert home.run("fork", "one").exit_code == 0
    made = sorted(path.name for path in home.root.iterdir() if path.name != "one")
    assert [name[:16] for name in made] == ["20260714-083100-"] * 2


def test_neither_salvage_nor_fork_writes_over_a_session(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    home.make("two", "Other", answers=(say("b"),))
    before = home.contents("two")
    for command in ("salvage", "fork"):
        result = home.run(command, "one", "--as", "two")
        assert result.exit_code == 1
        assert "exists already" in result.stderr
    assert {**home.contents("two"), "lock": b""} == {**before, "lock": b""}


def test_a_fork_repeats_the_past_byte_for_byte_and_leaves_an_open_turn_out(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    with Log.open(home.root / "one", lambda _: None) as log:
        log.append([Draft(time=1, type="turn/start", data=b'{"turn":2}')])
        result = home.run("fork", "one", "--as", "two")  # while it is being written
    assert result.exit_code == 0
    assert result.output == "Made session two. To go on: dsh-time run --session two PROMPT\n"
    assert len(logged(home.root / "two")) == 7
    first = [rebuild_request(home.root / session_id, 1, 1).encode() for session_id in ("one", "two")]
    assert first[0] == first[1]


def test_a_plugin_that_cannot_be_loaded_keeps_nobody_from_copying_a_session(home: Home) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    Path("dsh-time.yaml").write_text("plugins: [{name: not-there}]\n")
    for command in ("salvage", "fork"):
        assert home.run(command, "one", "--as", f"by-{command}").exit_code == 0
