"""What is logged: one frozen Struct per event type, and the event that carries it.

Field names are camelCase in the log and snake_case here. Names of types and fields follow DeepSeek Harness, so that its
tools and its users' habits carry over. Times are epoch milliseconds of the wall clock; order is `seq`, never `time`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct

#: A value in a message's `source`, which says who put it there. No floats: JSON writers turn NaN into null silently.
Scalar = str | int | bool | None

#: Codes of `ToolResult.error` that stand in for a result nobody has. The first real result replaces one of these.
TOOL_NOT_STARTED: Final = "TOOL_NOT_STARTED"
TOOL_OUTCOME_UNKNOWN: Final = "TOOL_OUTCOME_UNKNOWN"


# Messages are kept by the hundred thousand and can be part of no cycle: the collector need not look at them (gc=False).
class TextBlock(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, tag_field="type", tag="text"):
    """Text of a message."""

    text: str


class ReasoningBlock(
    Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, tag_field="type", tag="reasoning"
):
    """What a model thought before it answered; `replay` is opaque data its provider wants back."""

    text: str
    replay: str = ""


class ToolCallBlock(
    Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, tag_field="type", tag="tool-call"
):
    """A call as the model asked for it. `arguments` is the text the model wrote, parsed by nobody yet."""

    id: str
    name: str
    arguments: str


class ToolResultBlock(
    Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, tag_field="type", tag="tool-result"
):
    """What the call `id` gave back."""

    id: str
    text: str
    is_error: bool = False


#: The blocks of a message, in the order they were said.
Block = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock


class ChatMessage(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One message as a model sees it. `id` is unique in its session; `role` decides which blocks it can hold."""

    id: str
    role: Literal["user", "assistant", "tool"]
    content: tuple[Block, ...]
    source: dict[str, Scalar]

    @property
    def text(self) -> str:
        """All text blocks and tool result texts, joined without a separator."""
        return "".join(b.text for b in self.content if isinstance(b, TextBlock | ToolResultBlock))


class TurnStart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A turn opens. Turns count from 1."""

    type: ClassVar[str] = "turn/start"
    turn: int


class TurnEndReason(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why a turn ended; which other field is filled depends on `kind`.

    `rejected` names `plugin` and `reason`; `aborted` may give a `reason`; `error` gives the error's `type` and
    `message`. `interrupted` is written by crash repair only.
    """

    kind: Literal["completed", "max-tokens", "max-steps", "rejected", "aborted", "error", "interrupted"]
    plugin: str = ""
    reason: str = ""
    type: str = ""
    message: str = ""


