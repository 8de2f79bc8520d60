"""A program like `tests/log/victims.py`, whose processes drive sessions of a family and live to be killed.

Run as a file. The plugins are those that are installed.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsh_hookspecs import ModelRequest
from dsh_time.deployment import load_deployment
from dsh_time.errors import SessionLocked
from dsh_time.harness import Harness
from dsh_time.models.scripted import Answer, ScriptedModel, call, say
from dsh_time.plugin_host import PluginHost
from tests.log.victims import DeadlyIo, main, say_line

#: Sessions that a home may have before nobody makes new ones.
MOST = 7

GENERATIONS = ("parent", "child", "grandchild")

DEPLOYMENT = load_deployment(enable=["subagents"], installed=["dsh-subagents"])
PLUGINS = PluginHost(DEPLOYMENT)


def process(home: str, now: int, answer: Callable[[ModelRequest], Answer], nth: int = 0, when: str = "") -> Harness:
    """What a process has: its model, its clock (a millisecond a look), and its files, which kill it at some touch."""
    ticks = itertools.count(now)
    return Harness(
        DEPLOYMENT,
        root=Path(home),
        plugins=PLUGINS,
        model=ScriptedModel(then=answer),
        now_ms=lambda: next(ticks),
        io=DeadlyIo(nth, when),
    )


def found(home: str, now: int, nth: int, when: str) -> None:
    """Make a parent, its child and its grandchild, each with counters, and die at the n-th touch of a file."""

    def answer(request: ModelRequest) -> Answer:
        below, done = int(request.messages[0].text), sum(message.role == "tool" for message in request.messages)
        if done > 1:
            return say("done")
        start = {"action": "start", "name": "a", "toParents": True}
        change = call("time_counter", **({"action": "reset", "name": "a"} if done else start))
        return change + call("subagent", prompt=str(below - 1)) if below and not done else change

    async def run() -> None:
        async with process(home, now, answer, nth, when) as harness:
            harness._new_id = iter(GENERATIONS).__next__
            await harness.create().prompt("2")

    asyncio.run(run())


def some_change(chance: random.Random) -> dict[str, Any]:
    """Arguments of `time_counter`; not every call succeeds."""
    action = chance.choice(["start", "start", "start", "reset", "note", "scope", "remove", "list"])
    if action == "list":
        return {"action": action}
    arguments: dict[str, Any] = {"action": action, "name": chance.choice("abc")}
    if action == "note":
        arguments["note"] = f"n{chance.randrange(100)}"
    if action in ("start", "scope"):
        towards = {"toChildren": bool(chance.randrange(4)), "toParents": bool(chance.randrange(4))}
        attributes = {**towards, "depth": chance.randrange(1, 4)}
        arguments |= {key: value for key, value in attributes.items() if chance.randrange(4)}
    return arguments


def member(home: str, session: str, now: int, seed: int, turns: int, nth: int, when: str) -> None:
    """Let a session run so many turns, 0 for ever, changing counters, and die at the n-th touch of a file."""
    chance = random.Random(seed)

    def answer(request: ModelRequest) -> Answer:
        if not chance.randrange(3):
            return say("ok")
        calls = [call("time_counter", **some_change(chance)) for _ in range(chance.randrange(1, 4))]
        others = [path.name for path in Path(home).iterdir()]
        if not chance.randrange(8):
            # Of all sessions only an own child can go on; with another's id the call fails.
            whom = {} if len(others) < MOST else {"resume": chance.choice(others)}
            calls.append(call("subagent", prompt="go", **whom))
        return sum(calls[1:], calls[0])

    async def run() -> None:
        async with process(home, now, answer, nth, when) as harness:
            try:
                agent = harness.open(session)
            except SessionLocked:
                say_line("locked")
                return
            say_line("open")
            for _ in itertools.count() if not turns else range(turns):
                if chance.randrange(4):
                    await agent.prompt("go")
                else:
                    await agent.call_tool("time_counter", json.dumps(some_change(chance)))
                say_line("turn")

    asyncio.run(run())


def settle(home: str, now: int) -> None:
    """Let every session of a home hear what there is to hear."""

    sessions = sorted(path.parent.name for path in Path(home).glob("*/log.jsonl"))

    async def run() -> None:
        async with process(home, now, lambda request: say("done")) as harness:
            for session in sessions:
                await harness.open(session).prompt("and now?")
                await harness.close_session(session)

    asyncio.run(run())


if __name__ == "__main__":
    main(found, member, settle)
