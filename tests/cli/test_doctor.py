"""`dsh-time doctor`."""

import json

import pytest

from dsh_time.cli import progress
from dsh_time.log import FILES
from dsh_time.models.scripted import say

from .reading_kit import Home, home

__all__ = ["home"]


@pytest.fixture
def three(home: Home) -> Home:
    """Three sessions: a sound one, one with damage, one with a torn tail that others may read."""
    for name in ("one", "three", "two"):
        home.make(name, "Hi", "Again", answers=(say("a"), say("b")))
    home.log("two").write_bytes(home.log("two").read_bytes().replace(b"Hi", b"Ho"))
    home.log("three").write_bytes(home.log("three").read_bytes() + b"torn\n")
    home.log("three").chmod(0o644)
    return home


def test_every_session_is_looked_over_and_damage_hides_none(three: Home) -> None:
    before = three.contents("two") | three.contents("three")
    result = three.run("doctor")
    assert result.exit_code == 4
    lines = result.output.splitlines()
    assert lines[0] == "ok  one: 13 events"
    assert lines[1] == "three: 13 events"
    assert lines[2].startswith(f"  warning  {three.log('three')}, byte ")
    assert "line 15" in lines[2]
    assert "others may use it (mode 0644 instead of 0600)" in lines[3]
    assert lines[4] == "two: 1 events"
    assert lines[5].startswith(f"  damage  {three.log('two')}, byte ")
    assert lines[5].endswith("does not match. Next: dsh-time salvage two.")
    assert lines[6] == "3 sessions, 3 findings, 1 damaged."
    assert three.contents("two") | three.contents("three") == before


def test_one_session_is_no_plural(three: Home) -> None:
    assert three.run("doctor", "one").output.endswith("\n1 session, 0 findings, 0 damaged.\n")


def test_what_can_be_put_right_is_only_when_asked_and_damage_is_left_alone(three: Home) -> None:
    damaged = three.log("two").read_bytes()
    result = three.run("doctor", "--fix")
    assert result.exit_code == 4
    assert result.output.count("  fixed  ") == 2
    assert "They are kept in" in result.output
    assert three.log("two").read_bytes() == damaged
    assert three.log("three").stat().st_mode & 0o777 == 0o600
    again = three.run("doctor", "one", "three")
    assert again.exit_code == 0
    assert "note  " in again.output  # the kept bytes
    assert "0 damaged" in again.output


def test_json_is_one_object_per_session(three: Home) -> None:
    result = three.run("doctor", "--json")
    found = [json.loads(line) for line in result.output.splitlines()]
    assert [(one["id"], one["damaged"], one["events"]) for one in found] == [
        ("one", False, 13),
        ("three", False, 13),
        ("two", True, 1),
    ]
    assert {key for one in found for finding in one["findings"] for key in finding} == {
        *("level", "kind", "text", "next", "fixed")
    }


def test_terminal_codes_in_a_name_do_not_reach_the_terminal(home: Home) -> None:
    """D11."""
    home.make("one", "Hi", answers=(say("a"),))
    (home.root / "one" / "\x1b[2J").write_bytes(b"")
    result = home.run("doctor")
    assert "\x1b" not in result.output
    assert "none of a session's files" in result.output


def test_a_large_session_shows_how_far_its_examination_is_when_somebody_watches(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.make("one", "Hi", answers=(say("a"),))
    monkeypatch.setattr(progress, "_LARGE", 1)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.reading(home.root / "one", "Examining", times=3) as io:
        assert io is not FILES
    assert "Examining one" in capsys.readouterr().err
