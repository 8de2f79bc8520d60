"""Makes the messages that are logged from what users, plugins and models say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from dsh_hookspecs import (
    Block,
    ChatMessage,
    ContextMessage,
    InboxEntry,
    Message,
    Scalar,
    SteeringMessage,
    TextBlock,
    UserMessage,
)

from .log import clean_text

Delivery = Literal["followup", "steer", "inject"]

_EVENTS: Final[Mapping[Delivery, type[UserMessage | SteeringMessage | ContextMessage]]] = {
    "followup": UserMessage,
    "steer": SteeringMessage,
    "inject": ContextMessage,
}


def user_entry(delivery: Delivery, message_id: str, text: str, client_time_zone: str | None) -> InboxEntry:
    """Return what a user said, as it waits in the inbox. Text that is no valid Unicode is repaired (R19)."""
    text, lossy = clean_text(text)
    source: dict[str, Scalar] = {"kind": "user"}
    if client_time_zone is not None:
        source["clientTimeZone"] = clean_text(client_time_zone)[0]
    message = ChatMessage(id=message_id, role="user", content=(TextBlock(text),), source=source)
    return InboxEntry(message=message, delivery=delivery, lossy=lossy)


def claimed(entry: InboxEntry) -> UserMessage | SteeringMessage | ContextMessage:
    """Return the event that a waiting message becomes when a step takes it."""
    message = entry.message
    return _EVENTS[entry.delivery](
        id=message.id, role=message.role, content=message.content, source=message.source, lossy=entry.lossy
    )


def plugin_message(plugin: str, message: Message, message_id: str) -> UserMessage:
    """Return a plugin's message, stamped with what only the host may say of it."""
    source: dict[str, Scalar] = {"kind": plugin, "form": message.form}
    if message.summary:
        source["summary"] = message.summary
    source.update(message.data)
    text, lossy = clean_text(message.text)
    return UserMessage(id=message_id, role="user", content=(TextBlock(text),), source=source, lossy=lossy)


def model_message(config: Mapping[str, object], content: tuple[Block, ...], message_id: str) -> ChatMessage:
    """Return what a model said; the source names its provider and model."""
    source: dict[str, Scalar] = {"kind": "model"}
    source.update((key, str(config[key])) for key in ("provider", "model") if key in config)
    return ChatMessage(id=message_id, role="assistant", content=content, source=source)
