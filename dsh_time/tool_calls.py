"""The tool calls of a step: which run together, what is logged before and after, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import frozen

from dsh_hookspecs import (
    TOOL_NOT_STARTED,
    Lineage,
    PluginError,
    SessionView,
    SideFile,
    Spawn,
    ToolCall,
    ToolCallBlock,
    ToolContext,
    ToolFailure,
    ToolResult,
)
from dsh_hookspecs.timefmt import instant_at

from .deployment import Limits
from .errors import LogError
from .loadout import Loadout
from .log import clean_text
from .recorder import Recorder
from .recovery import tool_result
from .tools import Outcome, PreparedCall, cut, prepare, run


@frozen
class ToolCalls:
    """Runs calls with one loadout. `wake` is given the sessions that results ask to wake, once those are durable."""

    recorder: Recorder
    view: SessionView
    lineage: Lineage
    spawn: Spawn
    loadout: Loadout
    limits: Limits
    wake: Callable[[Iterable[str]], None]

    async def run_step(
        self, turn: int, step: int, calls: Sequence[ToolCallBlock], cancelled: Callable[[], bool]
    ) -> list[ToolCallBlock]:
        """Run a step's calls, group by group; returns those that were not started because of a cancellation."""
        prepared = [(call, self._prepare(call.name, call.arguments)) for call in calls]
        started = 0
        for group in _groups(prepared):
            if cancelled():
                break
            await self._run_group(turn, step, group)
            started += len(group)
        return list(calls[started:])

    async def run_for_user(self, name: str, arguments: str) -> ToolResult:
        """Run a call that a user made. It is logged, but the model does not see it."""
        prepared = self._prepare(name, arguments)
        call_id = f"u{self.recorder.session.next_seq}"
        event = ToolCall(id=call_id, name=name, arguments=arguments, owner=_owner(prepared), issuer="user")
        (context,) = await self._start([event])
        result = await self._finish(context, await self._outcome(prepared, context))
        await self.recorder.sync()
        return result

    def refuse(self, turn: int, step: int, calls: Sequence[ToolCallBlock], reason: str) -> None:
        """Answer calls that will not start."""
        text, failure = f"{TOOL_NOT_STARTED}: {reason}", ToolFailure("NotStarted", TOOL_NOT_STARTED)
        ids = [self.recorder.message_id(offset) for offset in range(len(calls))]
        self.recorder.append(
            [
                tool_result(call.id, text, message_id=message_id, turn=turn, step=step, failure=failure)
                for call, message_id in zip(calls, ids, strict=True)
            ]
        )

    def _prepare(self, name: str, arguments: str) -> PreparedCall | Outcome:
        return prepare(self.loadout.tools, name, arguments, self.limits.argument_bytes)

    async def _run_group(self, turn: int, step: int, group: Sequence[_Call]) -> None:
        contexts = await self._start(
            [
                ToolCall(call.id, call.name, call.arguments, _owner(prepared), turn=turn, step=step)
                for call, prepared in group
            ]
        )
        if len(group) == 1:  # it needs no task of its own
            [(_, prepared)], [context] = group, contexts
            await self._finish(context, await self._outcome(prepared, context))
            return
        bodies = [
            asyncio.ensure_future(self._outcome(prepared, context))
            for (_, prepared), context in zip(group, contexts, strict=True)
        ]
        try:
            for body, context in zip(bodies, contexts, strict=True):
                await self._finish(context, await body)
        finally:
            for body in bodies:
                body.cancel()

    async def _start(self, calls: Sequence[ToolCall]) -> list[ToolContext]:
        """Make the calls durable before any body runs; their logged time is the bodies' `now`."""
        now = self.recorder.now_ms()
        self.recorder.append(calls, now)
        await self.recorder.sync()
        return [ToolContext(call, self.view, instant_at(now), self.lineage, self.spawn) for call in calls]

    async def _outcome(self, prepared: PreparedCall | Outcome, context: ToolContext) -> Outcome:
        if isinstance(prepared, Outcome):
            return prepared
        return await run(prepared, context, self.limits.tool_timeout_s)

    async def _finish(self, context: ToolContext, outcome: Outcome) -> ToolResult:
        errors: list[PluginError] = []
        output, call = outcome.output, context.call
        if outcome.ran:
            output = self.loadout.tool_result(context, output, errors.append)
        text, side_file, lossy = self._capped(output.text)
        result = tool_result(
            call.id,
            text,
            message_id=self.recorder.message_id(len(errors)),
            turn=call.turn,
            step=call.step,
            failure=outcome.failure,
            issuer=call.issuer,
            output=side_file,
            lossy=lossy,
        )
        self.recorder.append([*errors, result])
        if output.wake:
            await self.recorder.sync()
            self.wake(output.wake)
        return result

    def _capped(self, text: str) -> tuple[str, SideFile | None, bool]:
        """Return what the model reads of a tool's text, the file that holds all of it, and whether it was repaired."""
        text, lossy = clean_text(text)
        data = text.encode()
        if len(data) <= self.limits.tool_output_bytes:
            return text, None, lossy
        try:
            file = SideFile(file=self.recorder.session.log.write_side_file(data), bytes=len(data))
            rest = f"the whole output is in {file.file}"
        except LogError as error:
            file, rest = None, f"the rest could not be kept: {error}"
        shown = cut(text, self.limits.tool_output_bytes)
        return f"{shown}\n[cut after {len(shown.encode())} of {len(data)} bytes; {rest}]", file, lossy


_Call = tuple[ToolCallBlock, PreparedCall | Outcome]


def _groups(calls: Sequence[_Call]) -> Iterator[list[_Call]]:
    """Yield calls that start together: neighbours that may run side by side, or one that runs alone."""
    group: list[_Call] = []
    for call in calls:
        if group and not (_runs_beside(group[-1]) and _runs_beside(call)):
            yield group
            group = []
        group.append(call)
    if group:
        yield group


def _runs_beside(call: _Call) -> bool:
    """Whether a call may run together with its neighbours; one that has no body to run may."""
    prepared = call[1]
    return not isinstance(prepared, PreparedCall) or prepared.tool.tool.parallel


def _owner(prepared: PreparedCall | Outcome) -> str:
    return prepared.tool.owner if isinstance(prepared, PreparedCall) else ""
