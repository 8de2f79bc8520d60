"""Processes that are killed (SIGKILL) while they write, open, repair, or run a tool.

`DSH_TIME_KILLS` says how often the loops kill; 100 when it is not set.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import pytest

from dsh_hookspecs import TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN, SessionSpawned, ToolCall, ToolResult
from dsh_time.log import Log, Record, SessionHeader, scan
from dsh_time.models.scripted import ScriptedModel, say

from ..kit import make_harness, payloads
from ..test_crash_points import assert_accepted
from .victims import acting
from .victims_program import Victims

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("DSH_TIME_KILLS", "100"))


def numbers(directory: Path) -> list[int]:
    """The seqs a reader gets, checked against the payloads."""
    found: list[int] = []

    def on_record(record: Record) -> None:
        assert json.loads(bytes(record.data))["number"] == record.seq
        found.append(record.seq)

    if (directory / "log.jsonl").exists():
        verdict = scan(directory, on_record)
        assert verdict.state in ("ok", "pending"), verdict.reason
    return found


def acknowledged(said: list[list[str]]) -> int:
    """How many events the victim had been told are written."""
    return max((int(words[1]) for words in said if words[0] in ("w", "s")), default=0)


def spin(rounds: int) -> None:
    """Let a moment pass."""
    for _ in range(rounds):
        pass


def test_a_writer_that_is_killed_at_any_moment_loses_nothing_it_was_told_is_written(
    victims: Victims, tmp_path: Path
) -> None:
    """C1, C2: what a process wrote survives its death; the next one goes on behind it."""
    chance = random.Random(1)
    for number in range(KILLS):
        directory = tmp_path / f"s{number // 10}"
        large = number % 3 == 0
        before = len(numbers(directory))
        victims.start("write", directory, 20_000 if large else 100)
        said = [victims.line() for _ in range(chance.randrange(1, 12 if large else 60))]
        spin(chance.randrange(20_000))
        said += victims.kill()
        found = numbers(directory)
        assert found == list(range(len(found)))
        assert before <= acknowledged(said) <= len(found)


@pytest.mark.parametrize("when", ["before", "after", "half"])
def test_a_log_whose_process_dies_at_any_touch_of_a_file_is_whole(victims: Victims, tmp_path: Path, when: str) -> None:
    """C1, C2, R11: making, writing, opening and closing, each cut short at each of its calls."""
    for nth in range(1, 1000):
        directory = tmp_path / str(nth) / "s1"
        victims.start("live", directory, nth, when)
        said, status = victims.end()
        found = numbers(directory)
        assert found == list(range(len(found)))
        assert acknowledged(said) <= len(found) <= 6
        with _opened(directory) as log:
            assert log.next_seq == len(found)
        assert not list(directory.glob("*.tmp"))
        if status == 0:
            break
    assert status == 0
    assert nth > 50


def _opened(directory: Path) -> Log:
    if not (directory / "log.jsonl").exists():
        return Log.create(directory, SessionHeader(id="s1", created_at=1, writer="w"))
    return Log.open(directory, lambda record: None)


@pytest.mark.parametrize("when", ["before", "after", "half"])
def test_a_repair_that_is_killed_at_any_touch_of_a_file_is_done_again_and_loses_no_byte(
    victims: Victims, tmp_path: Path, when: str
) -> None:
    """C6: the bytes that are cut off are in the log or in the file beside it, at every moment."""
    with Log.create(tmp_path / "s1", SessionHeader(id="s1", created_at=1, writer="w")) as log:
        whole = log.path.read_bytes()
    tail = b"torn" * 1000
    for nth in range(1, 1000):
        directory = tmp_path / str(nth) / "s1"
        directory.mkdir(parents=True)
        (directory / "log.jsonl").write_bytes(whole + tail)
        for _ in range(2):
            victims.start("repair", directory, nth, when)
            _, status = victims.end()
            content = (directory / "log.jsonl").read_bytes()
            kept = [path.read_bytes() for path in directory.glob("log.jsonl.cut-*") if path.suffix != ".tmp"]
            assert content == whole + tail or (content == whole and kept == [tail])
        _opened(directory).close()
        assert (directory / "log.jsonl").read_bytes() == whole
        assert [path.read_bytes() for path in directory.glob("log.jsonl.cut-*")] == [tail]
        assert not list(directory.glob("*.tmp"))
        if status == 0:
            break
    assert status == 0
    assert nth > 15


@pytest.mark.parametrize("last", ["act", "hang", "delegate"])
def test_an_agent_that_is_killed_with_its_tools_knows_afterwards_what_may_have_happened(
    victims: Victims, tmp_path: Path, last: str
) -> None:
    """C3: nothing happened in the world that the log does not know of; each call has one result, and it is true.

    With `delegate` its children act: the parent's log knows each of them before it exists.
    """
    chance = random.Random(2)
    for number in range(max(KILLS // 10, 5)):
        if number % 5 == 0:
            root = tmp_path / str(number)
            root.mkdir()
        victims.start("act", root, last)
        assert victims.line() == ["ready"]
        for _ in range(chance.randrange(3 if last == "hang" else 12) + 1):
            assert victims.line()[0] == "body"
        spin(chance.randrange(20_000))
        victims.kill()
        _check_calls(root)


def _check_calls(root: Path) -> None:
    spawned = {event.id for event in payloads(root / "s1", SessionSpawned)}
    sessions = {path.parent.name for path in root.glob("*/log.jsonl")}
    assert sessions <= {"s1", *spawned}
    for session in sorted(sessions):
        _check_session(root, session)


def _check_session(root: Path, session: str) -> None:
    logged = {event.id for event in payloads(root / session, ToolCall)}
    happened = {path.name.split(".")[1] for path in root.glob(f"{session}.*.done")}
    assert happened <= logged
    before = {event.result.id for event in payloads(root / session, ToolResult)}

    async def go_on() -> None:
        model = ScriptedModel(then=say("done"))
        async with make_harness(root, model=model, plugins={"acting": acting(root)}) as harness:
            await harness.open(session).prompt("and now?")
        for recorded in model.requests:
            assert_accepted(recorded.request)

    asyncio.run(go_on())
    results = payloads(root / session, ToolResult)
    ids = [event.result.id for event in results]
    assert len(set(ids)) == len(ids)
    assert logged <= set(ids)
    for event in results:
        if event.stands_in and event.result.id not in before:
            code = TOOL_OUTCOME_UNKNOWN if event.result.id in logged else TOOL_NOT_STARTED
            assert event.result.text.startswith(code)
        if event.result.text.startswith(TOOL_NOT_STARTED):
            assert event.result.id not in happened
