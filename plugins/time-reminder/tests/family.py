"""A family of sessions in memory: logs, folds and lineage as the host gives them, without a host."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from attrs import define, field

from dsh_hookspecs import (
    ChatMessage,
    Event,
    FoldType,
    Message,
    Payload,
    Relative,
    Step,
    TextBlock,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolResult,
    ToolResultBlock,
    TurnStart,
    UserMessage,
)
from dsh_hookspecs.timefmt import instant_at
from dsh_time.messages import plugin_message
from dsh_time_reminder import TimeReminder
from dsh_time_reminder.fold import PLUGIN, TimeState

#: 2026-07-14T08:30:00Z.
START_MS = 1_784_017_800_000

T = TypeVar("T")


def finished(body: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that never waits returns."""
    try:
        body.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("it waited")


@define(eq=False)
class Member:
    """A session: its log, folded as it grows. `since` has the last event of each ancestor's log at its birth."""

    id: str
    parent: Member | None = None
    since: dict[str, int] = field(factory=dict)
    children: list[Member] = field(factory=list)
    live: bool = True
    events: list[Event] = field(factory=list)
    state: TimeState = field(factory=TimeState)
    synced: int = -1

    def log(self, *payloads: Payload, at: int = START_MS) -> None:
        for payload in payloads:
            event = Event(len(self.events), at, payload)
            self.events.append(event)
            if isinstance(payload, TimeState.reads):
                self.state = self.state.apply(event)

    def fold(self, kind: type[FoldType], /) -> FoldType:
        assert isinstance(self.state, kind)
        return self.state

    def sync(self) -> None:
        self.synced = len(self.events) - 1

    # Lineage

    def ancestors(self, depth: int, /) -> list[Relative]:
        found: list[Relative] = []
        member = self.parent
        while member is not None and len(found) < depth:
            since = self.since[member.id]
            found.append(member._relative("ancestor", len(found) + 1, since))
            member = member.parent
        return found

    def descendants(self, depth: int, /) -> list[Relative]:
        found: list[Relative] = []
        members, distance = self.children, 1
        while members and distance <= depth:
            found += [
                member._relative("descendant", distance, -1) for member in sorted(members, key=lambda one: one.id)
            ]
            members, distance = [child for member in members for child in member.children], distance + 1
        return found

    def _relative(self, relation: Any, distance: int, since: int) -> Relative:
        return Relative(self, relation, distance, self.live, len(self.events) - 1, since, self.sync)


@define(eq=False)
class Family:
    """Sessions by id, served by one plugin, at the instant `now` (epoch ms)."""

    plugin: TimeReminder = field(factory=TimeReminder)
    now: int = START_MS
    members: dict[str, Member] = field(factory=dict)
    woken: list[str] = field(factory=list)

    def add(self, *ids: str, parent: str | None = None) -> Member:
        """Make sessions; each after the first is the child of the one before."""
        for member_id in ids:
            above = None if parent is None else self.members[parent]
            member = Member(member_id, above)
            while above is not None:
                member.since[above.id] = len(above.events) - 1
                above = above.parent
            if member.parent is not None:
                member.parent.children.append(member)
            self.members[member_id] = member
            parent = member_id
        return self.members[ids[-1]]

    def call(self, session: str, tool: str = "time_counter", owner: str = PLUGIN, **arguments: Any) -> str:
        """Call a tool as the host does: log the call, run the body, log the result. Returns the result's text.

        Every answer begins with the current time; of a failed call it is left out here.
        """
        member = self.members[session]
        call = ToolCall(f"c{len(member.events)}", tool, json.dumps(arguments), owner)
        member.log(call, at=self.now)
        found = next(found for found in self.plugin.register_tools() if found.name == tool)
        context = ToolContext(call, member, instant_at(self.now), member)
        try:
            kind: Callable[..., Any] = found.arguments
            names = {"toChildren": "to_children", "toParents": "to_parents"}
            given = kind(**{names.get(key, key): value for key, value in arguments.items()})
            body: Any = found.run(given, context)
            output = finished(body)
            text, failed = (output, False) if isinstance(output, str) else (output.text, False)
            self.woken += output.wake if isinstance(output, ToolOutput) else ()
        except ToolError as error:
            text, failed = str(error), True
        block = ToolResultBlock(call.id, text, failed)
        member.log(ToolResult(ChatMessage(f"m{len(member.events)}", "tool", (block,), {"kind": "tool"})), at=self.now)
        clock, _, rest = text.partition("\n")
        assert clock.startswith("Current time: ")
        return f"failed: {rest}" if failed else text

    def step(self, session: str, number: int = 1, *, woken: bool = False, logged: bool = True) -> Sequence[Message]:
        """Prepare a step as the host does; `logged` False: the process died before the step's messages were."""
        member = self.members[session]
        turn = member.state.turn + (number == 1)
        if number == 1 and not woken:
            member.log(TurnStart(turn), at=self.now)
        step = Step(member, turn, number, instant_at(self.now), None, member)
        messages = self.plugin.before_step(step)
        if woken and messages:
            member.log(TurnStart(turn), at=self.now)
        if logged:
            for message in messages:
                member.log(plugin_message(PLUGIN, message, f"m{len(member.events)}"), at=self.now)
        return messages

    def news(self, session: str, **how: Any) -> list[list[str]]:
        """The lines of each notice that a step of the session gives, without the frame."""
        messages = self.step(session, **how)
        return [message.text.splitlines()[1:-1] for message in messages if message.form == "relay"]

    def reading(self, session: str, number: int = 1) -> str:
        """The text of the reading that a step of the session gives; empty when it gives none."""
        texts = [message.text for message in self.step(session, number) if message.form == "notice"]
        return "".join(texts)


def user(text: str = "…", **source: Any) -> UserMessage:
    return UserMessage("m", "user", (TextBlock(text),), {"kind": "user", **source})
