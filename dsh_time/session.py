"""A session open for writing: its log, and the states folded from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from attrs import frozen

from dsh_hookspecs import Event, Fold, FoldType, Payload, PluginError, SessionView, SurfaceReplace

from .errors import DamagedLog
from .fold_set import FoldSet
from .loadout import Loadout
from .log import FILES, Draft, FileIo, Log, Record, SessionHeader, clean_text, scan

_NO_PLUGINS: Final = Loadout()


class Session:
    """One session's log and folds. The log is locked as long as the session is open; close it, or use `with`.

    Every appended event is applied once to each fold that reads its type. No event list is kept.
    """

    def __init__(self, log: Log, folds: FoldSet, loadout: Loadout, io: FileIo = FILES) -> None:
        self.log = log
        self._io = io
        #: Logged time of the newest event, epoch ms.
        self.last_time = log.header.created_at
        self._folds = folds
        self._given = self._used = loadout
        self._failed: frozenset[str] = frozenset()

    @classmethod
    def create(
        cls,
        directory: Path,
        header: SessionHeader,
        loadout: Loadout = _NO_PLUGINS,
        *,
        io: FileIo = FILES,
        force: bool = False,
    ) -> Self:
        """Make a new session with the folds of `loadout`. Raises what `Log.create` raises."""
        states = FoldSet(directory, loadout.folds)
        return cls(Log.create(directory, header, io=io, force=force), states, loadout, io)

    @classmethod
    def open(
        cls,
        directory: Path,
        loadout: Loadout = _NO_PLUGINS,
        *,
        io: FileIo = FILES,
        force: bool = False,
    ) -> Self:
        """Open an existing session, folding its log in one pass.

        Raises what `Log.open` raises, and UnknownEventType and BadPayload.
        """
        states = FoldSet(directory, loadout.folds)
        last_time: int | None = None

        def on_record(record: Record) -> None:
            nonlocal last_time
            last_time = record.time
            states.apply_record(record)

        session = cls(Log.open(directory, on_record, io=io, force=force), states, loadout, io)
        if last_time is not None:
            session.last_time = last_time
        return session

    @property
    def id(self) -> str:
        """The session's id."""
        return self.log.header.id

    @property
    def header(self) -> SessionHeader:
        """The log's first line."""
        return self.log.header

    @property
    def loadout(self) -> Loadout:
        """The loadout whose folds are kept here, without the plugins whose folds failed."""
        return self._used

    @property
    def next_seq(self) -> int:
        """The `seq` that the next appended event gets."""
        return self.log.next_seq

    def fold(self, kind: type[FoldType], /) -> FoldType:
        """Return the newest state of a fold; KeyError when nobody registered `kind`."""
        return self._folds.state(kind)

    def append(self, payloads: Sequence[Payload], time: int, *, replaces: SurfaceReplace | None = None) -> list[Event]:
        """Write events in one batch, all with the logged time `time` (epoch ms), and fold them.

        Text that is no valid Unicode is repaired first (`lossy` is set then). Returns what was logged. When this
        raises, nothing was appended.
        """
        if not payloads:
            return []
        drafts, events = [], []
        for seq, payload in enumerate(payloads, self.next_seq):
            logged, data = encode_payload(payload)
            ignorable = isinstance(payload, PluginError)
            drafts.append(Draft(time=time, type=payload.type, data=data, surface_op=replaces, ignorable=ignorable))
            events.append(Event(seq, time, logged, replaces))
        self.log.append(drafts)
        self.last_time = time
        for event in events:
            self._folds.apply(event)
        return events

    def sync(self) -> None:
        """Make everything appended so far durable."""
        self.log.sync()

    def use(self, loadout: Loadout) -> tuple[Loadout, list[PluginError]]:
        """Keep the folds of `loadout` and no other plugin's; new ones are computed by one pass over the log.

        Returns the loadout without the plugins whose folds failed here, and those failures, each once. Raises LogError
        when a new fold cannot be given the whole log.
        """
        errors = self._take_failures()
        if loadout is not self._given:
            self._keep(loadout.folds)
            self._given = self._used = loadout
            self._failed = frozenset()
            errors += self._take_failures()
        return self._used, errors

    def _take_failures(self) -> list[PluginError]:
        """Turn off the plugins whose folds failed."""
        errors = []
        for failure in self._folds.take_failures():
            errors.append(self._given.failure(failure.owner, f"fold {failure.fold}", failure.error))
            self._failed |= {failure.owner}
            self._used = self._given.without(self._failed)
        return errors

    def _keep(self, folds: Sequence[tuple[str, type[Fold]]]) -> None:
        if missing := self._folds.keep(folds):
            states = FoldSet(self.log.directory, missing)
            verdict = scan(self.log.directory, on_record=states.apply_record, io=self._io)
            if verdict.end.next_seq != self.next_seq:
                reason = verdict.reason or "events that were written are gone"
                raise DamagedLog(self.log.path, verdict.end.offset, verdict.end.line, reason)
            self._folds.take_over(states)

    def close(self) -> None:
        """Give the log back. What was appended is on disk; what was not synced may be lost with the power."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@frozen
class View:
    """The part of a session that plugins see."""

    _session: SessionView

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.id

    def fold(self, kind: type[FoldType], /) -> FoldType:
        """Return the newest state of a fold; KeyError when nobody registered `kind`."""
        return self._session.fold(kind)


def encode_payload(payload: Payload) -> tuple[Payload, bytes]:
    """Return a payload and its JSON. Lone surrogates become U+FFFD, and `lossy` is set where the type has it (R19)."""
    try:
        return payload, msgspec.json.encode(payload)
    except UnicodeEncodeError:
        plain = _cleaned(msgspec.to_builtins(payload))
        if "lossy" in payload.__struct_fields__:
            plain["lossy"] = True
        logged = msgspec.convert(plain, type(payload))
        return logged, msgspec.json.encode(logged)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, dict):
        return {clean_text(key)[0]: _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
