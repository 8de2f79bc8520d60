"""Lineage: relatives by headers and `session/spawned`, live, in other processes or at rest; spawning and resuming."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dsh_hookspecs import (
    Relative,
    SessionSpawned,
    ToolError,
    TurnEnd,
    UserMessage,
)
from dsh_time.agent import Agent
from dsh_time.folds import Children
from dsh_time.harness import Harness
from dsh_time.lineage import LineageReader
from dsh_time.log import Draft, FileIo, Log, read_header
from dsh_time.models.scripted import ScriptedModel, fail, pause, say

from .kit import make_harness, payloads, types


def named(*names: str) -> Any:
    """Return a source of session ids."""
    return iter(names).__next__


def lineage(harness: Harness, agent: Agent) -> Any:
    return harness._lineage.relatives_of(agent.session)


def shown(relatives: list[Relative]) -> list[tuple[str, int, bool]]:
    return [(relative.session.id, relative.distance, relative.live) for relative in relatives]


def family(root: Path, *parents: str | None) -> Harness:
    """Return a harness whose sessions 0, 1, 2, … are children of the given ones and live."""
    harness = make_harness(root)
    for number, parent in enumerate(parents):
        harness._new_id = lambda number=number: f"s{number}"  # type: ignore[misc]  # mypy: no default in a callable type
        if parent is None:
            harness.create()
        else:
            harness._make_child(harness.live[parent])
    return harness


async def test_a_child_names_its_parent_and_the_parent_its_child(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("child's answer"), new_id=named("child")) as harness:
        parent = harness.create("parent")
        answer = await parent.spawn("Do it")
    assert (answer.session, answer.text, answer.reason.kind) == ("child", "child's answer", "completed")
    header = read_header(tmp_path / "child")
    assert (header.parent_session, header.ancestor_seqs) == ("parent", (0,))
    assert (header.delegation_depth, header.origin) == (1, "subagent")
    assert payloads(tmp_path / "parent", SessionSpawned) == [SessionSpawned(id="child")]
    assert read_header(tmp_path / "parent").delegation_depth == 0


async def test_a_child_starts_with_the_zone_of_its_parents_user(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("hi"), say("done"), new_id=named("child")) as harness:
        parent = harness.create("parent")
        await parent.prompt("Hi", client_time_zone="Asia/Tokyo")
        await parent.spawn("Do it")
    (prompt,) = payloads(tmp_path / "child", UserMessage)
    assert prompt.source == {"kind": "user", "clientTimeZone": "Asia/Tokyo"}


async def test_relatives_stand_by_distance_and_siblings_are_none(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s1", "s1", "s3", None) as harness:
        assert shown(lineage(harness, harness.live["s1"]).ancestors(8)) == [("s0", 1, True)]
        assert shown(lineage(harness, harness.live["s1"]).descendants(8)) == [
            ("s2", 1, True),
            ("s3", 1, True),
            ("s4", 2, True),
        ]
        assert shown(lineage(harness, harness.live["s1"]).descendants(1)) == [("s2", 1, True), ("s3", 1, True)]
        assert shown(lineage(harness, harness.live["s4"]).ancestors(2)) == [("s3", 1, True), ("s1", 2, True)]
        assert lineage(harness, harness.live["s5"]).ancestors(8) == []
        assert lineage(harness, harness.live["s5"]).descendants(8) == []


async def test_a_relative_at_rest_is_folded_from_its_log_and_followed(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s1") as harness:
        await harness.close_session("s1")
        top, bottom = harness.live["s0"], harness.live["s2"]
        assert shown(lineage(harness, top).descendants(8)) == [("s1", 1, False), ("s2", 2, True)]
        (parent, _) = lineage(harness, bottom).ancestors(8)
        assert (parent.live, parent.last_seq, parent.since) == (False, 0, 0)
        assert list(parent.session.fold(Children).ids) == ["s2"]
        with Log.open(tmp_path / "s1", lambda record: None) as log:
            log.append([Draft(1, "session/spawned", b'{"id":"s9"}')])
        (again, _) = lineage(harness, bottom).ancestors(8)
        assert list(again.session.fold(Children).ids) == ["s2", "s9"]
        again.sync()
        harness.open("s1")
        assert [relative.live for relative in lineage(harness, bottom).ancestors(8)] == [True, True]


async def test_what_an_ancestor_had_logged_when_a_child_was_made_is_remembered(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s1") as harness:
        parent, top = lineage(harness, harness.live["s2"]).ancestors(8)
    assert ((parent.since, parent.last_seq), (top.since, top.last_seq)) == ((0, 0), (0, 0))


class Watched(FileIo):
    """Real files; remembers which sessions' files were touched, and how."""

    def __init__(self) -> None:
        self.touched: list[tuple[str, str]] = []

    def open(self, path: Path, flags: int) -> int:
        self.touched.append(("open", path.parent.name))
        return super().open(path, flags)

    def stat_path(self, path: Path) -> os.stat_result:
        self.touched.append(("look", path.parent.name))
        return super().stat_path(path)


