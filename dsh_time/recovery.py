"""Crash repair: closes a turn that the log holds open. It never removes anything."""

from __future__ import annotations

from typing import Final, Literal

from dsh_hookspecs import (
    TOOL_NOT_STARTED,
    TOOL_OUTCOME_UNKNOWN,
    ChatMessage,
    InboxSpliced,
    Payload,
    SideFile,
    StepEnd,
    ToolFailure,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnEndReason,
)

from .folds import Inbox, Turns

NOT_STARTED: Final = (
    f"{TOOL_NOT_STARTED}: the harness stopped before this call started. It did not run. "
    "Call again if it is still needed."
)
OUTCOME_UNKNOWN: Final = (
    f"{TOOL_OUTCOME_UNKNOWN}: the harness stopped while this call ran. It may have done all of its work, a part or "
    "nothing. Call again only if doing it twice is harmless; else check first, or ask."
)


def closing_events(turns: Turns, inbox: Inbox, next_seq: int) -> list[Payload]:
    """Return what closes the open turn, if one is: a result per unanswered call, `step/end`, `turn/end`.

    What the turn had claimed from the inbox and not logged goes back there.
    """
    if not turns.open:
        return []
    events: list[Payload] = []
    for call in turns.unanswered if turns.step_open else ():
        started = call.id in turns.started
        code = TOOL_OUTCOME_UNKNOWN if started else TOOL_NOT_STARTED
        events.append(
            tool_result(
                call.id,
                OUTCOME_UNKNOWN if started else NOT_STARTED,
                message_id=f"m{next_seq + len(events)}",
                turn=turns.turn,
                step=turns.step,
                failure=ToolFailure(name="Interrupted", code=code),
            )
        )
    if turns.step_open:
        events.append(StepEnd(turn=turns.turn, step=turns.step))
    events.append(TurnEnd(turn=turns.turn, reason=TurnEndReason(kind="interrupted")))
    prompts = tuple(entry for entry in inbox.claimed if entry.delivery == "followup")
    others = tuple(entry for entry in inbox.claimed if entry.delivery != "followup")
    back = InboxSpliced("next-turn", 0, inserted=prompts), InboxSpliced("next-step", 0, inserted=others)
    return events + [splice for splice in back if splice.inserted]


def cancelled_inbox(inbox: Inbox) -> list[Payload]:
    """Return what empties the inbox that a copy of a session came with: it waited for the original."""
    splices = (
        InboxSpliced(target="next-turn", start=0, removed_count=len(inbox.next_turn), outcome="canceled"),
        InboxSpliced(target="next-step", start=0, removed_count=len(inbox.next_step), outcome="canceled"),
    )
    return [splice for splice in splices if splice.removed_count]


def tool_result(
    call: str,
    text: str,
    *,
    message_id: str,
    turn: int | None,
    step: int | None,
    failure: ToolFailure | None,
    issuer: Literal["model", "user"] = "model",
    output: SideFile | None = None,
    lossy: bool = False,
) -> ToolResult:
    """Return the event that answers a call; it is an error exactly when there is a `failure`."""
    block = ToolResultBlock(id=call, text=text, is_error=failure is not None)
    message = ChatMessage(id=message_id, role="tool", content=(block,), source={"kind": "tool"})
    return ToolResult(message=message, turn=turn, step=step, issuer=issuer, error=failure, output=output, lossy=lossy)
