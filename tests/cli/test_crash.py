"""A process that is killed in the middle of a tool call, and what the next one finds."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from dsh_hookspecs import TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN, ToolResult, TurnEnd
from dsh_time.models.scripted import ScriptedModel, say

from ..kit import logged, make_harness, payloads
from .reading_kit import Home, home

__all__ = ["home"]

pytestmark = pytest.mark.process

#: Runs one turn whose first tool call hangs, and tells every event as soon as it is acknowledged.
CHILD = """
import asyncio, sys, threading
from pathlib import Path
from attrs import frozen
from msgspec import Struct
from dsh_hookspecs import Event, Tool, hookimpl
from dsh_time.models.scripted import call, say
from tests.kit import make_harness

class Nothing(Struct):
    pass

@frozen(eq=False)
class Hanging:
    @hookimpl
    def register_tools(self):
        def hang(arguments, context):
            print("hanging", flush=True)
            threading.Event().wait()
        return [Tool("hang", "", Nothing, hang)]

def tell(event):
    if isinstance(event, Event):
        print(event.seq, event.data.type, flush=True)

async def main():
    answer = say("Let me.") + call("hang") + call("hang")
    harness = make_harness(Path(sys.argv[1]), answer, plugins={"hanging": Hanging})
    agent = harness.create("one")
    agent.subscribe(tell)
    await agent.prompt("Do it twice")

asyncio.run(main())
"""


@frozen
class Hanging:
    """The child in the middle of its call. `told`: seq and type of every event it acknowledged."""

    process: "subprocess.Popen[str]"
    told: list[tuple[int, str]]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def hanging(home: Home) -> Iterator[Hanging]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home.root)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    told = []
    for line in iter(process.stdout.readline, ""):
        if line == "hanging\n":
            break
        seq, kind = line.split()
        told.append((int(seq), kind))
    child = Hanging(process, told)
    yield child
    child.kill()
    process.stdout.close()


def test_while_a_process_writes_a_session_others_may_read_but_not_write_it(home: Home, hanging: Hanging) -> None:
    assert hanging.told[-1][1] == "tool/call"
    refused = home.run("run", "--session", "one", "Hello?")
    assert refused.exit_code == 1
    host = re.escape(os.uname().nodename)
    assert re.search(rf"by process {hanging.process.pid} on {host} since \d{{4}}-\d\d-\d\dT", refused.stderr)
    assert "dsh-time fork one" in refused.stderr
    assert home.run("call", "one", "hang").exit_code != 0
    (listed,) = map(json.loads, home.run("sessions", "--json").output.splitlines())
    assert (listed["state"], listed["turns"]) == ("locked", 1)
    shown = home.run("show", "one")
    assert shown.exit_code == 0
    assert "call hang: {}\n── turn 1 is open" in shown.output
    assert home.run("verify", "one").exit_code == 0
    assert hanging.process.poll() is None


async def test_after_a_kill_nothing_acknowledged_is_lost_and_the_model_is_told_what_is_unknown(
    home: Home, hanging: Hanging
) -> None:
    hanging.kill()
    directory = home.root / "one"
    assert [(event.seq, event.data.type) for event in logged(directory)] == hanging.told
    before = home.contents("one")
    (listed,) = map(json.loads, home.run("sessions", "--json").output.splitlines())
    assert (listed["state"], listed["reason"]) == ("open-turn", "turn 1 did not end")
    assert "turn 1 is open" in home.run("show", "one").output
    assert home.contents("one") == before  # only who opens it for writing repairs it

    model = ScriptedModel(say("I will check."))
    async with make_harness(home.root, model=model) as harness:
        await harness.open("one").prompt("Go on")

    assert home.log("one").read_bytes().startswith(before["log.jsonl"])
    unknown, not_started = payloads(directory, ToolResult)
    assert unknown.result.text.startswith(TOOL_OUTCOME_UNKNOWN)
    assert not_started.result.text.startswith(TOOL_NOT_STARTED)
    assert [end.reason.kind for end in payloads(directory, TurnEnd)] == ["interrupted", "completed"]
    asked = home.run("request", "one", "--turn", "2").stdout_bytes
    assert asked == model.requests[0].encoded
    assert TOOL_OUTCOME_UNKNOWN.encode() in asked
    assert TOOL_NOT_STARTED.encode() in asked
    assert "── turn 1 interrupted · " in home.run("show", "one").output
    assert home.run("verify", "one").exit_code == 0
