"""What a listing says of a session, at a cost that does not grow with its log. Reading never writes."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec
from attrs import asdict, define, frozen

from dsh_hookspecs import TurnEnd, UserMessage

from .errors import DamagedLog, LogError
from .fold_set import decode_event
from .log import Record, SessionHeader, lock_holder, newest_records, read_header, scan
from .structure import camel_case

#: How many events from the start are looked at: they hold the first prompt, and short logs are checked whole.
_FIRST_EVENTS: Final = 64


@frozen
class SessionSummary:
    """One session in a listing.

    `created_at` and `last_time` are epoch ms. `turns` is the number of the newest turn. Both, like everything else,
    are None or empty when damage hides them. `title` is the first prompt as it was given.

    `state`: `locked`, somebody writes it; `open-turn`, nobody does, but its last turn did not end (a crash; the next
    resume ends it); `damaged`, the ends of the log show something that keeps it from being continued; else `ok`, which
    says nothing of the middle of a long log. `reason` says more.
    """

    id: str
    created_at: int | None = None
    last_time: int | None = None
    turns: int | None = None
    title: str = ""
    state: Literal["ok", "open-turn", "locked", "damaged"] = "ok"
    reason: str = ""
    parent_session: str | None = None
    forked_from: str | None = None

    def as_json(self) -> dict[str, object]:
        """Plain data with camelCase keys."""
        return {camel_case(name): value for name, value in asdict(self).items()}


def summarize(directory: Path) -> SessionSummary:
    """Look at both ends of a session's log. What is wrong with it is in the summary: no LogError is raised."""
    try:
        header = read_header(directory)
    except LogError as error:
        return SessionSummary(directory.name, state="damaged", reason=_reason(error))
    beginning, end = _Beginning(directory), _End()
    reason = ""
    try:
        beginning.read()
        end.read(directory)
    except LogError as error:
        reason = _reason(error)
    return _summary(directory, header, beginning, end, reason)


def _summary(directory: Path, header: SessionHeader, beginning: _Beginning, end: _End, reason: str) -> SessionSummary:
    state: Literal["ok", "open-turn", "locked", "damaged"] = "ok"
    if reason:
        state = "damaged"
    elif holder := lock_holder(directory):
        state = "locked"
        reason = f"process {holder.pid} on {holder.host} writes it" if holder.pid else "another process writes it"
    elif end.open:
        state, reason = "open-turn", f"turn {end.turn} did not end"
    return SessionSummary(
        id=header.id,
        created_at=header.created_at,
        last_time=end.last_time if end.last_time is not None else header.created_at,
        turns=end.turn,
        title=beginning.title,
        state=state,
        reason=reason,
        parent_session=header.parent_session,
        forked_from=header.forked_from,
    )


def _reason(error: LogError) -> str:
    return f"line {error.line}: {error.reason}" if isinstance(error, DamagedLog) else str(error)


class _Enough(Exception):
    pass


@define
class _Beginning:
    """The first events of a log: the first prompt, and what is wrong with them."""

    directory: Path
    title: str = ""
    _seen: int = 0

    def read(self) -> None:
        """Raises LogError when the log cannot be continued because of these events."""
        try:
            verdict = scan(self.directory, on_record=self._take)
        except _Enough:
            return
        if error := verdict.error():
            raise error

    def _take(self, record: Record) -> None:
        if self._seen == _FIRST_EVENTS:
            raise _Enough
        self._seen += 1
        event = decode_event(record, self.directory)
        if not self.title and event and isinstance(event.data, UserMessage) and event.data.source.get("kind") == "user":
            self.title = event.data.text


class _Turn(msgspec.Struct):
    turn: int | None = None


@define
class _End:
    """The last events of a log: when the last was logged, and whether the newest turn ended."""

    last_time: int | None = None
    turn: int | None = None
    open: bool = False

    def read(self, directory: Path) -> None:
        """Raises LogError."""
        records = newest_records(directory)
        try:
            for record in records:
                if self.last_time is None:
                    self.last_time = record.time
                if self._take(record):
                    return
        finally:
            records.close()
        self.turn = 0

    def _take(self, record: Record) -> bool:
        try:
            turn = msgspec.json.decode(record.data, type=_Turn).turn
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False
        if turn is None:
            return False
        self.turn, self.open = turn, record.type != TurnEnd.type
        return True
