"""Relatives of a session, read from their logs: live in this process, open in another, or at rest.

A parent is named by its child's header, a child by a `session/spawned` event of its parent and by its own header: both
have to agree, so a fork, which copies such events, has no relatives. Cycles and missing or damaged logs are survived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

from dsh_hookspecs import Fold, FoldType, Relative

from .errors import LogError, SessionNotFound
from .fold_set import FoldSet
from .folds import Children
from .log import FILES, FileIo, SessionHeader, Tail, read_header
from .session import Session, View
from .store import Store

Folds = Sequence[tuple[str, type[Fold]]]

#: Generations that a header's `ancestorSeqs` can reach; no tool makes a child so deep.
MAX_DEPTH: Final = 64


@define
class _AtRest:
    """A log of a session that is not open here, folded as far as it could be read so far."""

    header: SessionHeader
    tail: Tail
    folds: FoldSet
    start: Callable[[], FoldSet]
    last_seq: int = -1
    #: An event was met that must not be skipped and cannot be folded: nothing after it is read.
    stuck: bool = False

    @property
    def id(self) -> str:
        return self.header.id

    def fold(self, kind: type[FoldType], /) -> FoldType:
        return self.folds.state(kind)

    def refresh(self) -> None:
        """Fold what came since, as far as it can be read. Raises LogError where it cannot."""
        if not self.tail.changed():
            return
        records = self.tail.poll()
        if self.tail.restarted:
            self.folds, self.last_seq, self.stuck = self.start(), -1, False
        for record in () if self.stuck else records:
            self.stuck = True
            self.folds.apply_record(record)
            self.last_seq, self.stuck = record.seq, False


@define
class LineageReader:
    """Keeps the folds of the relatives of a process's sessions. `live` gives a session that is open here."""

    store: Store
    live: Callable[[str], Session | None]
    #: Plugins' folds, which relatives' logs are read for too.
    folds: Callable[[], Folds]
    #: What logs at rest are read and synced through.
    io: FileIo = FILES
    _at_rest: dict[str, _AtRest] = field(factory=dict, init=False)
    _read_for: Folds = field(default=(), init=False)

    def relatives_of(self, session: Session) -> SessionLineage:
        """Return the lineage of an open session; its logs are looked at when it is asked."""
        return SessionLineage(self, session)

    def find(self, session_id: str) -> Session | _AtRest | None:
        """Return a session as its log stands now; None when there is no log of it that can be read."""
        if (session := self.live(session_id)) is not None:
            self._at_rest.pop(session_id, None)
            return session
        if (folds := self.folds()) is not self._read_for:
            self._at_rest.clear()
            self._read_for = folds
        found = self._at_rest.get(session_id)
        try:
            if found is None:
                found = self._at_rest[session_id] = self._open(session_id)
            found.refresh()
        except SessionNotFound:
            self._at_rest.pop(session_id, None)
            return None
        except LogError:  # damaged, or not to be read for now: what was folded before stands
            return found
        return found

    def _open(self, session_id: str) -> _AtRest:
        directory = self.store.directory(session_id)

        def start() -> FoldSet:
            return FoldSet(directory, self._read_for, host_folds=[Children])

        return _AtRest(read_header(directory, io=self.io), Tail(directory, io=self.io), start(), start)


@frozen
class SessionLineage:
    """The relatives of one session; see `dsh_hookspecs.Lineage`."""

    _reader: LineageReader
    _session: Session

    def ancestors(self, depth: int, /) -> Sequence[Relative]:
        """Return up to `depth` ancestors, nearest first."""
        header = self._session.header
        known_at = header.ancestor_seqs or ()
        seen = {self._session.id}
        found: list[Relative] = []
        while header.parent_session is not None and header.parent_session not in seen and len(found) < depth:
            seen.add(header.parent_session)
            if (session := self._reader.find(header.parent_session)) is None:
                break
            distance = len(found) + 1
            since = known_at[distance - 1] if distance <= len(known_at) else -1
            found.append(_relative(session, "ancestor", distance, since))
            header = session.header
        return found

    def descendants(self, depth: int, /) -> Sequence[Relative]:
        """Return the descendants within `depth` generations by (distance, id)."""
        seen = {self._session.id}
        found: list[Relative] = []
        generation: list[Session | _AtRest] = [self._session]
        for distance in range(1, depth + 1):
            children = [child for parent in generation for child in self._children(parent, seen)]
            generation = sorted(children, key=lambda child: child.id)
            found += [_relative(child, "descendant", distance, -1) for child in generation]
        return found

    def _children(self, parent: Session | _AtRest, seen: set[str]) -> Iterator[Session | _AtRest]:
        for child_id in parent.fold(Children).ids:
            if child_id not in seen:
                seen.add(child_id)
                child = self._reader.find(child_id)
                if child is not None and child.header.parent_session == parent.id:
                    yield child


def _relative(session: Session | _AtRest, relation: str, distance: int, since: int) -> Relative:
    live = isinstance(session, Session)
    return Relative(
        session=View(session),
        relation="ancestor" if relation == "ancestor" else "descendant",
        distance=distance,
        live=live,
        last_seq=session.next_seq - 1 if isinstance(session, Session) else session.last_seq,
        since=since,
        sync=session.sync if isinstance(session, Session) else session.tail.sync,
    )
