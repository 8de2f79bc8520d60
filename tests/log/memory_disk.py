"""A disk in memory that knows what a loss of power may leave of it.

It remembers, for every file and directory, what was synced and everything that happened since. `after_power_loss` gives
the states that an honest local disk may show afterwards: each change since the last sync is there, in part, or not.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attrs import define, field

from dsh_time.log import FileIo

#: Bytes of which all or none reach the disk. Real sectors are larger and so leave fewer states.
SECTOR = 32

#: What a disk shows: each file's bytes by path; None for a directory.
Tree = Mapping[Path, bytes | None]


@define(eq=False)
class _File:
    number: int
    content: bytes = b""
    #: What it was after the last sync and after each change since.
    versions: list[bytes] = field(factory=lambda: [b""])

    def change(self, content: bytes) -> None:
        self.content = content
        self.versions.append(content)

    def sync(self) -> None:
        self.versions = [self.content]

    def survivors(self) -> Iterator[bytes]:
        """Every content that may be found: old and new versions mixed sector by sector, the size of any of them."""
        seen = set()
        for content in itertools.chain(self.versions[-1:], self.versions, self._cut(), self._mixed()):
            if content not in seen:
                seen.add(content)
                yield content

    def _cut(self) -> Iterator[bytes]:
        """The size cut anywhere; or the new size already, and nothing behind some byte."""
        for old, new in itertools.pairwise(self.versions):
            for end in range(min(len(old), len(new)), len(new)):
                yield new[:end]
                yield new[:end].ljust(len(new), b"\0")

    def _mixed(self) -> Iterator[bytes]:
        for old, new in itertools.combinations(self.versions, 2):
            length = max(len(old), len(new))
            first = _first_difference(old, new) // SECTOR * SECTOR
            places = [*range(first, length, SECTOR), length]
            padded_old, padded_new = old.ljust(length, b"\0"), new.ljust(length, b"\0")
            for start, end in itertools.combinations(places, 2):
                hole = padded_new[:start] + padded_old[start:end] + padded_new[end:]
                yield hole[: len(new)]
                yield hole


def _first_difference(old: bytes, new: bytes) -> int:
    shorter = min(len(old), len(new))
    return next((at for at in range(shorter) if old[at] != new[at]), shorter)


@define(eq=False)
class _Directory:
    number: int
    entries: dict[str, _Node] = field(factory=dict)
    synced: dict[str, _Node] = field(factory=dict)
    #: Names that came (with what they name) or went (None) since.
    changes: list[tuple[str, _Node | None]] = field(factory=list)

    def change(self, name: str, node: _Node | None) -> None:
        self.changes.append((name, node))
        _apply(self.entries, name, node)

    def sync(self) -> None:
        self.synced, self.changes = dict(self.entries), []

    def survivors(self) -> Iterator[dict[str, _Node]]:
        """Every list of entries that may be found: each change happened or was undone. All of them first."""
        for kept in itertools.product((True, False), repeat=len(self.changes)):
            entries = dict(self.synced)
            for name, node in itertools.compress(self.changes, kept):
                _apply(entries, name, node)
            yield entries


_Node = _File | _Directory


def _apply(entries: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


class MemoryDisk(FileIo):
    """The files of one machine, without links of the symbolic kind. `after` is called after every change or sync."""

    def __init__(self, tree: Tree | None = None, after: Callable[[str], object] = lambda operation: None) -> None:
        """Hold a tree, all of it synced."""
        self.after: Callable[[str], object] = lambda operation: None
        #: How many bytes still fit; None: any number.
        self.room: int | None = None
        self._numbers = itertools.count(1)
        self._root = _Directory(next(self._numbers))
        self._open: dict[int, tuple[_Node, int]] = {}
        self._places: dict[int, int] = {}
        self._locked: dict[int, int] = {}
        for path, content in sorted((tree or {}).items()):
            node: _Node
            if content is None:
                node = _Directory(next(self._numbers))
            else:
                node = _File(next(self._numbers), content, [content])
            parent = self._directory(path.parent)
            parent.change(path.name, node)
            parent.sync()
        self.after = after

    # -- what there is

    def tree(self) -> dict[Path, bytes | None]:
        """What a process sees now."""
        return dict(_walk(self._root, lambda d: d.entries, lambda f: f.content))

    def is_directory(self, descriptor: int) -> bool:
        """Whether a directory is open there."""
        return isinstance(self._open[descriptor][0], _Directory)

    def after_power_loss(self) -> Iterator[dict[Path, bytes | None]]:
        """Every tree that may be found. The first is what a process sees now.

        Files vary one at a time; the others are as new, or as old, as they can be.
        """
        nodes = list(_nodes(self._root))
        directories = [node for node in nodes if isinstance(node, _Directory) and node.changes]
        files = [node for node in nodes if isinstance(node, _File) and len(node.versions) > 1]
        for lists in itertools.product(*(list(node.survivors()) for node in directories)):
            entries = dict(zip(map(id, directories), lists, strict=True))

            def look(
                contents: Mapping[int, bytes], version: int, entries: dict[int, dict[str, _Node]] = entries
            ) -> dict[Path, bytes | None]:
                return dict(
                    _walk(
                        self._root,
                        lambda d: entries.get(id(d), d.entries),
                        lambda f: contents.get(id(f), f.versions[version]),
                    )
                )

            yield look({}, -1)
            yield look({}, 0)
            for file in files:
                for content in file.survivors():
                    yield look({id(file): content}, -1)

    # -- FileIo

    def open(self, path: Path, flags: int) -> int:
        parent = self._directory(path.parent)
        node = parent.entries.get(path.name)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = _File(next(self._numbers))
            parent.change(path.name, node)
            self.after("open")
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        descriptor = next(self._numbers)
        self._open[descriptor] = node, flags
        self._places[descriptor] = 0
        return descriptor

    def close(self, descriptor: int) -> None:
        del self._open[descriptor]
        self._locked.pop(descriptor, None)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return self._file(descriptor).content[offset : offset + count]

    def write(self, descriptor: int, data: bytes) -> int:
        file = self._file(descriptor)
        if self.room is not None:
            data = data[: self.room]
            self.room -= len(data)
            if not data:
                raise _error(errno.ENOSPC)
        append = self._open[descriptor][1] & os.O_APPEND
        place = len(file.content) if append else self._places[descriptor]
        file.change(file.content[:place].ljust(place, b"\0") + data + file.content[place + len(data) :])
        self._places[descriptor] = place + len(data)
        self.after("write")
        return len(data)

    def truncate(self, descriptor: int, length: int) -> None:
        file = self._file(descriptor)
        file.change(file.content[:length].ljust(length, b"\0"))
        self.after("truncate")

    def sync_data(self, descriptor: int) -> None:
        self._file(descriptor).sync()
        self.after("sync")

    def sync(self, descriptor: int) -> None:
        self._open[descriptor][0].sync()
        self.after("sync")

    def stat_open(self, descriptor: int) -> os.stat_result:
        return _status(self._open[descriptor][0])

    def stat_path(self, path: Path) -> os.stat_result:
        return _status(self._node(path))

    def link(self, source: Path, target: Path) -> None:
        parent = self._directory(target.parent)
        if target.name in parent.entries:
            raise _error(errno.EEXIST, target)
        parent.change(target.name, self._node(source))
        self.after("link")

    def unlink(self, path: Path) -> None:
        self._node(path)
        self._directory(path.parent).change(path.name, None)
        self.after("unlink")

    def make_directory(self, path: Path) -> None:
        parent = self._directory(path.parent)
        if path.name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.change(path.name, _Directory(next(self._numbers)))
        self.after("make directory")

    def names(self, directory: Path) -> list[str]:
        return list(self._directory(directory).entries)

    def lock(self, descriptor: int) -> None:
        number = self._open[descriptor][0].number
        if number in self._locked.values():
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        self._locked[descriptor] = number

    def real_path(self, path: Path) -> Path:
        return path

    def mount_table(self) -> str:
        return ""

    # -- inside

    def _node(self, path: Path) -> _Node:
        node: _Node = self._root
        for part in path.parts[1:]:
            if not isinstance(node, _Directory):
                raise _error(errno.ENOTDIR, path)
            if part not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[part]
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def _file(self, descriptor: int) -> _File:
        node = self._open[descriptor][0]
        assert isinstance(node, _File)
        return node


def _walk(
    root: _Directory, entries: Callable[[_Directory], dict[str, _Node]], content: Callable[[_File], bytes]
) -> Iterator[tuple[Path, bytes | None]]:
    waiting: list[tuple[Path, _Directory]] = [(Path("/"), root)]
    while waiting:
        path, directory = waiting.pop()
        for name, node in entries(directory).items():
            if isinstance(node, _File):
                yield path / name, content(node)
            else:
                yield path / name, None
                waiting.append((path / name, node))


def _nodes(root: _Directory) -> Iterator[_Node]:
    """Every file and directory that has a name, or had one when its directory was last synced."""
    seen: dict[int, _Node] = {}
    waiting: list[_Node] = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if isinstance(node, _Directory):
            waiting += [*node.entries.values(), *node.synced.values()]
            waiting += [named for _, named in node.changes if named is not None]
    return iter(seen.values())


def _error(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), None if path is None else str(path))


def _status(node: _Node) -> os.stat_result:
    if isinstance(node, _File):
        return os.stat_result((stat.S_IFREG | 0o600, node.number, 1, 1, 0, 0, len(node.content), 0, 0, 0))
    return os.stat_result((stat.S_IFDIR | 0o700, node.number, 1, 1, 0, 0, 0, 0, 0, 0))
