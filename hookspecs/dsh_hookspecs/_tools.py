"""Tools: what a plugin offers to the model, and what a call gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from attrs import field, frozen
from msgspec import Struct

from ._events import ToolCall
from ._folds import SessionView
from ._lineage import Lineage, NoRelatives, Spawn, no_spawn


class ToolError(Exception):
    """Raised by a tool's body: the call fails with this text, which the model reads."""


@frozen
class ToolOutput:
    """What a call gives back. `wake`: ids of sessions to wake, once this result is durable, if they are idle."""

    text: str
    is_error: bool = False
    wake: tuple[str, ...] = ()


@frozen
class ToolContext:
    """Where and when a call runs. `now` is the logged time of its `tool/call`, aware, in UTC."""

    call: ToolCall
    session: SessionView
    now: datetime
    lineage: Lineage = field(factory=NoRelatives)
    spawn: Spawn = no_spawn


ToolBody = Callable[[Any, ToolContext], str | ToolOutput | Awaitable[str | ToolOutput]]


@frozen
class Tool:
    """A tool. The model is told `name`, `description` and the JSON Schema of `arguments`.

    `run(arguments, context)` gets an instance of `arguments`, already validated, and returns a text or a `ToolOutput`;
    sync bodies run in a thread. `ToolError` gives an error result with its text, any other exception one that names
    the exception's type. Consecutive calls of `parallel` tools run together; any other call runs alone. After
    `timeout_s` seconds (default: the deployment's `limits.toolTimeoutS`) the call fails.
    """

    name: str
    description: str
    arguments: type[Struct]
    run: ToolBody
    parallel: bool = False
    timeout_s: float | None = None
