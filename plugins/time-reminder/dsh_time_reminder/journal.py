"""The changes of a session's counters, kept so that its relatives can look up what they have not been told."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Final

from attrs import frozen

from .counters import MAX_DEPTH, Counter, Counters, checked_name
from .tools import Action, TimeCounterArguments
from .visibility import Relation, news

#: What a relative can be to the owner, and how far away it can be and still see a counter.
_RELATIONS: Final[tuple[Relation, ...]] = ("ancestor", "descendant")
_PLACES: Final = tuple((relation, distance) for relation in _RELATIONS for distance in range(1, MAX_DEPTH + 1))


@frozen
class Change:
    """What one call did to the counter `name`; None: there is none before or after."""

    action: Action
    name: str
    before: Counter | None
    after: Counter | None

    def news(self, relation: Relation, distance: int) -> str | None:
        """What a relative is told of it; see `visibility.news`."""
        return news(self.action, self.before, self.after, relation, distance)


def change_of(arguments: TimeCounterArguments, before: Counters, after: Counters) -> Change | None:
    """The change that a successful call made of `before` and `after`, None for one that only reads."""
    if arguments.name is None or arguments.action == "lapse":
        return None
    name = checked_name(arguments.name)
    return Change(arguments.action, name, before.get(name), after.get(name))


class Journal:
    """Changes in the order of the log, each with the `seq` of the event that made it known.

    Never changes itself: the states of a fold share one list, so that adding costs O(1).
    """

    __slots__ = ("_entries", "_length", "_newest")

    def __init__(
        self, entries: list[tuple[int, Change]] | None = None, newest: Mapping[tuple[Relation, int], int] | None = None
    ) -> None:
        """Take over `entries`; `newest` says which is the newest that concerns relatives in each place."""
        self._entries = [] if entries is None else entries
        self._length = len(self._entries)
        self._newest = {} if newest is None else newest

    def added(self, seq: int, change: Change) -> Journal:
        """The journal with `change` at its end."""
        entries = self._entries if len(self._entries) == self._length else self._entries[: self._length]
        entries.append((seq, change))
        newest = {place: seq for place in _PLACES if change.news(*place) is not None}
        return Journal(entries, {**self._newest, **newest})

    def newest(self, relation: Relation, distance: int) -> int:
        """The event of the newest change that is news to a relative, -1 when there is none."""
        return self._newest.get((relation, distance), -1)

    def news(self, relation: Relation, distance: int, after: int) -> list[tuple[str, str]]:
        """What a relative is told of changes past event `after`: names and words. O(1) when it is nothing."""
        if self.newest(relation, distance) <= after:
            return []
        first = bisect_right(self._entries, after, hi=self._length, key=itemgetter(0))
        told = ((change.name, change.news(relation, distance)) for _, change in self._entries[first : self._length])
        return [(name, words) for name, words in told if words is not None]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Journal):
            return NotImplemented
        return self._entries[: self._length] == other._entries[: other._length]

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"Journal({self._entries[: self._length]!r})"
