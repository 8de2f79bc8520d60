"""Parents and children: the sessions above and below one, and how a tool makes a child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from attrs import frozen

from ._events import TurnEndReason
from ._folds import SessionView


def _nothing() -> None:
    pass


@frozen
class Relative:
    """An ancestor or a descendant of a session, as its log stands now.

    `distance` is 1 for a direct parent or child. `live`: it is open in this process. `session` folds its log up to and
    including event `last_seq`. `since` is the event of its log after which it became a relative: for an ancestor the
    newest when the child was made, for a descendant -1.
    """

    session: SessionView
    relation: Literal["ancestor", "descendant"]
    distance: int
    live: bool
    last_seq: int
    since: int = -1
    #: Makes durable what `session` knows, so that it may be told elsewhere. Raises when the disk fails.
    sync: Callable[[], None] = _nothing


class Lineage(Protocol):
    """The relatives of a session. It is made of what the logs say: headers, and `session/spawned` events."""

    def ancestors(self, depth: int, /) -> Sequence[Relative]:
        """Return up to `depth` ancestors, nearest first. Ends where a log is missing or cannot be read."""
        ...

    def descendants(self, depth: int, /) -> Sequence[Relative]:
        """Return the descendants within `depth` generations by (distance, id). Missing logs are passed over."""
        ...


class NoRelatives:
    """The lineage of a session without parent and children."""

    def ancestors(self, _depth: int, /) -> Sequence[Relative]:
        """Return none."""
        return ()

    def descendants(self, _depth: int, /) -> Sequence[Relative]:
        """Return none."""
        return ()


@frozen
class ChildAnswer:
    """What a child session answered: its id, the text of its last answer, and how its turn ended."""

    session: str
    text: str
    reason: TurnEndReason


class Spawn(Protocol):
    """Makes a child session and runs it on a prompt to the end of its turn."""

    async def __call__(self, prompt: str, /, *, resume: str | None = None) -> ChildAnswer:
        """Return the child's answer. `resume` is the id of a child made earlier, which goes on instead.

        Raises ToolError when `resume` is no child of this session, or is busy. Cancelled with the parent's turn.
        """
        ...


async def no_spawn(_prompt: str, /, *, resume: str | None = None) -> ChildAnswer:
    """Stand in for `Spawn` where no host is."""
    raise RuntimeError(f"there is no host here that could spawn a child or resume {resume}")
