"""Writes an agent's events to its session and tells listeners of them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from attrs import define, field

from dsh_hookspecs import Event, ModelDelta, Payload

from .session import Session
from .threads import in_thread

_logger: Final = logging.getLogger(__name__)

#: What listeners get: each logged event once it is written, and each piece of a model's stream as it arrives.
AgentEvent = Event | ModelDelta


@define
class OpenTurns:
    """How many turns are open in this process: a lone one waits for the disk inline, several do so in threads."""

    count: int = 0

    @property
    def several(self) -> bool:
        """Whether more than one is open."""
        return self.count > 1


@define
class Recorder:
    """The one place where an agent appends. `now_ms` gives epoch ms of the wall clock."""

    session: Session
    now_ms: Callable[[], int]
    open_turns: OpenTurns
    _listeners: list[Callable[[AgentEvent], None]] = field(factory=list, init=False)
    _untold: deque[AgentEvent] = field(factory=deque, init=False)

    def append(self, payloads: Sequence[Payload], time: int | None = None) -> None:
        """Log events in one batch with the time `time` (epoch ms, default: now), and tell the listeners."""
        if not payloads:
            return
        self.tell(*self.session.append(payloads, self.now_ms() if time is None else time))

    def message_id(self, offset: int = 0) -> str:
        """The id of a message that the event `offset` places after the next one brings into the session."""
        return f"m{self.session.next_seq + offset}"

    async def sync(self) -> None:
        """Wait until everything appended is durable."""
        if self.open_turns.several:
            await in_thread(self.session.sync)
        else:
            self.session.sync()

    def subscribe(self, listener: Callable[[AgentEvent], None]) -> Callable[[], None]:
        """Call `listener` with each event from now on; a failing one is logged. Returns what ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, *events: AgentEvent) -> None:
        """Pass events to the listeners, in order also where a listener causes further ones."""
        if not self._listeners:
            return
        waits = bool(self._untold)
        self._untold.extend(events)
        if waits:
            return
        try:
            while self._untold:
                for listener in tuple(self._listeners):
                    self._call(listener, self._untold[0])
                self._untold.popleft()
        finally:
            self._untold.clear()

    def _call(self, listener: Callable[[AgentEvent], None], event: AgentEvent) -> None:
        try:
            listener(event)
        except Exception:
            _logger.exception("A listener of session %s failed", self.session.id)
