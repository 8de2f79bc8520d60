"""Folds: state computed from the log, and the view of a session that hands them out."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, TypeVar

from ._events import Event, Payload


class Fold(Protocol):
    """State and transition in one frozen class; `cls()` is the state before the first event.

    `apply` is called once for each event whose payload's type is in `reads`, in `seq` order, and returns the next state
    (itself when nothing changed). It never raises, writes, or reads a clock. What it holds must stay small: the host
    keeps states, never events, so that a step costs the same at event 100 and at event 100,000.
    """

    reads: ClassVar[tuple[type[Payload], ...]]

    def __init__(self) -> None: ...

    def apply(self, event: Event, /) -> Self:
        """Return the state after `event`."""
        ...


FoldType = TypeVar("FoldType", bound=Fold)


class SessionView(Protocol):
    """What a plugin may know of a session."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...

    def fold(self, kind: type[FoldType], /) -> FoldType:
        """Return the newest state of a registered fold; KeyError when nobody registered `kind`."""
        ...