class TurnEnd(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A turn closed."""

    type: ClassVar[str] = "turn/end"
    turn: int
    reason: TurnEndReason


class StepStart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A step opens: one model request and its tool calls. Steps count from 1 in each turn."""

    type: ClassVar[str] = "step/start"
    turn: int
    step: int


class StepEnd(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A step closed."""

    type: ClassVar[str] = "step/end"
    turn: int
    step: int


class UserMessage(ChatMessage, frozen=True, rename="camel", omit_defaults=True):
    """A prompt (source kind `user`) or a plugin's message (its name is the kind). `lossy`: its text was repaired."""

    type: ClassVar[str] = "user/message"
    lossy: bool = False


class SteeringMessage(ChatMessage, frozen=True, rename="camel", omit_defaults=True):
    """A message that joined a running turn by `steer`."""

    type: ClassVar[str] = "steering/message"
    lossy: bool = False


class ContextMessage(ChatMessage, frozen=True, rename="camel", omit_defaults=True):
    """A message that rode along with a step by `inject`."""

    type: ClassVar[str] = "context/message"
    lossy: bool = False


class Usage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tokens of one model request, as its provider counted them. `cached_tokens` is part of `input_tokens`."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class Timing(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Milliseconds from sending a model request to its first output and to its end, by a monotonic clock."""

    first_output_ms: int
    total_ms: int


class AssistantMessage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the model answered. `interrupted`: what was streamed before the answer was cancelled or broke off."""

    type: ClassVar[str] = "assistant/message"
    turn: int
    step: int
    message: ChatMessage
    stop_reason: str = ""
    usage: Usage | None = None
    timing: Timing | None = None
    interrupted: bool = False
    lossy: bool = False


class ToolCall(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool call that is about to run. Its logged time is the call's instant.

    `owner` is the name of the plugin that offers the tool, empty when none does; `turn` and `step` are missing when a
    user called the tool directly (`issuer` is `user`).
    """

    type: ClassVar[str] = "tool/call"
    id: str
    name: str
    arguments: str
    owner: str
    turn: int | None = None
    step: int | None = None
    issuer: Literal["model", "user"] = "model"
    lossy: bool = False


class ToolFailure(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Kind of a failed call: the error's type name and a code for programs."""

    name: str
    code: str


class SideFile(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the whole output lies when the message holds only its beginning: a file name in the session's directory."""

    file: str
    bytes: int


class ToolResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a call gave back, in one tool-result block. Not on the model's surface when `issuer` is `user`."""

    type: ClassVar[str] = "tool/result"
    message: ChatMessage
    turn: int | None = None
    step: int | None = None
    issuer: Literal["model", "user"] = "model"
    error: ToolFailure | None = None
    output: SideFile | None = None
    lossy: bool = False

    @property
    def result(self) -> ToolResultBlock:
        """The one block of the message."""
        block = self.message.content[0]
        assert isinstance(block, ToolResultBlock)
        return block

    @property
    def stands_in(self) -> bool:
        """Whether this was written in place of a result nobody has."""
        return self.error is not None and self.error.code in (TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN)


class PromptSection(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One named part of the system prompt; sections stand by (order, name)."""

    name: str
    order: int
    text: str


class ToolSchema(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as the model is told of it; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, object]


class LoadedPlugin(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plugin that was enabled when the request was made."""

    name: str
    version: str
    distribution: str


class Header(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything of a request but its messages. `config` holds each model setting that changes what the model sees."""

    config: dict[str, object] = {}
    system: tuple[PromptSection, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    loadout: tuple[LoadedPlugin, ...] = ()


class RequestHeader(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A full snapshot of the header that the next request is sent with."""

    type: ClassVar[str] = "request/header"
    header: Header
    reason: Literal["initial", "change"]


class SectionsDelta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Sections that went, by name, and those that are new or have another text or order."""

    removed: tuple[str, ...] = ()
    changed: tuple[PromptSection, ...] = ()


class ToolsDelta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tools that went, by name, and those that are new or have another schema."""

    removed: tuple[str, ...] = ()
    changed: tuple[ToolSchema, ...] = ()


class RequestHeaderDelta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The change from the last header to the next request's. What is missing did not change."""

    type: ClassVar[str] = "request/header-delta"
    system: SectionsDelta | None = None
    tools: ToolsDelta | None = None
    config: dict[str, object] | None = None
    loadout: tuple[LoadedPlugin, ...] | None = None


class InboxEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A message that waits. `delivery` says how it was given and so which event it becomes when it is claimed."""

    message: ChatMessage
    delivery: Literal["followup", "steer", "inject"]
    lossy: bool = False


class InboxSpliced(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The inbox list `target` changed: from `start`, `removed_count` entries went and `inserted` came.

    Written before the list in memory changes. A removal without `outcome` is a claim.
    """

    type: ClassVar[str] = "agent/inbox/spliced"
    target: Literal["next-turn", "next-step"]
    start: int
    removed_count: int = 0
    inserted: tuple[InboxEntry, ...] = ()
    outcome: Literal["canceled"] | None = None


class SessionSpawned(Struct, frozen=True, rename="camel", omit_defaults=True):
    """This session made the child session `id`."""

    type: ClassVar[str] = "session/spawned"
    id: str


class PluginError(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A hook of a plugin failed; the turn went on. Logged as ignorable: a reader that does not know it skips it."""

    type: ClassVar[str] = "plugin/error"
    plugin: str
    distribution: str
    hook: str
    error: str
    message: str


Payload = (
    TurnStart
    | TurnEnd
    | StepStart
    | StepEnd
    | UserMessage
    | SteeringMessage
    | ContextMessage
    | AssistantMessage
    | ToolCall
    | ToolResult
    | RequestHeader
    | RequestHeaderDelta
    | InboxSpliced
    | SessionSpawned
    | PluginError
)

#: Each event type's Struct.
PAYLOADS: Final[Mapping[str, type[Payload]]] = {
    cls.type: cls
    for cls in (
        TurnStart,
        TurnEnd,
        StepStart,
        StepEnd,
        UserMessage,
        SteeringMessage,
        ContextMessage,
        AssistantMessage,
        ToolCall,
        ToolResult,
        RequestHeader,
        RequestHeaderDelta,
        InboxSpliced,
        SessionSpawned,
        PluginError,
    )
}

#: The events a model sees: the four messages and the tool result.
ModelVisible = UserMessage | SteeringMessage | ContextMessage | AssistantMessage | ToolResult
MODEL_VISIBLE: Final = (UserMessage, SteeringMessage, ContextMessage, AssistantMessage, ToolResult)


class SurfaceReplace(Struct, frozen=True, tag_field="op", tag="replace"):
    """`surfaceOp` of an event whose message takes the place of those from event `start` to event `end`, inclusive."""

    start: Annotated[int, Meta(ge=0)]
    end: Annotated[int, Meta(ge=0)]


class Event(Struct, frozen=True):
    """One logged event. `seq` counts from 0 without gaps; `time` is epoch ms and may go back between events."""

    seq: int
    time: int
    data: Payload
    replaces: SurfaceReplace | None = None
