"""Keeps the states of a session's folds: decodes what some fold reads, and contains a plugin's fold that fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from attrs import frozen

from dsh_hookspecs import (
    MODEL_VISIBLE,
    PAYLOADS,
    AssistantMessage,
    ChatMessage,
    Event,
    Fold,
    FoldType,
    ModelVisible,
    SurfaceReplace,
    TextBlock,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
)

from .errors import BadPayload, UnknownEventType
from .folds import HOST_FOLDS, visible_message
from .log import Record

HOST: Final = ""

_DECODERS: Final = {name: msgspec.json.Decoder(cls) for name, cls in PAYLOADS.items()}


@frozen
class FoldFailure:
    """A plugin's fold raised; all folds of that plugin are gone for this session."""

    owner: str
    fold: str
    error: Exception


def decode_event(record: Record, path: Path) -> Event | None:
    """Return the record as an event; None for an ignorable one of an unknown type. `path` is named in errors.

    Raises UnknownEventType or BadPayload, which name type and seq.
    """
    decoder = _DECODERS.get(record.type)
    if decoder is None:
        if record.ignorable:
            return None
        raise UnknownEventType(path, record.type, record.seq)
    try:
        data = decoder.decode(record.data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadPayload(path, record.type, record.seq, str(error)) from error
    if isinstance(data, MODEL_VISIBLE) and (reason := _misfit(visible_message(data), data)):
        raise BadPayload(path, record.type, record.seq, reason)
    replaces = record.surface_op if isinstance(record.surface_op, SurfaceReplace) else None
    return Event(record.seq, record.time, data, replaces)


def _misfit(message: ChatMessage, data: ModelVisible) -> str:
    """Why a message holds what its event cannot bring; empty when all is well. The types alone do not tell."""
    kinds = tuple(type(block) for block in message.content)
    if isinstance(data, ToolResult):
        role, fits = "tool", kinds == (ToolResultBlock,)
    elif isinstance(data, AssistantMessage):
        calls = [block.id for block in message.content if isinstance(block, ToolCallBlock)]
        role, fits = "assistant", ToolResultBlock not in kinds and len(set(calls)) == len(calls)
    else:
        role, fits = "user", set(kinds) <= {TextBlock}
    return (
        ""
        if fits and message.role == role
        else f"its message is not one of role {role!r} with the blocks that belong in it"
    )


class FoldSet:
    """The states of the host's folds and of `folds`, given as (owner, fold class). `path` is the log, for errors."""

    def __init__(
        self,
        path: Path,
        folds: Iterable[tuple[str, type[Fold]]] = (),
        *,
        host_folds: Iterable[type[Fold]] = HOST_FOLDS,
    ) -> None:
        self._path = path
        self._states: dict[type[Fold], Any] = {}
        self._owners: dict[type[Fold], str] = {}
        self._readers: dict[str, tuple[type[Fold], ...]] = {}
        self._failures: list[FoldFailure] = []
        for kind in host_folds:
            self._add(HOST, kind, kind())
        for owner, kind in folds:
            self._start(owner, kind)

    def state(self, kind: type[FoldType]) -> FoldType:
        """Return the newest state; KeyError when nobody registered `kind`."""
        state: FoldType = self._states[kind]
        return state

    def take_failures(self) -> list[FoldFailure]:
        """Return plugins' folds that failed since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def apply_record(self, record: Record) -> None:
        """Apply one line of a log. Raises UnknownEventType and BadPayload."""
        if record.type in self._readers or record.type not in PAYLOADS:
            event = decode_event(record, self._path)
            if event is not None:
                self.apply(event)

    def apply(self, event: Event) -> None:
        """Apply one event to each fold that reads its type."""
        for kind in self._readers.get(event.data.type, ()):
            if (state := self._states.get(kind)) is None:
                continue  # another fold of its plugin has just failed on this event
            try:
                applied = state.apply(event)
                if not isinstance(applied, kind):
                    raise TypeError(f"apply returned {type(applied).__name__}, not {kind.__qualname__}")
                self._states[kind] = applied
            except Exception as error:
                if self._owners[kind] == HOST:
                    raise
                self._fail(self._owners[kind], kind, error)

    def keep(self, folds: Sequence[tuple[str, type[Fold]]]) -> list[tuple[str, type[Fold]]]:
        """Forget plugins' folds that are not among `folds`, and return those of `folds` that are not here."""
        owners = {kind: owner for owner, kind in folds}
        self._remove([kind for kind, owner in self._owners.items() if owner != HOST and kind not in owners])
        for kind in owners.keys() & self._states.keys():
            self._owners[kind] = owners[kind]
        return [(owner, kind) for owner, kind in folds if kind not in self._states]

    def take_over(self, other: FoldSet) -> None:
        """Add the folds of `other` that are not here, with their states and failures."""
        for kind, state in other._states.items():
            if kind not in self._states:
                self._add(other._owners[kind], kind, state)
        self._failures.extend(other._failures)

    def _start(self, owner: str, kind: type[Fold]) -> None:
        if owner in {failure.owner for failure in self._failures}:
            return
        try:
            self._add(owner, kind, kind())
        except Exception as error:
            self._fail(owner, kind, error)

    def _add(self, owner: str, kind: type[Fold], state: Fold) -> None:
        self._states[kind], self._owners[kind] = state, owner
        self._index()

    def _index(self) -> None:
        readers: dict[str, list[type[Fold]]] = {}
        for kind in self._states:
            for payload in kind.reads:
                readers.setdefault(payload.type, []).append(kind)
        self._readers = {name: tuple(kinds) for name, kinds in readers.items()}

    def _fail(self, owner: str, kind: type[Fold], error: Exception) -> None:
        self._failures.append(FoldFailure(owner, kind.__qualname__, error))
        self._remove([kind for kind, name in self._owners.items() if name == owner])

    def _remove(self, kinds: Iterable[type[Fold]]) -> None:
        for kind in kinds:
            del self._states[kind], self._owners[kind]
        self._index()
