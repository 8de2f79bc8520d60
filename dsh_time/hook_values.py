"""What hooks return: checked as a whole before any of it is used, and copied, so that nobody changes it afterwards.

Each function here takes what a hook returned and raises for everything that is not what the hook's specification says:
HookValueError with the reason, or whatever the value itself raises while it is read (a generator's body, a property).
Callers contain both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import msgspec

from dsh_hookspecs import (
    PAYLOADS,
    Fold,
    Message,
    ModelProvider,
    PromptSection,
    Reject,
    Section,
    Tool,
    ToolOutput,
    ToolSchema,
)

if TYPE_CHECKING:
    from dsh_hookspecs import Scalar

T = TypeVar("T")

#: One call of a hook gives at most this many values, so that an endless generator cannot hang a turn.
MAX_VALUES = 256
#: Characters of one text. Its line in the log must stay below 8 MiB, and JSON writes a control character as six.
MAX_CHARACTERS = 1_000_000
#: Characters of a section's name, a message's form or a key of its data.
MAX_NAME = 256
#: Bytes of JSON that the tools of one plugin take in each request header.
MAX_TOOL_BYTES = 1_000_000
#: What providers of models take as the name of a tool.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Larger numbers change their value in JSON readers that have floats only.
_LARGEST_INTEGER = 2**53 - 1
_SOURCE_KEYS = frozenset({"kind", "form", "summary"})


class HookValueError(Exception):
    """A hook returned something else than its specification says. The text completes "the hook ..."."""


def sections(returned: object) -> list[PromptSection]:
    """What `system_prompt_section` returned, without the sections whose text is empty."""
    if returned is None:
        return []
    found = [
        PromptSection(
            name=_name(section.name, "Section.name"),
            order=_integer(section.order, "Section.order"),
            text=_said(section.text, "Section.text"),
        )
        for section in _values(returned, Section)
    ]
    return [section for section in found if section.text]


def messages(returned: object) -> list[Message] | Reject:
    """What `before_step` returned."""
    if returned is None:
        return []
    if isinstance(returned, Reject):
        return Reject(_said(returned.reason, "Reject.reason"))
    return [_message(message) for message in _values(returned, Message)]


def status_line(returned: object) -> str:
    """What `status_line` returned; empty for None."""
    return "" if returned is None else _said(returned, "the line")


def tool_output(returned: object, current: ToolOutput) -> ToolOutput:
    """The result after `on_tool_result` returned `returned` for `current`.

    `is_error` stays what the tool's body made it; the sessions to wake are those of both, in the order they were named.
    """
    if returned is None:
        return current
    if not isinstance(returned, ToolOutput):
        raise HookValueError(f"returned {_kind(returned)}, not ToolOutput")
    wake: object = returned.wake
    if not isinstance(wake, tuple | list):
        raise HookValueError(f"returned {_kind(wake)} as ToolOutput.wake, not a tuple of session ids")
    ids = [_name(session, "a session id in ToolOutput.wake") for session in wake]
    return ToolOutput(
        text=_text(returned.text, "ToolOutput.text"),
        is_error=current.is_error,
        wake=tuple(dict.fromkeys((*current.wake, *ids))),
    )


def tools(returned: object) -> list[tuple[Tool, ToolSchema]]:
    """What `register_tools` returned, each with the schema the model is told."""
    found = [(tool, _schema(tool)) for tool in _unique(_values(returned, Tool), "tool")]
    size = len(msgspec.json.encode([schema for _, schema in found]))
    if size > MAX_TOOL_BYTES:
        raise HookValueError(
            f"returned tools whose descriptions and schemas have {size:,} bytes; at most {MAX_TOOL_BYTES:,}"
        )
    return found


def providers(returned: object) -> list[ModelProvider]:
    """What `register_models` returned."""
    found = _unique(_values(returned, ModelProvider), "model provider")
    for provider in found:
        _name(provider.name, "ModelProvider.name")
        if not isinstance(provider.settings, type) or not attrs.has(provider.settings):
            raise HookValueError(f"returned the provider {provider.name!r} whose settings are no attrs class")
        if not callable(provider.create):
            raise HookValueError(f"returned the provider {provider.name!r} whose create cannot be called")
    return found


def folds(returned: object) -> list[type[Fold]]:
    """What `register_folds` returned. Each class is instantiated once, to see that it can be."""
    known, found = set(PAYLOADS.values()), _values(returned, type)
    for kind in found:
        reads: object = getattr(kind, "reads", None)
        if not isinstance(reads, tuple) or not reads or not known.issuperset(reads):
            raise HookValueError(f"returned the fold {kind.__name__} whose reads is not a tuple of event types")
        if not callable(getattr(kind(), "apply", None)):
            raise HookValueError(f"returned the fold {kind.__name__} that has no apply(event)")
    if len(set(found)) < len(found):
        raise HookValueError("returned one fold twice")
    return found


def describe_error(error: BaseException) -> str:
    """The error's text on one line, at most 500 characters, always encodable; also where `str(error)` itself fails."""
    try:
        text = " ".join(str(error).split())
    except Exception as unreadable:  # a plugin's exception class may do anything
        text = f"(its text cannot be read: {type(unreadable).__name__})"
    return text[:500].encode("utf-8", "replace").decode("utf-8")


