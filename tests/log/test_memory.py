"""What reading a log costs in memory: the states that are kept, and not much more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsh_time.log import LINE_LIMIT, Draft, Log, SessionHeader

#: Opens a log and prints the most memory that took above what it needs before and after, in MiB.
SCRIPT = """
import pathlib, sys
from dsh_time.log import Log
def peak():  # not getrusage: what the parent process had counts there
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
before = peak()
Log.open(pathlib.Path(sys.argv[1]), lambda record: None).close()
print(peak() - before)
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak memory")
@pytest.mark.parametrize(("text", "count"), [(8_000, 6_000), (LINE_LIMIT - 1_000, 6)])
def test_a_log_is_read_in_bounded_memory_also_when_its_lines_are_as_long_as_they_may_be(
    tmp_path: Path, text: int, count: int
) -> None:
    """C10: about 50 MiB; `benchmarks/big_log.py` does the same with a gigabyte."""
    with Log.create(tmp_path / "s1", SessionHeader(id="s1", created_at=1, writer="w")) as log:
        data = b'{"text":"%s"}' % (b"x" * text)
        for _ in range(count):
            log.append([Draft(1, "user/message", data)])
        assert log.path.stat().st_size > 46 << 20
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "s1")], capture_output=True, check=True)
    assert 0 < float(done.stdout) < 64
