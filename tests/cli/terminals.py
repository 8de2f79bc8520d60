"""A terminal for processes, and the end of it where a person would sit."""

import os
import pty
import re
import select
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

TIMEOUT_S = 5


@contextmanager
def terminal(*command: str | Path) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Start a process at a terminal of its own, and give the other end of that terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours, process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: str) -> str:
    """Read until `text` was shown; return everything read, without escape sequences."""
    raw, seen = b"", ""
    until = monotonic() + TIMEOUT_S
    while text not in seen:
        assert monotonic() < until, f"no {text!r} in {seen!r}"
        assert select.select([terminal], [], [], TIMEOUT_S)[0], f"no {text!r} in {seen!r}"
        new = os.read(terminal, 65536)
        if b"\x1b[6n" in new:  # it asks where the cursor is
            os.write(terminal, b"\x1b[1;1R")
        raw += new
        seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode(errors="replace"))
    return seen
