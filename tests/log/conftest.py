"""What the log's tests share: sessions made of given bytes, and files that fail on command."""

import errno
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_time.log import FILES, Draft, FileIo, Log, Record, SessionHeader, scan
from dsh_time.log.format import encode_header, encode_record

from .victims_program import Victims


class Disk:
    """A root for sessions in a temporary directory, and what goes into them."""

    header = SessionHeader(id="s1", created_at=1_790_000_000_000, writer="dsh-time 0.1.0")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "s1"

    @staticmethod
    def drafts(*numbers: int) -> list[Draft]:
        """Events that tell by their payload which seq they should get."""
        return [
            Draft(1_790_000_000_000 + number, "user/message", b'{"number":%d,"text":"hello"}' % number)
            for number in numbers
        ]

    def lines(self, *stretches: int) -> list[bytes]:
        """A header and events: so many in each stretch between two syncs. Each line has its newline."""
        lines = [encode_header(self.header) + b"\n"]
        for b, count in enumerate(stretches):
            for _ in range(count):
                seq = len(lines) - 1
                lines.append(encode_record(seq, self.drafts(seq)[0], b)[0] + b"\n")
        return lines

    def put(self, *lines: bytes) -> Path:
        """A session whose log is these bytes."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        (self.directory / "log.jsonl").write_bytes(b"".join(lines))
        return self.directory

    def content(self) -> bytes:
        return (self.directory / "log.jsonl").read_bytes()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())

    def create(self, io: FileIo = FILES) -> Log:
        return Log.create(self.directory, self.header, io=io)

    def open(self, io: FileIo = FILES) -> Log:
        """Open for writing, checking what is read."""
        records: list[Record] = []
        log = Log.open(self.directory, records.append, io=io)
        assert self.seqs(records) == list(range(log.next_seq))
        return log

    def read(self, directory: Path | None = None) -> list[int]:
        """The seqs a reader gets."""
        records: list[Record] = []
        scan(directory or self.directory, records.append)
        return self.seqs(records)

    def seqs(self, records: list[Record]) -> list[int]:
        """The seqs, checked against the payloads: what was read is what was written."""
        for record in records:
            assert bytes(record.data) == self.drafts(record.seq)[0].data
        return [record.seq for record in records]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    root = tmp_path / "sessions"
    root.mkdir(mode=0o700)
    return Disk(root)


class FaultyIo(FileIo):
    """Real files; every call is recorded, and the n-th call of an operation can be made to fail.

    A fault is an errno; a count of bytes, for a write that takes only so many; or any exception.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []  # operation, and the name of the file it is about
        self.faults: dict[tuple[str, int], int | bytes | BaseException] = {}
        self._names: dict[int, str] = {}

    def fail(self, operation: str, nth: int, fault: "int | bytes | BaseException") -> None:
        """Make the `nth` call from now (counted from 1) fail; bytes mean a short write of that length."""
        self.faults[operation, self.count(operation) + nth] = fault

    def count(self, operation: str) -> int:
        return sum(called == operation for called, _ in self.calls)

    def left_open(self) -> list[str]:
        return list(self._names.values())

    def happened(self) -> list[str]:
        return [f"{operation} {name}" for operation, name in self.calls]


def _watch(operation: str) -> Callable[..., Any]:
    real = getattr(FileIo, operation)

    @functools.wraps(real)
    def watched(self: FaultyIo, target: Any, *rest: Any) -> Any:
        name = target.name if isinstance(target, Path) else self._names[target]
        self.calls.append((operation, name))
        fault = self.faults.get((operation, self.count(operation)))
        if isinstance(fault, BaseException):
            raise fault
        if isinstance(fault, bytes):
            return real(self, target, rest[0][: len(fault)])
        if fault is not None:
            if operation == "close":
                real(self, target)  # Linux closes it all the same
                del self._names[target]
            raise OSError(fault, errno.errorcode[fault])
        result = real(self, target, *rest)
        if operation == "open":
            self._names[result] = name
        if operation == "close":
            del self._names[target]
        return result

    return watched


#: All that touch a file by name or by descriptor.
OPERATIONS = (
    *("open", "close", "pread", "write", "truncate", "sync_data", "sync", "stat_open", "stat_path"),
    *("link", "unlink", "make_directory", "names", "lock"),
)
for _operation in OPERATIONS:
    setattr(FaultyIo, _operation, _watch(_operation))


@pytest.fixture
def faulty() -> FaultyIo:
    return FaultyIo()


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    """Processes to be killed, one at a time."""
    program = Victims()
    yield program
    program.close()
