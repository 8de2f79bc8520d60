"""The relatives' side of counters: which of theirs this session sees, and what it has not been told of them.

Nothing is sent. A session reads its relatives' logs, and its own log says up to where it was told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dsh_hookspecs import Lineage, Message, Relative, Scalar, ToolError

from .counters import MAX_DEPTH, Counters, NoSuchCounter, checked_name
from .fold import RELAY, TimeState
from .journal import Change
from .reading import ShownCounter, notice_text
from .visibility import Relation, sees

if TYPE_CHECKING:
    from .tools import TimeCounterArguments

#: Relatives that one step tells of; the others' news waits for the next step.
MAX_RELAYS: Final = 64

_log: Final = logging.getLogger(__name__)


def relatives(lineage: Lineage) -> list[Relative]:
    """All relatives near enough to see a counter, by (distance, session id).

    Passes over a session that is open here since before this plugin was: its counters are known from its next step on.
    """
    found = filter(_is_folded, [*lineage.ancestors(MAX_DEPTH), *lineage.descendants(MAX_DEPTH)])
    return sorted(found, key=lambda relative: (relative.distance, relative.session.id))


def _is_folded(relative: Relative) -> bool:
    try:
        relative.session.fold(TimeState)
    except KeyError:
        return False
    return True


def _to_owner(relative: Relative) -> Relation:
    """What this session is to a relative that owns counters."""
    return "descendant" if relative.relation == "ancestor" else "ancestor"


def seen(near: Sequence[Relative]) -> list[ShownCounter]:
    """The relatives' counters that this session sees, by (distance, session id, name)."""
    return [
        ShownCounter(name, counter, relative.session.id, at_rest=not relative.live)
        for relative in near
        for name, counter in sorted(relative.session.fold(TimeState).counters.items())
        if sees(counter, _to_owner(relative), relative.distance)
    ]


def relays(near: Sequence[Relative], told: Mapping[str, int]) -> Iterator[Message]:
    """One message for each relative that has news for a session that was `told` so far.

    A relative whose log cannot be made durable is passed over, with a warning: its news may not be true tomorrow.
    """
    for relative in near:
        sender = relative.session.id
        known = max(told.get(sender, -1), relative.since)
        journal, place = relative.session.fold(TimeState).journal, (_to_owner(relative), relative.distance)
        changes = journal.news(*place, known)
        if not changes:
            continue
        try:
            relative.sync()
        except Exception as error:  # whatever its disk says: this session's own step goes on
            _log.warning("Counters of session %s are not told: its log cannot be made durable: %s", sender, error)
            continue
        # Not the newest event: lines of a batch that fails in another process may be seen and then taken back, and
        # their numbers given to others. A result ends its batch, so one that can be read stays.
        data: dict[str, Scalar] = {"senderSessionId": sender, "upTo": journal.newest(*place)}
        yield Message(notice_text(sender, changes), RELAY, data=data)


def to_wake(near: Sequence[Relative], change: Change) -> tuple[str, ...]:
    """The live relatives to which a change of this session is news."""
    return tuple(
        relative.session.id
        for relative in near
        if relative.live and change.news(relative.relation, relative.distance) is not None
    )


def find(given: str, session: str, own: Counters, others: Sequence[ShownCounter]) -> ShownCounter:
    """The counter that `name` or `name@session` means to the session of that id: its own, else the only one it sees.

    Raises ToolError when there is none, or several.
    """
    bare, at, owner = given.partition("@")
    name = checked_name(bare)
    if name in own and (not at or owner == session):
        return ShownCounter(name, own[name])
    found = [shown for shown in others if shown.name == name and (not at or shown.session == owner)]
    if not found:
        raise ToolError(f"no counter {name!r} is visible here{' in that session' if at else ''}; {_LIST}")
    if len(found) > 1:
        choices = ", ".join(f"{name}@{shown.session}" for shown in found)
        raise ToolError(f"several sessions have a counter {name!r}; give one of these as name: {choices}")
    return found[0]


_LIST: Final = "time_counter with action list shows those that are"


def owned_elsewhere(error: ToolError, arguments: TimeCounterArguments, others: Sequence[ShownCounter]) -> ToolError:
    """Why a change failed: `error`, or that the counter belongs to a relative, by name."""
    given = arguments.name or ""
    if not (isinstance(error, NoSuchCounter) or "@" in given):
        return error
    bare, at, owner = given.partition("@")
    name = checked_name(bare)
    owners = [shown.session for shown in others if shown.name == name and (not at or shown.session == owner)]
    if not owners:
        return error
    whose = " and ".join(f"session {session}" for session in owners)
    return ToolError(f"the counter {name!r} belongs to {whose}; only its owner changes it")
