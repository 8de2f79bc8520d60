"""Reads one small YAML 1.2 file that a person wrote, and remembers where each value stands.

Safe by construction: ruamel.yaml only splits the text into events, this module makes plain data of them.
Refused are aliases, anchors, tags, directives, duplicate keys, keys that are not text, a second document,
more than 64 KiB and more than 20 levels. A plain scalar means what YAML 1.2's core schema says, so `off`,
`no` and `2026-01-01` are text.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dsh_time.errors import DeploymentError
from dsh_time.problems import Keys, Problem, describe

MAX_FILE_BYTES = 64 * 1024
MAX_DEPTH = 20

_INTEGER_LIMIT = 2**63
_QUOTE_HINT = "quote text that starts with such a character, for example cron: '*/5 * * * *'"


@attrs.frozen
class Origin:
    """Who said a value: `label` as it is shown (a file's path, `built in`, `--enable X`), and the file if it
    was one.
    """

    label: str
    file: Path | None = None


BUILT_IN = Origin("built in")


@attrs.frozen
class Node:
    """A plain value with its origin.

    Line and column (of its key, in a mapping) count from 1; None outside files.
    """

    value: bool | int | float | str | tuple[Node, ...] | Mapping[str, Node] | None
    origin: Origin
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str:
        """`FILE:LINE:COLUMN`, as much of it as is known."""
        numbers = (number for number in (self.line, self.column) if number is not None)
        return ":".join([self.origin.label, *map(str, numbers)])


def make_node(data: Any, origin: Origin) -> Node:
    """Return a Node tree for plain data that stands in no file."""
    if isinstance(data, Mapping):
        return Node({key: make_node(value, origin) for key, value in data.items()}, origin)
    if isinstance(data, list | tuple):
        return Node(tuple(make_node(item, origin) for item in data), origin)
    return Node(data, origin)


def plain(node: Node) -> Any:
    """Return the plain data of a tree: dicts, lists and scalars."""
    if isinstance(node.value, Mapping):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(child) for child in node.value]
    return node.value


def nearest(node: Node, keys: Keys) -> Node:
    """Return the node that `keys` lead to, or the last one on the way there."""
    for key in keys:
        child = None
        if isinstance(node.value, Mapping) and isinstance(key, str):
            child = node.value.get(key)
        elif isinstance(node.value, tuple) and isinstance(key, int):
            child = node.value[key]
        if child is None:
            break
        node = child
    return node


def read_yaml(path: Path, origin: Origin) -> Node | None:
    """Return the document in the file, or None when there is no file. An empty file gives a node whose value
    is None.

    Raises DeploymentError with every problem up to the first one that ends parsing.
    """
    try:
        content = _read(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise _error(origin.label, "is a link to a file that does not exist") from None
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise _error(origin.label, f"cannot be read: {reason}") from error
    if content is None:
        raise _error(origin.label, "is not a regular file")
    if len(content) > MAX_FILE_BYTES:
        raise _error(origin.label, f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _error(f"{origin.label}:{line}", "is not UTF-8 text") from None
    return _Builder(origin).build(text)


def _error(place: str, message: str) -> DeploymentError:
    return DeploymentError((Problem((), message, place=place),))


def _read(path: Path) -> bytes | None:
    """Return the file's first bytes, one more than allowed; None when it is no regular file."""
    # O_NONBLOCK: opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


class _Builder:
    """Makes a Node tree of one file's events. Collects problems and goes on where the events do."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.problems: list[Problem] = []
        self.open: list[_Collection] = []
        self.root: Node | None = None
        self.alias_lines: set[int] = set()

    def build(self, text: str) -> Node:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            for event in YAML(typ="safe", pure=True).parse(text):
                self._take(event)
        except DeploymentError:
            raise
        except YAMLError as error:
            self._syntax_error(text, error)
        except Exception as error:  # ruamel.yaml lets a ValueError out for "\U00110000", and promises nothing
            self._refuse(f"is not valid YAML: {error}")
        if self.problems:
            raise DeploymentError(tuple(self.problems))
        return self.root or Node(None, self.origin, 1, 1)

    def _take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            if self.root is not None:
                self._refuse("holds a second document (a line ---)", event.start_mark)
                raise DeploymentError(tuple(self.problems))
            if event.version or event.tags:
                self._refuse("directives (a line that starts with %) are not allowed", event.start_mark)
        elif kind == "AliasEvent":
            self.alias_lines.add(event.start_mark.line)
            self._refuse(f"*{event.anchor} is a YAML alias, which is not allowed; {_QUOTE_HINT}", event.start_mark)
            self._add(self._node(None, event))
        elif kind in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
            if event.anchor is not None or event.tag is not None:
                found = "an anchor (&)" if event.anchor is not None else "a tag (!)"
                self._refuse(f"{found} is not allowed; quote text that starts with & or !", event.start_mark)
            if kind == "ScalarEvent":
                self._add(self._node(self._scalar(event), event))
            elif len(self.open) == MAX_DEPTH:
                self._refuse(f"is nested more than {MAX_DEPTH} levels deep", event.start_mark)
                raise DeploymentError(tuple(self.problems))
            else:
                self.open.append(_Collection(event, [] if kind == "SequenceStartEvent" else {}))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            done = self.open.pop()
            value = tuple(done.items) if isinstance(done.items, list) else done.items
            self._add(self._node(value, done.event))

    def _add(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        if isinstance(top.items, list):
            top.items.append(node)
        elif top.key is not None:
            # A value stands where its key does: that is the line a person looks for.
            top.items[top.key] = attrs.evolve(node, line=top.key_node.line, column=top.key_node.column)
            top.key = None
        elif not isinstance(node.value, str):
            self._refuse(f"a key must be text, not {describe(plain(node))}; quote it", node)
            top.key, top.key_node = "", node  # so that its value has a place
        else:
            if node.value in top.items:
                first = top.items[node.value]
                self._refuse(f"the key {describe(node.value)} stands here twice, first on line {first.line}", node)
            top.key, top.key_node = node.value, node

    def _scalar(self, event: Any) -> bool | int | float | str | None:
        text: str = event.value
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            self._refuse(
                "the text holds a character that cannot be stored (NUL or half a surrogate pair)",
                event.start_mark,
            )
        if event.style is not None:  # quoted, or a block
            return text
        value = _resolve(text)
        if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            self._refuse("the number is too large; quote it if it is text", event.start_mark)
        return value

    def _node(self, value: Any, event: Any) -> Node:
        return Node(value, self.origin, event.start_mark.line + 1, event.start_mark.column + 1)

    def _refuse(self, message: str, at: Any = None) -> None:
        """Note a problem; `at` is a Node or a mark of ruamel.yaml (which counts from 0)."""
        place = self.origin.label
        if isinstance(at, Node):
            place = at.place
        elif at is not None:
            place += f":{at.line + 1}:{at.column + 1}"
        keys: list[str | int] = []
        for collection in self.open:
            if isinstance(collection.items, list):
                keys.append(len(collection.items))
            elif collection.key is not None:
                keys.append(collection.key)
        self.problems.append(Problem(tuple(keys), message, place=place))

    def _syntax_error(self, text: str, error: Any) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is None:  # ReaderError: a character that YAML does not allow
            before = text[: getattr(error, "position", 0)]
            place = f"{self.origin.label}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
            self.problems.append(Problem((), "holds a control character", place=place))
            return
        if mark.line in self.alias_lines:
            return  # `*/5 * * * *`: the first alias of the line has been reported
        reason = " ".join(part for part in (error.problem, error.context) if part)
        hint = ""
        if "\\t" in reason:
            hint = "; indent with blanks, not with tabs"
        elif "alias" in reason or "cannot start any token" in reason:
            hint = f"; {_QUOTE_HINT}"
        self._refuse(f"is not valid YAML: {reason}{hint}", mark)


@attrs.define
class _Collection:
    """A list or mapping whose end has not come yet. In a mapping, `key` waits for its value."""

    event: Any
    items: list[Node] | dict[str, Node]
    key: str | None = None
    key_node: Node = Node(None, BUILT_IN)


def _resolve(text: str) -> bool | int | float | str | None:
    """Return what an unquoted scalar means in YAML 1.2's core schema (section 10.3.2 of the YAML
    specification).
    """
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text) if len(text) <= 20 else _INTEGER_LIMIT  # int() itself refuses thousands of digits
    if re.fullmatch(r"0o[0-7]+|0x[0-9a-fA-F]+", text):
        return int(text, 0)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text):
        return float(text.replace(".", ""))
    return text
