"""What hooks are given, and what they return. The host stamps what comes back with source, id and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from attrs import field, frozen

from ._events import Scalar
from ._folds import SessionView
from ._lineage import Lineage, NoRelatives


@frozen
class Step:
    """A step that is about to request the model.

    `turn` and `number` count from 1. `now` is the step's one instant, aware, in UTC, whole milliseconds: everything
    logged while the step is prepared carries it. `previous_message` is the logged time of the newest model-visible
    message before this turn (None: there is none); it stays the same for the whole turn, and may lie after `now` when
    the clock was set back.
    """

    session: SessionView
    turn: int
    number: int
    now: datetime
    previous_message: datetime | None
    lineage: Lineage = field(factory=NoRelatives)


@frozen
class Rendered:
    """A section as the last request had it: its text, and turn and logged time of the event that last changed it."""

    text: str
    turn: int
    changed_at: datetime


def _nothing_rendered(_section: str) -> Rendered | None:
    return None


@frozen
class Prompt:
    """The system prompt that is being assembled. `step` is None when no agent is bound or it is idle."""

    step: Step | None
    _previous: Callable[[str], Rendered | None] = field(default=_nothing_rendered, alias="previous")

    def previous(self, section: str) -> Rendered | None:
        """Return how the last request had `section`, None if it had no such section."""
        return self._previous(section)


@frozen
class Section:
    """A part of the system prompt. Sections stand by (`order`, `name`); an empty `text` leaves the section out.

    Orders by custom: 0 the deployment's persona, 10 the time, 100 to 199 guidance on tools.
    """

    name: str
    order: int
    text: str


@frozen
class Message:
    """A message a plugin adds at the end of the request. Its role is `user`.

    `form` says what it is (`notice`, `relay`, …), `summary` is the one line a person sees of it. `data` joins the
    logged source and cannot hold `kind`, `form` or `summary`, which the host sets.
    """

    text: str
    form: str
    summary: str = ""
    data: Mapping[str, Scalar] = field(factory=dict)


@frozen
class Reject:
    """Ends the turn before the model is asked; `reason` is shown to the user."""

    reason: str
