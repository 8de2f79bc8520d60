"""Short ways to write events in tests."""

from collections.abc import Sequence
from typing import TypeVar

from dsh_hookspecs import (
    AssistantMessage,
    Block,
    ChatMessage,
    ContextMessage,
    Event,
    Fold,
    Payload,
    SteeringMessage,
    SurfaceReplace,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolFailure,
    ToolResult,
    ToolResultBlock,
    UserMessage,
)


def user(
    text: str, kind: str = "user", cls: type[UserMessage | SteeringMessage | ContextMessage] = UserMessage
) -> Payload:
    return cls(id=f"m-{text}", role="user", content=(TextBlock(text),), source={"kind": kind})


def assistant(text: str = "", *calls: str, turn: int = 1, step: int = 1, interrupted: bool = False) -> AssistantMessage:
    blocks: list[Block] = [TextBlock(text)] if text else []
    blocks += [ToolCallBlock(id=call, name="tool", arguments="{}") for call in calls]
    message = ChatMessage(id=f"a-{text}-{calls}", role="assistant", content=tuple(blocks), source={"kind": "model"})
    return AssistantMessage(turn=turn, step=step, message=message, interrupted=interrupted)


def call(call_id: str, owner: str = "plugin", *, by_user: bool = False) -> ToolCall:
    return ToolCall(id=call_id, name="tool", arguments="{}", owner=owner, issuer="user" if by_user else "model")


def result(call_id: str, text: str = "done", *, code: str = "", by_user: bool = False) -> ToolResult:
    block = ToolResultBlock(id=call_id, text=text, is_error=bool(code))
    message = ChatMessage(id=f"r-{call_id}-{text}", role="tool", content=(block,), source={"kind": "tool"})
    failure = ToolFailure(name="Error", code=code) if code else None
    return ToolResult(message=message, error=failure, issuer="user" if by_user else "model")


F = TypeVar("F", bound=Fold)


def folded(state: F, payloads: Sequence[Payload | tuple[Payload, SurfaceReplace]], start: int = 0) -> F:
    """Apply payloads whose logged times are 1000 ms apart; a pair is a payload with its `surfaceOp`."""
    for seq, item in enumerate(payloads, start):
        payload, replaces = item if isinstance(item, tuple) else (item, None)
        if isinstance(payload, state.reads):
            state = state.apply(Event(seq, seq * 1000, payload, replaces))
    return state