def _values(returned: object, kind: type[T]) -> list[T]:
    """One `kind`, or all values of an iterable of them, as a list."""
    if isinstance(returned, kind):
        return [returned]
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise HookValueError(f"returned {_kind(returned)}, not {kind.__name__} or several")
    found = list(islice(returned, MAX_VALUES + 1))
    if len(found) > MAX_VALUES:
        raise HookValueError(f"returned more than {MAX_VALUES} values")
    return list(_all_of(found, kind))


def _all_of(values: list[object], kind: type[T]) -> Iterator[T]:
    for value in values:
        if not isinstance(value, kind):
            raise HookValueError(f"returned {_kind(value)} among its values, not {kind.__name__}")
        yield value


def _unique(found: list[Any], what: str) -> list[Any]:
    names = [value.name for value in found]
    for name in names:
        if names.count(name) > 1:
            raise HookValueError(f"returned two of the {what} {name!r}")
    return found


def _message(message: Message) -> Message:
    text = _said(message.text, "Message.text")
    if not text:
        raise HookValueError("returned a Message whose text is empty")
    if not isinstance(message.data, Mapping):
        raise HookValueError(f"returned a Message whose data is {_kind(message.data)}, not a mapping")
    if len(message.data) > MAX_VALUES:
        raise HookValueError(f"returned a Message whose data has more than {MAX_VALUES} keys")
    checked = Message(
        text=text,
        form=_name(message.form, "Message.form"),
        summary=_said(message.summary, "Message.summary"),
        data={_data_key(key): _scalar(value, key) for key, value in message.data.items()},
    )
    _said(
        "".join((text, checked.summary, *(value for value in checked.data.values() if isinstance(value, str)))),
        "one Message",
    )
    return checked


def _data_key(key: object) -> str:
    name = _name(key, "a key of Message.data")
    if name in _SOURCE_KEYS:
        raise HookValueError(f"returned a Message whose data holds {name!r}, which the host sets")
    return name


def _scalar(value: object, key: object) -> Scalar:
    if value is None or type(value) is bool:
        return value
    if type(value) is int:
        return _integer(value, f"Message.data[{key!r}]")
    if type(value) is str:
        return _said(value, f"Message.data[{key!r}]")
    raise HookValueError(f"returned {_kind(value)} as Message.data[{key!r}], not str, int, bool or None")


def _text(value: object, what: str) -> str:
    if type(value) is not str:
        raise HookValueError(f"returned {_kind(value)} as {what}, not str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise HookValueError(f"returned half of a surrogate pair in {what}, which no log can hold") from None
    return value


def _said(value: object, what: str) -> str:
    text = _text(value, what)
    if len(text) > MAX_CHARACTERS:
        raise HookValueError(f"returned {len(text):,} characters as {what}, and at most {MAX_CHARACTERS:,} are taken")
    return text


def _name(value: object, what: str) -> str:
    name = _text(value, what)
    if len(name) > MAX_NAME:
        raise HookValueError(f"returned {len(name):,} characters as {what}, and at most {MAX_NAME} are taken")
    if not name or not name.isprintable():
        raise HookValueError(f"returned {name!r} as {what}: not empty, no control characters")
    return name


def _integer(value: object, what: str) -> int:
    if type(value) is not int or abs(value) > _LARGEST_INTEGER:
        raise HookValueError(f"returned {_kind(value)} as {what}, not an int of at most 53 bits")
    return value


def _schema(tool: Tool) -> ToolSchema:
    name = _text(tool.name, "Tool.name")
    if not _TOOL_NAME.fullmatch(name):
        raise HookValueError(f"returned a tool called {name!r}: 1 to 64 letters, digits, `_` and `-`")
    if not callable(tool.run):
        raise HookValueError(f"returned the tool {name!r} whose run cannot be called")
    if type(tool.parallel) is not bool:
        raise HookValueError(f"returned the tool {name!r} whose parallel is {_kind(tool.parallel)}, not bool")
    seconds = tool.timeout_s
    if seconds is not None and not (type(seconds) in (int, float) and seconds > 0 and math.isfinite(seconds)):
        raise HookValueError(f"returned the tool {name!r} whose timeout_s is {seconds!r}, not seconds or None")
    return ToolSchema(name, _text(tool.description, "Tool.description"), _parameters(tool))


def _parameters(tool: Tool) -> dict[str, object]:
    """The JSON Schema of the tool's arguments: an object at its root, every `$ref` within itself."""
    kind: object = tool.arguments
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        raise HookValueError(f"returned the tool {tool.name!r} whose arguments are no msgspec.Struct class")
    try:
        (root,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    except Exception as error:  # msgspec raises TypeError, NameError and others, some from the class itself
        reason = f"{type(error).__name__}: {describe_error(error)}"
        raise HookValueError(f"returned the tool {tool.name!r} whose arguments have no schema: {reason}") from error
    key = root["$ref"].removeprefix("#/$defs/")
    schema = dict(parts[key])
    if schema.get("type") != "object":
        raise HookValueError(f"returned the tool {tool.name!r} whose arguments are no JSON object")
    if f'"{root["$ref"]}"' not in msgspec.json.encode(parts).decode():  # else it refers to itself
        del parts[key]
    return {**schema, "$defs": parts} if parts else schema


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
