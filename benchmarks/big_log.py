"""Open a large log and measure it. `python benchmarks/big_log.py --megabytes 1024`

Writes a session of that size, of which a sixteenth is on the model's surface, and opens it in a fresh process, with its
progress shown where standard error is a terminal. Prints one row: seconds, and the most memory the opening took above
what the process holds afterwards (its live folds). Exits with 1 when that is more than 64 MiB.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dsh_hookspecs import ChatMessage, TextBlock, ToolResult, ToolResultBlock, UserMessage
from dsh_time.log import FILES, Draft, FileIo, Log, SessionHeader
from dsh_time.session import Session

ALLOWED = 64  #: MiB
LINE = 8000  #: bytes of text in an event


def write(directory: Path, size: int) -> None:
    """Make the session: results of calls by the user, which no model sees, and every sixteenth a message."""
    text = "x" * LINE
    result = ChatMessage(id="m", role="tool", content=(ToolResultBlock(id="u", text=text),), source={"kind": "tool"})
    message = UserMessage(id="m", role="user", content=(TextBlock(text),), source={"kind": "user"})
    hidden = Draft(1, ToolResult.type, msgspec.json.encode(ToolResult(message=result, issuer="user")))
    seen = Draft(1, UserMessage.type, msgspec.json.encode(message))
    with Log.create(directory, SessionHeader(id=directory.name, created_at=1, writer="big")) as log:
        for _ in range(size // (16 * (LINE + 250))):
            log.append([*[hidden] * 15, seen])
        log.sync()


def opened(directory: Path) -> dict[str, float]:
    """Open the session in this process; the figures."""
    size = (directory / "log.jsonl").stat().st_size
    before = time.monotonic()
    with Session.open(directory, io=_shown(size)) as session:
        seconds = time.monotonic() - before
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        gc.collect()
        held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
        return {"seconds": seconds, "peak": peak, "held": held, "events": session.next_seq, "size": size / 2**20}


def _shown(size: int) -> FileIo:
    if not sys.stderr.isatty():
        return FILES
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True))
    progress.start()
    task = progress.add_task("Opening", total=size)

    class Counting(FileIo):
        def pread(self, descriptor: int, count: int, offset: int) -> bytes:
            data = super().pread(descriptor, count, offset)
            progress.advance(task, len(data))
            return data

        def sync_data(self, descriptor: int) -> None:
            progress.stop()
            super().sync_data(descriptor)

    return Counting()


def main() -> int:
    """Write, open, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        print(json.dumps(opened(options.open)))
        return 0
    with tempfile.TemporaryDirectory(prefix="dsh-time-big-") as folder:
        directory = Path(folder) / "s1"
        write(directory, options.megabytes << 20)
        command = [sys.executable, __file__, "--open", str(directory)]
        figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    size, seconds, held = figures["size"], figures["seconds"], figures["held"]
    above = float(figures["peak"] - held)
    print(
        f"| {size:.0f} MiB | {figures['events']} events | opened in {seconds:.1f} s | {size / seconds:.0f} MiB/s"
        f" | held {held:.0f} MiB | {above:.0f} MiB above |"
    )
    return above > ALLOWED


if __name__ == "__main__":
    raise SystemExit(main())