async def test_a_relative_at_rest_costs_one_look_at_its_file_while_it_does_not_change(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s0", "s2") as harness:
        for name in ("s1", "s2", "s3"):
            await harness.close_session(name)
        io = harness._lineage.io = Watched()
        relatives = lineage(harness, harness.live["s0"])
        assert len(relatives.descendants(8)) == 3
        io.touched.clear()
        assert len(relatives.descendants(8)) == 3
        assert io.touched == [("look", "s1"), ("look", "s2"), ("look", "s3")]


async def test_missing_and_damaged_relatives_are_survived(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s0", "s0") as harness:
        for name in ("s1", "s2"):
            await harness.close_session(name)
        shutil.rmtree(tmp_path / "s1")
        (tmp_path / "s2" / "log.jsonl").write_bytes(b"garbage\n")
        assert shown(lineage(harness, harness.live["s0"]).descendants(8)) == [("s3", 1, True)]
        await harness.close_session("s0")
        shutil.rmtree(tmp_path / "s0")
        assert lineage(harness, harness.live["s3"]).ancestors(8) == []


async def test_a_relative_whose_log_disappears_is_no_relative_any_more(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0") as harness:
        await harness.close_session("s1")
        assert len(lineage(harness, harness.live["s0"]).descendants(8)) == 1
        shutil.rmtree(tmp_path / "s1")
        assert lineage(harness, harness.live["s0"]).descendants(8) == []


async def test_a_relatives_log_is_read_up_to_what_cannot_be_understood(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0") as harness:
        await harness.close_session("s1")
        with Log.open(tmp_path / "s1", lambda record: None) as log:
            log.append([Draft(1, "from/the-future", b"{}"), Draft(1, "session/spawned", b'{"id":"s9"}')])
        for _ in range(2):
            (child,) = lineage(harness, harness.live["s0"]).descendants(1)
            assert (child.last_seq, list(child.session.fold(Children).ids)) == (-1, [])


async def test_a_cycle_in_headers_ends(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", "s1") as harness:
        first = harness.live["s0"]
        first.log_spawned("s0")
        harness.live["s2"].log_spawned("s0")
        harness.live["s2"].log_spawned("s1")
        assert shown(lineage(harness, first).descendants(8)) == [("s1", 1, True), ("s2", 2, True)]


async def test_a_session_that_only_claims_a_child_has_none(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0", None) as harness:
        harness.live["s2"].log_spawned("s1")
        assert lineage(harness, harness.live["s2"]).descendants(8) == []


async def test_a_fork_has_no_relatives_though_its_log_tells_of_children(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0") as harness:
        harness.fork("s0", "copy")
        harness.fork("s1", "childcopy")
        copy, child_copy = harness.open("copy"), harness.open("childcopy")
        assert lineage(harness, copy).descendants(8) == []
        assert lineage(harness, child_copy).ancestors(8) == []
        assert shown(lineage(harness, harness.live["s0"]).descendants(8)) == [("s1", 1, True)]


async def test_a_new_loadout_reads_relatives_anew(tmp_path: Path) -> None:
    async with family(tmp_path, None, "s0") as harness:
        await harness.close_session("s1")
        folds: list[Any] = [(), ()]
        reader = LineageReader(harness.store, lambda session_id: None, lambda: folds[0])
        first = reader.find("s1")
        assert reader.find("s1") is first
        folds[0] = [("owner", Children)]
        assert reader.find("s1") is not first


async def test_a_child_goes_on_by_its_id(tmp_path: Path) -> None:
    model = ScriptedModel(say("one"), say("two"))
    async with make_harness(tmp_path, model=model, new_id=named("child")) as harness:
        parent = harness.create("parent")
        first = await parent.spawn("First")
        second = await parent.spawn("Second", resume=first.session)
    assert (second.session, second.text) == ("child", "two")
    assert len(payloads(tmp_path / "parent", SessionSpawned)) == 1
    assert [message.text for message in model.requests[1].request.messages] == ["First", "one", "Second"]


async def test_a_stranger_cannot_be_resumed_and_neither_can_a_child_in_use(tmp_path: Path) -> None:
    async with make_harness(tmp_path, say("one"), new_id=named("child")) as harness:
        parent = harness.create("parent")
        harness.create("stranger")
        child = await parent.spawn("First")
        for name in ("stranger", "parent", "nobody", "../parent"):
            with pytest.raises(ToolError, match="no child session"):
                await parent.spawn("Go on", resume=name)
        harness.open(child.session)
        with pytest.raises(ToolError, match="in use"):
            await parent.spawn("Go on", resume=child.session)
        await harness.close_session(child.session)
        with (
            Log.open(tmp_path / child.session, lambda record: None),
            pytest.raises(ToolError, match="is being written by process"),
        ):
            await parent.spawn("Go on", resume=child.session)


async def test_cancelling_the_parent_cancels_its_children(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, say("par") + pause(asyncio.Event(), reached), new_id=named("child")) as harness:
        parent = harness.create("parent")
        running = asyncio.create_task(parent.spawn("Go"))
        await reached.wait()
        (child,) = parent.children
        child.cancel("parent")
        answer = await running
    assert (answer.reason.kind, answer.reason.reason, answer.text) == ("aborted", "parent", "par")
    assert not parent.children


async def test_a_child_that_fails_says_how_and_is_at_rest_afterwards(tmp_path: Path) -> None:
    async with make_harness(tmp_path, fail(RuntimeError("no")), new_id=named("child")) as harness:
        parent = harness.create("parent")
        answer = await parent.spawn("Go")
        assert answer.reason.kind == "error"
        assert list(harness.live) == ["parent"]


async def test_a_child_whose_call_is_cancelled_is_closed_and_its_turn_ended(tmp_path: Path) -> None:
    reached = asyncio.Event()
    async with make_harness(tmp_path, pause(asyncio.Event(), reached) + say("x"), new_id=named("child")) as harness:
        parent = harness.create("parent")
        running = asyncio.create_task(parent.spawn("Go"))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert list(harness.live) == ["parent"]
    (end,) = payloads(tmp_path / "child", TurnEnd)
    assert end.reason.kind == "aborted"


async def test_a_child_that_cannot_be_made_leaves_a_trace_that_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_harness(tmp_path, say("x"), new_id=named("child", "child")) as harness:
        parent = harness.create("parent")
        monkeypatch.setattr(harness, "_create", lambda header: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            await parent.spawn("Go")
        assert types(tmp_path / "parent") == ["session/spawned"]
        assert lineage(harness, parent).descendants(8) == []
