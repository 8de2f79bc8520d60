"""The power goes at every moment of a log's life, and the disk shows whatever it then may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define, field

from dsh_time.errors import DshTimeError, SessionNotFound, WriteFailed
from dsh_time.log import Draft, FileIo, Log, Record, SessionHeader, fork, scan, scanner

from .memory_disk import MemoryDisk, Tree

ROOT = Path("/home")
SESSION = ROOT / "s1"
LOG = SESSION / "log.jsonl"
HEADER = SessionHeader(id="s1", created_at=1_790_000_000_000, writer="dsh-time 0.1.0")


class Broken(AssertionError):
    """A promise of the log was not kept."""


def read(io: FileIo, directory: Path = SESSION) -> list[bytes]:
    """The payloads a reader gets."""
    payloads: list[bytes] = []
    scan(directory, lambda record: payloads.append(bytes(record.data)), io=io)
    return payloads


def reopened(io: FileIo) -> tuple[Log, list[bytes]]:
    records: list[Record] = []
    log = Log.open(SESSION, records.append, io=io)
    return log, [bytes(record.data) for record in records]


@define
class Life:
    """A log on a disk whose power fails after every operation: each state it may leave is opened and checked."""

    disk: MemoryDisk = field(factory=MemoryDisk)
    created: bool = False
    log: Log | None = None
    promised: int = 0
    #: Payloads of what was appended, also by an append that has neither returned nor raised yet.
    expected: list[bytes] = field(factory=list)
    checked: set[tuple[object, ...]] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.disk = MemoryDisk({ROOT: None}, self.check)

    # -- what happens

    def create(self) -> None:
        self.log = Log.create(SESSION, HEADER, io=self.disk)
        self.created = True

    def append(self, *texts: str) -> None:
        """Append a batch; it may fail for lack of room."""
        drafts = [Draft(1_790_000_000_000, "user/message", b'"%s"' % text.encode()) for text in texts]
        before = list(self.expected)
        self.expected += [draft.data for draft in drafts]
        assert self.log is not None
        try:
            self.log.append(drafts)
        except WriteFailed:
            self.expected = before
        if read(self.disk) != self.expected:
            raise Broken("what was written is not what is read")
        self.check("append returned")

    def sync(self) -> None:
        assert self.log is not None
        self.log.sync()

    def close(self) -> None:
        assert self.log is not None
        self.log.close()

    def reopen(self) -> None:
        self.log, found = reopened(self.disk)
        self.expect(found)

    def lose_power(self, wanted: Callable[[bytes], bool]) -> None:
        """Go on with the first state that may be found whose log is as wanted."""
        self.promised = self.synced
        tree = next(tree for tree in self.disk.after_power_loss() if wanted(tree.get(LOG) or b""))
        self.disk.after = lambda operation: None
        self.close()
        self.disk, self.log = MemoryDisk(tree, self.check), None
        self.expected = self.expected[: len(read(self.disk))]

    # -- what must hold

    @property
    def synced(self) -> int:
        return self.promised if self.log is None else max(self.promised, self.log.synced_seq + 1)

    def expect(self, found: list[bytes]) -> None:
        """C2: a prefix, with all that was synced."""
        if found != self.expected[: len(found)]:
            raise Broken(f"{found} is no prefix of {self.expected}")
        if len(found) < self.synced:
            raise Broken(f"{self.synced} events were synced, {len(found)} are left")

    def check(self, operation: str) -> None:
        before = set(self.checked)
        for tree in self.disk.after_power_loss():
            key = (self.synced, self.created, *self.expected, *sorted((str(path), tree[path]) for path in tree))
            if key not in before and key not in self.checked:
                self.checked.add(key)
                try:
                    self._check(tree)
                except Broken as broken:
                    raise Broken(f"after {operation}: {broken} in {tree}") from broken

    def _check(self, tree: Tree) -> None:
        disk = MemoryDisk(tree)
        try:
            found = read(disk)
        except SessionNotFound as error:
            if self.created:
                raise Broken("the session is gone") from error
            return
        self.expect(found)
        try:
            log, again = reopened(disk)
        except DshTimeError as error:
            raise Broken(f"refused: {error}") from error
        if again != found:
            raise Broken("open and read differ")
        content = tree[LOG] or b""
        good = (disk.tree()[LOG] or b"") if log.repaired is None else content[: log.repaired.offset]
        if log.repaired is None and good != content:
            raise Broken("changed without a word")
        if log.repaired is not None and disk.tree()[log.repaired.saved] != content[len(good) :]:
            raise Broken("what was cut off was not kept")
        once = disk.tree()
        log.close()
        log, _ = reopened(disk)
        if log.repaired is not None or once.keys() != disk.tree().keys() or disk.tree()[LOG] != good:
            raise Broken("a second repair found something to do")
        if any(path.name.endswith(".tmp") for path in once):
            raise Broken("a temporary file was left")
        log.append([Draft(0, "user/message", b'"later"')])
        log.close()
        if read(disk) != [*found, b'"later"']:
            raise Broken("the repaired log does not go on")


def zeros(log: bytes) -> bool:
    return b"\0" in log and not log.endswith(b"\0")


def torn(log: bytes) -> bool:
    return not log.endswith((b"\n", b"\0"))


def plain(life: Life) -> None:
    life.create()
    life.append("a")
    life.sync()
    life.append("b", "c", "d")
    life.append("e")
    life.sync()
    life.append("f")
    life.close()
    life.reopen()
    life.append("g", "h")


def full_disk(life: Life) -> None:
    life.create()
    life.append("a")
    life.sync()
    life.disk.room = 50
    life.append("lost at once")
    life.append("and again")
    life.disk.room = None
    life.append("b", "b2")
    for room in (0, 60, 150, 250):
        life.disk.room = room
        life.append(f"lost {room}", "lost as well", "and this")
        life.disk.room = None
        life.append(f"kept {room}")
    life.sync()
    life.append("c")


def repairs(life: Life) -> None:
    life.create()
    life.append("a")
    life.sync()
    for wanted in (zeros, torn, lambda log: log.endswith(b"\0")):
        life.append("b" * 40, "c" * 40, "d" * 40)
        life.lose_power(wanted)
        life.reopen()


def side_files(life: Life) -> None:
    life.create()
    assert life.log is not None
    life.append("a")
    name = life.log.write_side_file(b"output" * 20)
    life.append(name)
    life.sync()
    life.log.write_side_file(b"more")
    life.append("b")


@contextmanager
def lived(live: Callable[[Life], None]) -> Iterator[Life]:
    """A life from its start to its end, or to the first broken promise."""
    life = Life()
    try:
        live(life)
        yield life
    finally:
        life.disk.after = lambda operation: None
        if life.log is not None:
            life.log.close()


LIVES = [plain, full_disk, repairs, side_files]


@pytest.mark.parametrize("live", LIVES, ids=lambda live: live.__name__)
def test_whenever_the_power_goes_the_log_is_a_prefix_that_holds_all_that_was_synced(
    live: Callable[[Life], None],
) -> None:
    """C1, C2, C6, C8: in every state it reads, opens, is repaired once, and goes on."""
    with lived(live) as life:
        assert len(life.checked) > 3_500


# -- the proof is worth something: each of these breaks a promise, and is noticed


def forget_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryDisk.sync
    monkeypatch.setattr(MemoryDisk, "sync", lambda io, at: None if io.is_directory(at) else real(io, at))


def forget_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryDisk, "sync_data", lambda io, at: io.after("sync"))


def acknowledge_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(log: Log) -> None:
        log.synced_seq = log.next_seq - 1
        log._io.write(log._lock, b" ")  # some moment passes
        log._sync()
        log._b += 1

    monkeypatch.setattr(Log, "sync", sync)


def read_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "_judge", lambda *_: "damaged")


@pytest.mark.parametrize(
    ("mutate", "live", "broken"),
    [
        (forget_directories, plain, "the session is gone"),
        (forget_syncs, plain, "were synced"),
        (acknowledge_first, plain, "were synced"),
        (read_strictly, plain, "refused"),
    ],
)
def test_a_log_that_keeps_no_promise_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None],
    live: Callable[[Life], None],
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken, match=broken), lived(live):
        pass


def test_a_fork_is_there_whole_or_not_at_all() -> None:
    source = Life()
    source.create()
    source.append("a", "b")
    source.close()
    tree = source.disk.tree()
    states: set[tuple[tuple[str, bytes | None], ...]] = set()
    done = False

    def check(operation: str) -> None:
        for found in disk.after_power_loss():
            key = tuple(sorted((str(path), content) for path, content in found.items()))
            if key in states:
                continue
            states.add(key)
            try:
                events = read(MemoryDisk(found), ROOT / "s2")
            except SessionNotFound:
                assert not done
            else:
                assert events == [b'"a"', b'"b"']

    disk = MemoryDisk(tree, check)
    fork(SESSION, ROOT / "s2", SessionHeader(id="s2", created_at=1, writer="w"), 1, io=disk)
    done = True
    check("fork returned")
    assert len(states) > 20
