"""The log by itself: `python -m cells.log append|sync ROOT COUNT` and `python -m cells.log untyped|scan|open ROOT`.

`append` and `sync` give µs per event beside the bare system calls with the same bytes. The other three read a stored
session in one pass: untyped decoding into a list that is kept, verifying every line, and opening with all folds; they
give ms, events, and how much resident memory grew.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import workload
from driver import emit, resident
from dsh_time.log import Draft, Log, Record, SessionHeader, scan
from ours import SESSION, Bench, NoSync, log_bytes


def _log(directory: Path) -> Log:
    header = SessionHeader(id=directory.name, created_at=0, writer="bench")
    return Log.create(directory, header)


def append(root: Path, count: int, *, sync: bool) -> None:
    """Append events of about 400 bytes, one by one."""
    data = msgspec.json.encode(
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": workload.question(1)}]}
    )
    draft = Draft(time=1_796_063_501_899, type="user/message", data=data)
    log = _log(root / "one")
    log.append([draft])
    line = log.path.read_bytes().splitlines(keepends=True)[-1]
    bare = os.open(root / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ours, floor = [], []
    for _ in range(count):
        started = time.perf_counter()
        log.append([draft])
        if sync:
            log.sync()
        middle = time.perf_counter()
        os.write(bare, line)
        if sync:
            os.fdatasync(bare)
        ours.append((middle - started) * 1e6)
        floor.append((time.perf_counter() - middle) * 1e6)
    log.close()
    os.close(bare)
    emit(ours=ours, bare=floor)


def read(root: Path, how: Callable[[Path], tuple[object, int]]) -> None:
    """Read the stored session, with the collector on."""
    gc.collect()
    before, started = resident(), time.perf_counter()
    kept, events = how(root)
    taken = (time.perf_counter() - started) * 1000
    emit(ms=taken, events=events, bytes=log_bytes(root), grown=resident() - before)
    del kept


def untyped(root: Path) -> tuple[object, int]:
    """Decode every line into plain Python objects and keep them."""
    decode, kept = msgspec.json.decode, []
    for line in (root / SESSION / "log.jsonl").read_bytes().splitlines():
        kept.append(decode(line))  # noqa: PERF401 as a reader would write it
    return kept, len(kept) - 1


def verify(root: Path) -> tuple[object, int]:
    """Verify every line: its seal, shape, limits and place."""
    count = 0

    def on_record(record: Record) -> None:
        nonlocal count
        count += 1

    return scan(root / SESSION, on_record), count


def opened(root: Path) -> tuple[object, int]:
    """Open the session for writing, with the folds of the host and of time-reminder."""
    harness = Bench(root, NoSync(), installed=("dsh-time-reminder",)).harness()
    agent = harness.open(SESSION)
    return (harness, agent), agent.session.next_seq


def main(mode: str, root: Path) -> None:
    """Do what the command line says."""
    if mode in ("append", "sync"):
        root.mkdir(parents=True)
        append(root, int(sys.argv[3]), sync=mode == "sync")
    elif mode == "open":
        Bench(root, NoSync(), installed=("dsh-time-reminder",)).harness()  # imports and the plugin scan come first

        async def within() -> None:
            read(root, opened)

        asyncio.run(within())
    else:
        read(root, {"untyped": untyped, "scan": verify}[mode])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
