"""A program that lives to be killed: each line it reads names a role, which a forked child of it plays.

Forking one process that has imported everything makes a kill cheap. A line in is a JSON list: the role's name and its
arguments. Lines out: `start PID`, what the role says, `end STATUS` (negative: the signal that ended it).
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from msgspec import Struct

from dsh_hookspecs import ModelRequest, Tool, ToolContext, hookimpl
from dsh_time.errors import DshTimeError, WriteFailed
from dsh_time.log import FILES, Draft, FileIo, Log, Record, SessionHeader, Tail
from dsh_time.models.scripted import Answer, ScriptedModel, call, say

from ..kit import make_harness


def say_line(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def draft(number: int, size: int = 0) -> Draft:
    """An event that tells which seq it should get."""
    return Draft(number, "user/message", b'{"number":%d,"text":"%s"}' % (number, b"x" * size))


def ready(directory: Path, io: FileIo = FILES) -> Log:
    """The session, opened, or made if it is not there."""
    if (directory / "log.jsonl").exists():
        return Log.open(directory, lambda record: None, io=io)
    return Log.create(directory, SessionHeader(id=directory.name, created_at=1, writer="w"), io=io)


# -- files that kill


class DeadlyIo(FileIo):
    """Kills this process at the n-th call: `before` it, `after` it, or when `half` of a write is done."""

    def __init__(self, nth: int, when: str) -> None:
        self.left = nth
        self.when = when


def _deadly(operation: str) -> Callable[..., Any]:
    real = getattr(FileIo, operation)

    @functools.wraps(real)
    def deadly(self: DeadlyIo, *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0 and self.when == "half" and operation == "write":
            descriptor, data = arguments
            real(self, descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return real(self, *arguments)
        finally:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return deadly


for _name in (
    "open",
    "close",
    "pread",
    "write",
    "truncate",
    "sync_data",
    "sync",
    "link",
    "unlink",
    "make_directory",
    "lock",
):
    setattr(DeadlyIo, _name, _deadly(_name))


# -- roles


def write(directory: str, size: int = 0) -> None:
    """Append batches for ever, `size` bytes an event, and say what is written (`w`) and synced (`s`)."""
    log = ready(Path(directory))
    say_line("w", log.next_seq)
    while True:
        for count in (1, 3, 20):
            log.append([draft(number, size) for number in range(log.next_seq, log.next_seq + count)])
            say_line("w", log.next_seq)
        log.sync()
        say_line("s", log.synced_seq + 1)


def live(directory: str, nth: int, when: str) -> None:
    """Make a log, write, reopen and write, and die at the n-th touch of a file."""
    io = DeadlyIo(nth, when)
    for _ in range(2):
        with ready(Path(directory), io) as log:
            say_line("s", log.next_seq)
            log.append([draft(log.next_seq), draft(log.next_seq + 1)])
            say_line("w", log.next_seq)
            log.write_side_file(b"output %d" % log.next_seq)
            log.sync()
            say_line("s", log.next_seq)
            log.append([draft(log.next_seq)])
            say_line("w", log.next_seq)


def repair(directory: str, nth: int, when: str) -> None:
    """Open a log, and die at the n-th touch of a file."""
    ready(Path(directory), DeadlyIo(nth, when)).close()


def follow(directory: str, count: int) -> None:
    """Read a log that is being written, up to `count` events, and say what was read."""
    tail = Tail(Path(directory))
    records: list[Record] = []
    say_line("following")
    while len(records) < count:
        records += tail.poll()
        assert not tail.restarted
    for record in records:
        say_line(record.seq, bytes(record.data).decode())


def hold(directory: str) -> None:
    """Open a log for writing and keep it, or say that somebody else has it."""
    try:
        log = ready(Path(directory))
    except DshTimeError as error:
        say_line(type(error).__name__, os.getpid())
    else:
        say_line("open", os.getpid())
        time.sleep(600)
        log.close()


def outgrow(directory: str, limit: int) -> None:
    """Write until the kernel says that the file is too large; then, with the limit gone, go on."""
    log = ready(Path(directory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        while True:
            log.append([draft(log.next_seq + more) for more in range(3)])
            say_line("w", log.next_seq)
    except WriteFailed as error:
        say_line(error.errno)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.append([draft(log.next_seq)])
    log.sync()
    say_line("s", log.next_seq)
    log.close()


class Nothing(Struct):
    """No arguments."""


def acting(root: Path) -> type:
    """A plugin class whose tools leave a file for each call: what has happened in the world."""

    def act(arguments: Nothing, context: ToolContext) -> str:
        (root / f"{context.session.id}.{context.call.id}.done").write_bytes(b"")
        say_line("body", context.call.id)
        return "done"

    def hang(arguments: Nothing, context: ToolContext) -> str:
        act(arguments, context)
        time.sleep(600)
        return "never"

    async def delegate(arguments: Nothing, context: ToolContext) -> str:
        return (await context.spawn("act")).text

    @frozen(eq=False)
    class Acting:
        @hookimpl
        def register_tools(self) -> list[Tool]:
            return [
                Tool("act", "Acts.", Nothing, act),
                Tool("beside", "Acts beside others.", Nothing, act, parallel=True),
                Tool("hang", "Acts and does not come back.", Nothing, hang, parallel=True),
                Tool("delegate", "Lets a child act.", Nothing, delegate, parallel=True),
            ]

    return Acting


def act(directory: str, last: str) -> None:
    """Give an agent one prompt after the other; each makes it call tools, `last` at the end."""
    root = Path(directory)

    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].role == "tool":
            return say("done")
        if last == "delegate":
            return call("act") if request.messages[-1].text == "act" else call("delegate") + call("delegate")
        return call("act") + call("beside") + call("beside") + call(last)

    async def run() -> None:
        async with make_harness(root, model=ScriptedModel(then=answer), plugins={"acting": acting(root)}) as harness:
            agent = harness.open("s1") if (root / "s1").exists() else harness.create("s1")
            say_line("ready")
            while True:
                await agent.prompt("go")

    asyncio.run(run())


def main(*roles: Callable[..., None]) -> None:
    """Play what is asked for, one after the other."""
    by_name = {role.__name__: role for role in roles}
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            try:
                say_line("start", os.getpid())
                by_name[name](*arguments)
            except BaseException as error:
                say_line("error", repr(error))
                os._exit(1)
            os._exit(0)
        say_line("end", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(write, live, repair, follow, hold, outgrow, act)
