"""The time-context plugin in a real agent loop: what is sent, what is logged, and that both hold after a restart."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from attrs import define, field

from dsh_hookspecs import (
    Event,
    Header,
    ModelError,
    ModelRequest,
    PromptSection,
    RequestHeader,
    RequestHeaderDelta,
    SectionsDelta,
    SurfaceReplace,
    TextBlock,
    ToolResult,
    UserMessage,
)
from dsh_time.deployment import load_deployment
from dsh_time.fold_set import decode_event
from dsh_time.harness import Harness
from dsh_time.log import Record, scan
from dsh_time.models.scripted import Answer, Played, ScriptedModel, call, fail, pause, say
from dsh_time.plugin_host import PluginHost

#: 2026-07-14T08:30:00Z
START_MS = 1_784_017_800_000
FIRST = "unavailable (no earlier message in this session)"
VERSION = version("dsh-time-context").encode()


@define
class Clock:
    """A wall clock in epoch ms that moves only when a test says so."""

    now: int = START_MS

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@define
class Loop:
    """A harness whose one plugin is time-context, found by its entry point."""

    root: Path
    config: str = "{}"
    clock: Clock = field(factory=Clock)
    model: ScriptedModel = field(factory=lambda: ScriptedModel(then=lambda request: say("ok")))

    def harness(self, *answers: Played) -> Harness:
        file = self.root / "dsh-time.yaml"
        file.write_text(f"plugins:\n  - name: dsh-time-context\n    config: {self.config}\n", encoding="utf-8")
        deployment = load_deployment(config_file=file, disable=["time-reminder"], installed=["dsh-time-reminder"])
        self.model = ScriptedModel(*answers, then=lambda request: say("ok"))
        return Harness(
            deployment,
            root=self.root / "sessions",
            plugins=PluginHost(deployment),
            model=self.model,
            now_ms=self.clock,
            monotonic=lambda: 0.0,
        )

    def sent(self) -> list[tuple[str, ...]]:
        """The lines of the section in each request."""
        found = []
        for recorded in self.model.requests:
            (section,) = recorded.request.header.system
            assert (section.name, section.order) == ("context:time", 10)
            found.append(tuple(section.text.split("\n")))
        return found

    def gaps(self) -> list[str]:
        """The second line's duration in each request."""
        return [lines[1].removeprefix("Time since previous message: ") for lines in self.sent()]

    def clocks(self) -> list[str]:
        """The first line's wall time in each request."""
        return [lines[0][len("Current time: 2026-07-14T") :][:8] for lines in self.sent()]

    def events(self, session: str = "one") -> list[Event]:
        events: list[Event] = []

        def on_record(record: Record) -> None:
            if (event := decode_event(record, self.root)) is not None:
                events.append(event)

        scan(self.root / "sessions" / session, on_record=on_record)
        return events

    def changes(self, session: str = "one") -> list[RequestHeader | RequestHeaderDelta]:
        """The logged headers and changes to them."""
        return [
            event.data for event in self.events(session) if isinstance(event.data, RequestHeader | RequestHeaderDelta)
        ]


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


def waits(loop: Loop, *seconds: float) -> list[Played]:
    """Answers that call a tool, each after so much time has gone by, and then one that ends the turn."""

    def after(passed: float) -> Callable[[ModelRequest], Answer]:
        def answer(request: ModelRequest) -> Answer:
            loop.clock.advance(passed)
            return call("nothing")

        return answer

    return [*map(after, seconds), say("done")]


