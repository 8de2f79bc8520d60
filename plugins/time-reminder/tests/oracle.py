"""What sessions should have been told of their relatives' counters, computed from their logs by the rules alone.

Shares no code with the plugin: calls are paired with their results, and counters and sight recomputed from arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from dsh_hookspecs import Event, SessionSpawned, ToolCall, ToolResult, UserMessage
from dsh_time.fold_set import decode_event
from dsh_time.folds import visible_message
from dsh_time.log import FILES, FileIo, Record, SessionHeader, read_header, scan

PLUGIN: Final = "dsh-time-reminder"
DEFAULTS: Final = {"toChildren": True, "toParents": False, "depth": 2, "note": ""}

Attributes = Mapping[str, Any]


@frozen
class Told:
    """A message that tells of changes: `seq` in its reader's log, and the lines inside the frame."""

    seq: int
    sender: str
    up_to: int
    lines: list[str]


@frozen
class Change:
    """A change of a counter: `seq` and `time` of the result that made it known, attributes before and after."""

    seq: int
    time: int
    action: str
    name: str
    before: Attributes | None
    after: Attributes | None

    def line(self, owner: str, *, down: bool, distance: int) -> str | None:
        """What a reader `distance` generations `down` from the owner, or up from it, has to be told."""

        def seen(counter: Attributes | None) -> bool:
            return bool(counter and counter["toChildren" if down else "toParents"] and distance <= counter["depth"])

        if seen(self.after):
            assert self.after is not None
            started = "started" if self.before is None else "restarted"
            words = {"start": started, "note": f"noted ({self.after['note']})", "scope": "rescoped", "reset": "reset"}
            return f"[counters] {owner}: {self.name} {words[self.action]}"
        if not seen(self.before):
            return None
        return f"[counters] {owner}: {self.name} {'removed' if self.after is None else 'no longer visible'}"


@frozen
class Session:
    """A session's log."""

    header: SessionHeader
    events: list[Event]

    def changes(self) -> list[Change]:
        """What calls of this log did to counters, in order."""
        called: dict[str, str] = {}
        counters: dict[str, Attributes] = {}
        found = []
        for event in self.events:
            data = event.data
            if isinstance(data, ToolCall):
                called.pop(data.id, None)
                if (data.owner, data.name) == (PLUGIN, "time_counter"):
                    called[data.id] = data.arguments
            elif isinstance(data, ToolResult) and not data.stands_in and data.result.id in called:
                arguments = json.loads(called.pop(data.result.id))
                action, name = arguments.pop("action"), arguments.pop("name", None)
                if data.result.is_error or action in ("list", "lapse"):
                    continue
                before = counters.get(name)
                after = None if action == "remove" else {**DEFAULTS, **(before or {}), **arguments}
                counters = {other: kept for other, kept in counters.items() if other != name}
                if after is not None:
                    counters[name] = after
                found.append(Change(event.seq, event.time, action, name, before, after))
        return found

    def told(self) -> list[Told]:
        """The messages that told of relatives' changes, without those that a fork copied."""
        return [
            Told(
                event.seq,
                event.data.source["senderSessionId"],  # type: ignore[arg-type]  # the checks fail on another type
                event.data.source["upTo"],  # type: ignore[arg-type]  # as above
                visible_message(event.data).text.split("\n")[1:-1],
            )
            for event in self.events[self.header.seed_length or 0 :]
            if isinstance(event.data, UserMessage)
            and (event.data.source.get("kind"), event.data.source.get("form")) == (PLUGIN, "relay")
        ]


@frozen
class Relation:
    """How a reader stands to an owner: so many generations `down` from it, or up. `since`: what it knew at birth."""

    down: bool
    distance: int
    since: int


def read(directory: Path, io: FileIo = FILES) -> Session:
    """A session from its log."""
    events: list[Event] = []

    def on_record(record: Record) -> None:
        if (event := decode_event(record, directory)) is not None:
            events.append(event)

    scan(directory, on_record, io=io)
    return Session(read_header(directory, io=io), events)


def read_all(directories: Iterable[Path], io: FileIo = FILES) -> dict[str, Session]:
    """Sessions by id."""
    return {directory.name: read(directory, io) for directory in directories}


def relations(sessions: Mapping[str, Session], reader: str) -> dict[str, Relation]:
    """The reader's relatives by id."""
    found: dict[str, Relation] = {}
    header = sessions[reader].header
    above, known = header.parent_session, header.ancestor_seqs or ()
    while above is not None:
        distance = len(found) + 1
        found[above] = Relation(True, distance, known[distance - 1])
        above = sessions[above].header.parent_session
    generation, distance = {reader}, 1
    while generation:
        generation = {name for name, session in sessions.items() if session.header.parent_session in generation}
        found |= {name: Relation(False, distance, -1) for name in generation}
        distance += 1
    return found


def check(sessions: Mapping[str, Session], *, at_rest: bool = True, one_clock: bool = False) -> int:
    """Check what every session was told; returns how many changes that was, each counted for each that was told.

    Each change that a session may see is in exactly one message to it, in order, and nothing else is. `at_rest`: nobody
    has anything to be told any more; else the newest changes may be missing. `one_clock`: all logs' times are of one
    clock that never stands still, so that they also say what was before a birth.
    """
    changes = {name: session.changes() for name, session in sessions.items()}
    count = 0
    for reader, session in sessions.items():
        family = relations(sessions, reader)
        told = session.told()
        assert {message.sender for message in told} <= family.keys()
        for owner, relation in family.items():
            _check_birth(sessions, reader, owner, relation)
            known = relation.since
            for message in told:
                if message.sender == owner:
                    assert known < message.up_to < len(sessions[owner].events)
                    news = _news(changes[owner], owner, relation, known, message.up_to)
                    assert news
                    _check_lines(message.lines, news)
                    known, count = message.up_to, count + len(news)
            if at_rest:
                assert _news(changes[owner], owner, relation, known, len(sessions[owner].events)) == []
            if one_clock and relation.down:
                born = session.header.created_at
                old = [change for change in changes[owner] if change.time < born]
                assert [change for change in changes[owner] if change.seq <= relation.since] == old
    return count


def _check_birth(sessions: Mapping[str, Session], reader: str, owner: str, relation: Relation) -> None:
    """What a child knows of its parent at birth ends with the event that announced it; of nobody is it the future."""
    events = sessions[owner].events
    assert relation.since < len(events)
    if relation.down and relation.distance == 1:
        announced = events[relation.since].data
        assert isinstance(announced, SessionSpawned)
        assert announced.id == reader


def _news(changes: list[Change], owner: str, relation: Relation, after: int, up_to: int) -> list[str]:
    lines = [
        change.line(owner, down=relation.down, distance=relation.distance)
        for change in changes
        if after < change.seq <= up_to
    ]
    return [line for line in lines if line is not None]


def _check_lines(lines: list[str], news: list[str]) -> None:
    """A message has its news, the last ones counted where they are more than 2 KiB."""
    if lines != news:
        shown = len(lines) - 1
        assert lines == [*news[:shown], f"+{len(news) - shown} more"]
        assert len("\n".join(news).encode()) > 2048 >= len("\n".join(lines).encode())
