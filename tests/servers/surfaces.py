"""Messages as the host hands them to a model: any history it may have folded, and a long plain conversation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from hypothesis import strategies as st

from dsh_hookspecs import (
    Block,
    ChatMessage,
    Header,
    PromptSection,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["", " ", "\n", "a"])
NAMES = st.sampled_from(["clock", "dotted.name", "", "naïve", "x" * 65, "a b"])
ARGUMENTS = st.sampled_from(
    ["", "{}", '{"zone": "UTC"}', '{"a": [1, 2', "[]", "null", "1e999", '{"n": NaN}', "{" * 300]
)
REPLAYS = st.sampled_from(["", "reasoning_content", "reasoning", "opaque of another provider"])

HEADER = Header(
    system=(PromptSection("persona", 0, "You are terse."), PromptSection("tools", 100, "Use tools.")),
    tools=(
        ToolSchema("clock", "Tells the time.", {"type": "object", "properties": {"zone": {"type": "string"}}}),
        ToolSchema("dotted.name", "", {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {}}}}),
    ),
)


@st.composite
def surfaces(draw: st.DrawFn) -> list[ChatMessage]:
    """Every call is answered directly after it, ids are unique, and the last message is not the model's."""
    numbers, calls = count(1), count(1)
    messages: list[ChatMessage] = []

    def user(source: str) -> None:
        blocks = draw(st.lists(TEXTS.map(TextBlock), max_size=2))
        messages.append(ChatMessage(f"m{next(numbers)}", "user", tuple(blocks), {"kind": source}))

    def assistant() -> None:
        reasoning = st.builds(ReasoningBlock, TEXTS, REPLAYS)
        called = st.builds(ToolCallBlock, st.builds(lambda: f"t1s1c{next(calls)}"), NAMES, ARGUMENTS)
        blocks: list[Block] = draw(st.lists(TEXTS.map(TextBlock) | reasoning | called, max_size=4))
        messages.append(ChatMessage(f"m{next(numbers)}", "assistant", tuple(blocks), {"kind": "model"}))
        for block in blocks:
            if isinstance(block, ToolCallBlock):
                result = ToolResultBlock(block.id, draw(TEXTS), draw(st.booleans()))
                messages.append(ChatMessage(f"m{next(numbers)}", "tool", (result,), {"kind": "tool"}))

    kinds = st.sampled_from(["user", "dsh-time-reminder", "assistant"])
    for kind in draw(st.lists(kinds, max_size=12)):
        if kind == "assistant":
            assistant()
        else:
            user(kind)
    if not messages or messages[-1].role == "assistant":
        user("user")
    return messages


def conversation(steps: int) -> Iterator[list[ChatMessage]]:
    """The messages of each request of a conversation: prompts, readings at the end, steering, calls in parallel."""
    messages: list[ChatMessage] = []

    def add(role: str, kind: str, *blocks: Block) -> None:
        messages.append(ChatMessage(f"m{len(messages)}", role, blocks, {"kind": kind}))  # type: ignore[arg-type]  # role

    for step in range(1, steps + 1):
        if step % 3 == 1:
            add("user", "user", TextBlock(f"Question {step}?"))
        if step % 5 == 0:
            add("user", "user", TextBlock("By the way…"))
        add("user", "dsh-time-reminder", TextBlock(f"<reading {step}>"))
        yield list(messages)
        blocks: list[Block] = [TextBlock(f"Answer {step}.")]
        ids = [f"t1s{step}c{number}" for number in range(step % 3)]
        add("assistant", "model", *blocks, *(ToolCallBlock(i, "clock", '{"zone": "UTC"}') for i in ids))
        for i in ids:
            add("tool", "tool", ToolResultBlock(i, f"{step}:00", is_error=step % 2 == 0))
