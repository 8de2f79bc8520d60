"""Wear a log out: random operations and kills for some minutes. `python benchmarks/soak.py --minutes 5`

One long-lived process appends, syncs, reopens, forks, salvages and follows; other processes write and are killed. What
is read is compared with what was written after each operation. Memory, open descriptors and the time of an append
have to stay flat: the last quarter of the run is compared with the second. Prints one row of figures; exits with 1 when
something was lost or grew.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

sys.path.insert(0, str(Path(__file__).parents[1]))

from dsh_time.log import Log, Record, SessionHeader, Tail, fork, salvage, scan, verify
from tests.log.victims import draft
from tests.log.victims_program import Victims

#: A session is left for a new one when it has this many events, so that each operation has a bounded cost.
EVENTS = 2000


@define
class Sample:
    """The process at one moment: seconds since the start, resident bytes, descriptors, and an append's seconds."""

    at: float
    memory: int
    descriptors: int
    append: float


@define
class Soak:
    """The session that is worn out, and what was seen."""

    root: Path
    chance: random.Random
    victims: Victims
    started: float = field(factory=time.monotonic)
    number: int = 0
    operations: int = 0
    events: int = 0
    log: Log | None = None
    tail: Tail | None = None
    followed: int = 0
    appends: list[float] = field(factory=list)
    samples: list[Sample] = field(factory=list)

    @property
    def directory(self) -> Path:
        """The session's."""
        return self.root / f"s{self.number}"

    def header(self, directory: Path) -> SessionHeader:
        """A new session's first line."""
        return SessionHeader(id=directory.name, created_at=1, writer="soak")

    def ready(self) -> Log:
        """The open log; a new session when the old one is long enough."""
        if self.log is not None and self.log.next_seq > EVENTS:
            self.log.close()
            self.log = None
            shutil.rmtree(self.directory)
        if self.log is None:
            self.number += 1
            self.log = Log.create(self.directory, self.header(self.directory))
            self.tail, self.followed = Tail(self.directory), 0
        return self.log

    # -- operations

    def append(self) -> None:
        """A batch of events; its time is kept."""
        log = self.ready()
        drafts = [draft(log.next_seq + more, self.chance.randrange(500)) for more in range(self.chance.randrange(1, 9))]
        before = time.perf_counter()
        log.append(drafts)
        self.appends.append((time.perf_counter() - before) / len(drafts))
        self.events += len(drafts)

    def sync(self) -> None:
        """A barrier."""
        self.ready().sync()

    def store(self) -> None:
        """A side file."""
        self.ready().write_side_file(self.chance.randbytes(10_000))

    def reopen(self) -> None:
        """Close and open, perhaps over a torn tail."""
        log = self.ready()
        count = log.next_seq
        log.close()
        if self.chance.randrange(2):
            with log.path.open("ab") as file:
                file.write(self.chance.randbytes(self.chance.randrange(1, 200)).replace(b"\n", b""))
        self.log = Log.open(self.directory, lambda record: None)
        assert self.log.next_seq == count

    def follow(self) -> None:
        """Read what is new."""
        self.ready()
        assert self.tail is not None
        records = self.tail.poll()
        self.followed = 0 if self.tail.restarted else self.followed
        assert [record.seq for record in records] == list(range(self.followed, self.followed + len(records)))
        self.followed += len(records)

    def copy(self) -> None:
        """A fork or a salvage, which is read and thrown away."""
        log = self.ready()
        target = self.root / "copy"
        if log.next_seq == 0:
            return
        if self.chance.randrange(2):
            fork(self.directory, target, self.header(target), log.next_seq - 1)
        else:
            salvage(self.directory, target, created_at=1, writer="soak")
        assert self.count(target) == log.next_seq
        assert verify(target).ok
        shutil.rmtree(target)

    def kill(self) -> None:
        """A writer in another process, killed while it writes."""
        target = self.root / "killed"
        self.victims.start("write", target, self.chance.randrange(20_000))
        said = [self.victims.line() for _ in range(self.chance.randrange(1, 30))]
        said += self.victims.kill()
        acknowledged = max((int(words[1]) for words in said if words[0] in ("w", "s")), default=0)
        assert self.count(target) >= acknowledged
        with Log.open(target, lambda record: None) as log:
            size = log.path.stat().st_size
        if size > 20 << 20:
            shutil.rmtree(target)

    def count(self, directory: Path) -> int:
        """How many events there are; each is checked."""
        found = 0

        def on_record(record: Record) -> None:
            nonlocal found
            assert bytes(record.data).startswith(b'{"number":%d,' % found)
            found += 1

        scan(directory, on_record)
        return found

    # -- the run

    def run(self, seconds: float) -> None:
        """Operate at random."""
        weighted: list[tuple[Callable[[], None], int]] = [
            *((self.append, 60), (self.sync, 15), (self.follow, 10), (self.store, 4), (self.reopen, 6)),
            *((self.copy, 3), (self.kill, 2)),
        ]
        operations = [operation for operation, weight in weighted for _ in range(weight)]
        while (now := time.monotonic() - self.started) < seconds:
            self.chance.choice(operations)()
            self.operations += 1
            if len(self.appends) >= 50:
                self.samples.append(self.sample(now))
                self.appends.clear()
        if self.log is not None:
            self.log.close()

    def sample(self, now: float) -> Sample:
        """How it is with the process."""
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
        return Sample(now, memory, descriptors, statistics.median(self.appends))

    def flat(self) -> tuple[bool, str]:
        """Whether nothing grew, and the figures."""
        quarter = max(len(self.samples) // 4, 1)
        early, late = self.samples[quarter : 2 * quarter], self.samples[-quarter:]

        def change(of: Callable[[Sample], float]) -> tuple[float, float]:
            return statistics.median(map(of, early)), statistics.median(map(of, late))

        memory = change(lambda sample: sample.memory / 2**20)
        descriptors = change(lambda sample: sample.descriptors)
        append = change(lambda sample: sample.append * 1e6)
        good = memory[1] < memory[0] + 8 and descriptors[1] <= descriptors[0] + 1 and append[1] < 2 * append[0] + 20
        return good, (
            f"| {self.samples[-1].at / 60:.1f} min | {self.operations} operations | {self.events} events"
            f" | {self.victims.kills} kills | memory {memory[0]:.1f} -> {memory[1]:.1f} MiB"
            f" | descriptors {descriptors[0]:.0f} -> {descriptors[1]:.0f}"
            f" | append {append[0]:.0f} -> {append[1]:.0f} us an event |"
        )


def main() -> int:
    """Run as long as asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dsh-time-soak-") as folder:
        victims = Victims()
        soak = Soak(Path(folder), random.Random(options.seed), victims)
        try:
            soak.run(options.minutes * 60)
        finally:
            victims.close()
    good, row = soak.flat()
    print(row if good else f"{row} NOT FLAT")
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
