"""Which relatives see a counter, and what each is told when it changes.

A relative is a descendant or an ancestor of the session that owns the counter, some generations away; siblings, their
descendants and forks are none.
"""

from __future__ import annotations

from typing import Final, Literal

from .counters import Counter
from .frames import plain_note
from .tools import Action

#: What the relative is to the owner.
Relation = Literal["ancestor", "descendant"]

_WORDS: Final = {"reset": "reset", "scope": "rescoped"}


def sees(counter: Counter, relation: Relation, distance: int) -> bool:
    """Whether a relative `distance` generations from the owner (1: direct parent or child) sees `counter`."""
    towards = counter.to_children if relation == "descendant" else counter.to_parents
    return towards and 1 <= distance <= counter.depth


def news(
    action: Action, before: Counter | None, after: Counter | None, relation: Relation, distance: int
) -> str | None:
    """What a relative is told of a change, as it stands after the counter's name; None: nothing, it never saw it.

    `before` and `after` are the counter before and after the call; None where there is none.
    """
    if after is not None and sees(after, relation, distance):
        if action == "start":
            return "started" if before is None else "restarted"
        return f"noted ({plain_note(after.note)})" if action == "note" else _WORDS[action]
    if before is None or not sees(before, relation, distance):
        return None
    return "removed" if after is None else "no longer visible"