async def test_what_is_sent_and_what_is_logged_of_it_byte_for_byte(loop: Loop) -> None:
    """The first request logs the whole header, the next turn one change, before it is sent; no message is added."""
    loop.config = "{timeZone: Asia/Shanghai}"
    async with loop.harness() as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        loop.clock.advance(3 * 3600 + 2 * 60 + 5)
        await agent.prompt("Again")
    first, second = loop.model.requests
    text = "Current time: 2026-07-14T19:32:05+08:00[Asia/Shanghai]\nTime since previous message: 3h2m5s"
    assert first.request.header.system == (
        PromptSection(
            "context:time",
            10,
            f"Current time: 2026-07-14T16:30:00+08:00[Asia/Shanghai]\nTime since previous message: {FIRST}",
        ),
    )
    assert second.request.header.system == (PromptSection("context:time", 10, text),)
    assert second.encoded.startswith(
        b'{"config":{"provider":"scripted","model":"scripted"},"system":[{"name":"context:time","order":10,"text":'
        b'"Current time: 2026-07-14T19:32:05+08:00[Asia/Shanghai]\\nTime since previous message: 3h2m5s"}],'
        b'"loadout":[{"name":"dsh-time-context","version":"' + VERSION + b'","distribution":"dsh-time-context"}]}\n'
    )
    assert loop.changes() == [
        RequestHeader(header=first.request.header, reason="initial"),
        RequestHeaderDelta(system=SectionsDelta(changed=(PromptSection("context:time", 10, text),))),
    ]
    log = (loop.root / "sessions" / "one" / "log.jsonl").read_bytes()
    assert (
        b'"time":1784028725000,"type":"request/header-delta","data":{"system":{"changed":[{"name":"context:time",'
        b'"order":10,"text":"Current time: 2026-07-14T19:32:05+08:00[Asia/Shanghai]\\nTime since previous message: '
        b'3h2m5s"}]}},' in log
    )
    assert [event.data.type for event in loop.events()][7:] == [
        "turn/start",
        "user/message",
        "step/start",
        "request/header-delta",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    assert [message.text for message in second.request.messages] == ["Hi", "ok", "Again"]


async def test_a_turn_starts_with_a_new_text_and_a_text_that_is_the_same_logs_nothing(loop: Loop) -> None:
    async with loop.harness() as harness:
        agent = harness.create("one")
        for seconds in (0, 0.4, 0, 1, 0):
            loop.clock.advance(seconds)
            await agent.prompt("Hi")
    assert loop.clocks() == ["08:30:00", "08:30:00", "08:30:00", "08:30:01", "08:30:01"]
    assert loop.gaps() == [FIRST, "0s", "0s", "1s", "0s"]
    assert len(loop.changes()) == 4


async def test_within_the_interval_the_text_is_kept_and_after_it_there_is_one_change(loop: Loop) -> None:
    """59.999 s and 60 s after it last changed; the gap grows with the turn."""
    async with loop.harness(*waits(loop, 59.999, 0.001, 59.999, 0.5)) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
    assert loop.clocks() == ["08:30:00", "08:30:00", "08:31:00", "08:31:00", "08:32:00"]
    assert loop.gaps() == [FIRST] * 5
    assert len(loop.changes()) == 3


async def test_with_interval_0_every_step_has_a_text_of_its_own(loop: Loop) -> None:
    loop.config = "{refreshIntervalMs: 0}"
    async with loop.harness(say("earlier"), *waits(loop, 10, 1, 0.2)) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        loop.clock.advance(5)
        await agent.prompt("Go")
    assert loop.clocks() == ["08:30:00", "08:30:05", "08:30:15", "08:30:16", "08:30:16"]
    assert loop.gaps() == [FIRST, "5s", "15s", "16s", "16s"]
    assert len(loop.changes()) == 4


async def test_a_clock_that_was_set_back_shows_at_once_and_never_gives_a_negative_gap(loop: Loop) -> None:
    async with loop.harness(say("earlier"), *waits(loop, -3600, 1)) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        loop.clock.advance(-60)
        await agent.prompt("Go")
    assert loop.clocks() == ["08:30:00", "08:29:00", "07:29:00", "07:29:00"]
    assert loop.gaps() == [FIRST, "0s", "0s", "0s"]


# What the gap is measured from


async def test_an_unanswered_prompt_is_a_baseline(loop: Loop) -> None:
    async with loop.harness(fail(ModelError("gone"))) as harness:
        agent = harness.create("one")
        assert (await agent.prompt("Before")).reason.kind == "error"
        loop.clock.advance(10)
        await agent.prompt("Now")
    assert loop.gaps() == [FIRST, "10s"]


async def test_an_answer_is_a_baseline(loop: Loop) -> None:
    def slowly(request: ModelRequest) -> Answer:
        loop.clock.advance(100)
        return say("at last")

    async with loop.harness(slowly) as harness:
        agent = harness.create("one")
        await agent.prompt("Before")
        loop.clock.advance(10)
        await agent.prompt("Now")
    assert loop.gaps() == [FIRST, "10s"]


async def test_a_tools_result_is_a_baseline(loop: Loop) -> None:
    """The step after it fails, so that the result is the newest message."""

    def later(request: ModelRequest) -> Answer:
        loop.clock.advance(100)
        return call("nothing")

    async with loop.harness(later, fail(ModelError("gone"))) as harness:
        agent = harness.create("one")
        await agent.prompt("Before")
        loop.clock.advance(10)
        await agent.prompt("Now")
    assert loop.gaps()[-1] == "10s"


@pytest.mark.parametrize("how", ["steer", "inject"])
async def test_a_message_that_joined_a_step_is_a_baseline(loop: Loop, how: str) -> None:
    """Its time is when the step took it, as it was logged."""
    reached, release = asyncio.Event(), asyncio.Event()
    async with loop.harness(pause(release, reached) + call("nothing"), fail(ModelError("gone"))) as harness:
        agent = harness.create("one")
        waiting = asyncio.create_task(agent.prompt("Before"))
        await reached.wait()
        getattr(agent, how)("by the way")
        loop.clock.advance(100)
        release.set()
        await waiting
        newest = [event for event in loop.events() if event.data.type.endswith("/message")][-1]
        assert newest.data.type == {"steer": "steering/message", "inject": "context/message"}[how]
        assert newest.time == START_MS + 100_000
        loop.clock.advance(10)
        await agent.prompt("Now")
    assert loop.gaps()[-1] == "10s"


async def test_what_the_turn_itself_adds_is_no_baseline(loop: Loop) -> None:
    """The prompt that opened the turn, its steers and results leave the gap as it is: since what was before."""
    loop.config = "{refreshIntervalMs: 0}"
    async with loop.harness(say("earlier"), *waits(loop, 20, 30)) as harness:
        agent = harness.create("one")
        await agent.prompt("Before")
        loop.clock.advance(10)
        agent.inject("rides along")
        await agent.prompt("Now")
    assert loop.gaps() == [FIRST, "10s", "30s", "1m"]


async def test_a_call_by_the_user_is_no_baseline(loop: Loop) -> None:
    async with loop.harness() as harness:
        agent = harness.create("one")
        await agent.prompt("Before")
        loop.clock.advance(50)
        await agent.call_tool("nothing", "{}")
        loop.clock.advance(10)
        await agent.prompt("Now")
    (result,) = [event.data for event in loop.events() if isinstance(event.data, ToolResult)]
    assert result.issuer == "user"
    assert loop.gaps() == [FIRST, "1m"]


async def test_a_message_that_took_the_place_of_others_is_no_baseline(loop: Loop) -> None:
    """As compaction writes it."""
    async with loop.harness() as harness:
        agent = harness.create("one")
        await agent.prompt("Before")
        loop.clock.advance(50)
        summary = UserMessage(id="sum", role="user", content=(TextBlock("summary"),), source={"kind": "compaction"})
        agent.session.append([summary], loop.clock(), replaces=SurfaceReplace(1, 4))
        loop.clock.advance(10)
        await agent.prompt("Now")
    assert loop.gaps() == [FIRST, "1m"]
    assert [message.text for message in loop.model.requests[-1].request.messages] == ["summary", "Now"]


# Sessions, restarts, forks, swaps


async def test_sessions_do_not_share_a_clock_text_or_a_gap(loop: Loop) -> None:
    async with loop.harness() as harness:
        one, two = harness.create("one"), harness.create("two")
        await one.prompt("Hi")
        loop.clock.advance(10)
        await two.prompt("Hi")
        loop.clock.advance(10)
        await asyncio.gather(one.prompt("Hi"), two.prompt("Hi"))
    assert loop.gaps() == [FIRST, FIRST, "20s", "10s"]
    assert loop.clocks() == ["08:30:00", "08:30:10", "08:30:20", "08:30:20"]


@pytest.mark.parametrize("how", ["restart", "fork", "stay"])
async def test_its_state_survives_a_restart_and_a_fork(loop: Loop, how: str) -> None:
    """The next request is the one that the session would have sent, and one change of the header is logged."""
    async with loop.harness(*waits(loop, 30)) as harness:
        await harness.create("one").prompt("Before")
        logged = len(loop.changes())
        loop.clock.advance(0.2)
        if how == "fork":
            harness.fork("one", "two")
        if how == "stay":
            await harness.open("one").prompt("Now")
            later = [recorded.encoded for recorded in loop.model.requests[-1:]]
    if how != "stay":
        async with loop.harness() as harness:
            await harness.open("two" if how == "fork" else "one").prompt("Now")
        later = [recorded.encoded for recorded in loop.model.requests]
    assert b"Current time: 2026-07-14T08:30:30+00:00[UTC]\\nTime since previous message: 0s" in later[0]
    assert len(loop.changes("two" if how == "fork" else "one")) == logged + 1


async def test_a_turn_after_a_restart_within_the_same_second_changes_nothing(loop: Loop) -> None:
    for _ in range(3):
        async with loop.harness() as harness:
            agent = harness.open("one") if "one" in harness.store.ids() else harness.create("one")
            await agent.prompt("Hi")
    assert loop.gaps() == ["0s"]
    assert len(loop.changes()) == 2  # the first, and the gap that was unavailable and is 0s


async def test_nothing_is_left_after_it_is_swapped_out(loop: Loop) -> None:
    """Its section goes with one change, and comes back as new."""
    async with loop.harness() as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        harness.plugins.disable("time-context")
        await agent.prompt("Hi")
        assert b"context:time" not in loop.model.requests[-1].encoded
        await agent.prompt("Hi")
        harness.plugins.enable("time-context")
        loop.clock.advance(5)
        await agent.prompt("Hi")
    _, out, back = loop.changes()
    assert out == RequestHeaderDelta(system=SectionsDelta(removed=("context:time",)), loadout=())
    assert isinstance(back, RequestHeaderDelta)
    assert back.system is not None
    assert back.system.changed[0].text.endswith("Time since previous message: 5s")


# Other processes

SENDS = """
import asyncio, contextlib, locale, sys
from pathlib import Path
from dsh_time.deployment import load_deployment
from dsh_time.harness import Harness
from dsh_time.models.scripted import ScriptedModel, say

with contextlib.suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "")
root, *config = map(Path, sys.argv[1:])
model = ScriptedModel(say("ok"), say("ok"))
times = iter(range(1_784_017_800_000, 10**15, 3_600_000))

async def run():
    deployment = load_deployment(config_file=config[0]) if config else load_deployment()
    async with Harness(deployment, root=root, model=model, now_ms=lambda: next(times)) as harness:
        agent = harness.create("one")
        await agent.prompt("Hi")
        await agent.prompt("Again")

asyncio.run(run())
print("dsh_time_context" in sys.modules)
sys.stdout.flush()
sys.stdout.buffer.write(b"".join(recorded.encoded for recorded in model.requests))
"""


def sends(root: Path, *config: Path, **environment: str) -> tuple[str, bytes]:
    """What a process of its own sends; whether it imported the plugin."""
    command = [sys.executable, "-c", SENDS, str(root), *map(str, config)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    imported, _, sent = done.stdout.partition(b"\n")
    return imported.decode(), sent


@pytest.mark.process
def test_the_built_in_deployment_sends_nothing_of_it_and_does_not_import_it(tmp_path: Path) -> None:
    imported, sent = sends(tmp_path)
    assert imported == "False"
    assert b"context:time" not in sent
    assert b"time-context" not in sent


@pytest.mark.process
def test_neither_the_machines_zone_nor_its_language_changes_a_byte(tmp_path: Path) -> None:
    """Also a zone that there is not, and a language that writes other digits."""
    file = tmp_path / "dsh-time.yaml"
    file.write_text(
        "plugins:\n  - {name: dsh-time-context, config: {timeZone: Europe/Berlin}}\n"
        "  - {name: dsh-time-reminder, disabled: true}\n",
        encoding="utf-8",
    )
    environments = [
        {"TZ": "UTC", "LC_ALL": "C"},
        {"TZ": "Asia/Kolkata", "LC_ALL": "ar_EG.UTF-8", "LANG": "ar_EG.UTF-8"},
        {"TZ": "Mars/Phobos", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"},
    ]
    first, *others = [sends(tmp_path / f"s{at}", file, **each) for at, each in enumerate(environments)]
    assert first[0] == "True"
    assert b"Current time: 2026-07-14T" in first[1]
    assert first[1].count(b"[Europe/Berlin]") == 2
    assert others == [first, first]


def test_the_header_of_a_request_without_it_is_the_golden_one(tmp_path: Path) -> None:
    """No plugin at all: nothing but the model's settings."""
    deployment = load_deployment()
    model = ScriptedModel(say("ok"))

    async def run() -> None:
        plugins = PluginHost(deployment, sources={})
        async with Harness(deployment, root=tmp_path, plugins=plugins, model=model, now_ms=Clock()) as harness:
            await harness.create("one").prompt("Hi")

    asyncio.run(run())
    assert model.requests[0].request.header == Header(config={"provider": "scripted", "model": "scripted"})
    assert model.requests[0].encoded == (
        b'{"config":{"provider":"scripted","model":"scripted"}}\n'
        b'{"id":"m1","role":"user","content":[{"type":"text","text":"Hi"}],"source":{"kind":"user"}}\n'
    )
