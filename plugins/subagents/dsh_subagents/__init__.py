"""dsh-time plugin: the tool `subagent`, which hands a task to a child agent and returns its final answer."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen, validators
from msgspec import Meta, Struct

from dsh_hookspecs import Tool, ToolContext, ToolError, ToolOutput, hookimpl

#: How far down a child agent could ever be.
DEPTH_LIMIT = 8


class SubagentArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `subagent`."""

    prompt: Annotated[
        str,
        Meta(min_length=1, description="The whole task. The child sees nothing else of this conversation."),
    ]
    resume: Annotated[
        str | None,
        Meta(
            description="The session id of a child made earlier, which goes on with this prompt. Default: a new child."
        ),
    ] = None


@frozen(eq=False)
class Subagents:
    """The plugin. `max_depth`: generations below a session that a person started, 1 to 8; `timeout_s`: for one call."""

    max_depth: int = field(default=3, validator=[validators.ge(1), validators.le(DEPTH_LIMIT)])
    timeout_s: float = field(default=3600.0, validator=validators.gt(0))

    @hookimpl
    def register_tools(self) -> list[Tool]:
        """Offer the tool; several children may run side by side."""
        description = (
            "Hand a task to a child agent that works in a session of its own, and get its final answer. Several calls "
            "in one message run side by side."
        )
        return [Tool("subagent", description, SubagentArguments, self._run, parallel=True, timeout_s=self.timeout_s)]

    async def _run(self, arguments: SubagentArguments, context: ToolContext) -> ToolOutput:
        if len(context.lineage.ancestors(DEPTH_LIMIT)) >= self.max_depth:
            raise ToolError(f"No child agent can be made {self.max_depth} levels down. Do the task here.")
        child = await context.spawn(arguments.prompt, resume=arguments.resume)
        reason = child.reason
        if reason.kind == "completed":
            return ToolOutput(f"{child.text}\n\n[child session {child.session}]")
        details = ": ".join(part for part in (reason.plugin, reason.type, reason.message, reason.reason) if part)
        ended = f"{reason.kind} ({details})" if details else reason.kind
        said = f" It had said: {child.text}" if child.text else ""
        text = f"The child agent did not finish: {ended}.{said}\n\n[child session {child.session}]"
        return ToolOutput(text, is_error=True)
