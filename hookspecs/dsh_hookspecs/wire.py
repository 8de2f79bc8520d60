"""What providers share to turn a session's messages into their API's bytes, each message once.

Only provider plugins import this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import takewhile
from operator import is_
from typing import Final, Generic, TypeVar

import msgspec
from attrs import define, field

from ._events import ChatMessage, ToolSchema

State = TypeVar("State")

#: How many sessions' histories a model keeps converted; another one is converted anew.
_KEPT_HISTORIES: Final = 16
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@define(eq=False)
class History(Generic[State]):
    """A session's messages and their wire bytes. It grows in place: use it before control returns to the event loop.

    `ends[i]` is where message `i` ends in `data`, and `states[i]` the converter's state after it.
    """

    start: State
    messages: list[ChatMessage] = field(factory=list)
    data: bytearray = field(factory=bytearray)
    ends: list[int] = field(factory=list)
    states: list[State] = field(factory=list)

    @property
    def state(self) -> State:
        """The converter's state after the last message."""
        return self.states[-1] if self.states else self.start

    def cut(self, length: int) -> None:
        """Forget all but the first `length` messages."""
        del self.data[self.ends[length - 1] if length else 0 :]
        del self.messages[length:], self.ends[length:], self.states[length:]


@define(eq=False)
class Histories(Generic[State]):
    """The converted histories of the sessions that one model serves, the most recently used last.

    `convert(state, message)` gives the bytes that `message` adds and the state after it, from nothing else.
    """

    convert: Callable[[State, ChatMessage], tuple[bytes, State]]
    _kept: list[History[State]] = field(factory=list, init=False)

    def of(self, messages: Sequence[ChatMessage], start: State) -> History[State]:
        """The history of exactly `messages`, which are not empty, converted from `start`.

        A session is known by its first message. What it shares with its last call, object for object, is not
        converted again, as long as `start` stays.
        """
        history = next((h for h in self._kept if h.messages[0] is messages[0]), None)
        if history is None:
            history = History(start)
        else:
            self._kept.remove(history)
        if history.start != start:
            history.cut(0)
            history.start = start
        shared = sum(1 for _ in takewhile(bool, map(is_, history.messages, messages)))
        if shared < len(history.messages):
            history.cut(shared)
        for message in messages[shared:]:
            piece, state = self.convert(history.state, message)
            history.data += piece
            history.messages.append(message)
            history.ends.append(len(history.data))
            history.states.append(state)
        self._kept = [*self._kept[1 - _KEPT_HISTORIES :], history]
        return history


def wire_name(name: str) -> str:
    """`name` if the APIs take it as a tool's name, else one made of it, the same each time and for no other name."""
    if _NAME.fullmatch(name):
        return name
    mark = blake2b(name.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name[:55])}_{mark}"


def tool_names(tools: Sequence[ToolSchema]) -> Mapping[str, str]:
    """The tools' own names by the names that stand for them on the wire."""
    return {wire_name(tool.name): tool.name for tool in tools}


def object_arguments(arguments: str) -> str:
    """`arguments` if it is a JSON object, as the APIs demand of a past call, else an object that quotes it."""
    if not arguments.strip():
        return "{}"
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return msgspec.json.encode({"invalid_arguments": arguments}).decode()


def object_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """`schema` with the object it refers to at its top, where the APIs look for `"type": "object"`."""
    reference, definitions = schema.get("$ref"), schema.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return schema
    name = reference.removeprefix("#/$defs/")
    top = definitions.get(name)
    if not isinstance(top, dict):
        return schema
    others = {key: value for key, value in definitions.items() if key != name}
    recursive = reference.encode() in msgspec.json.encode(definitions)
    kept = definitions if recursive else others
    return {**top, "$defs": kept} if kept else top
