"""The `demo` model: fixed rules instead of a language model, so that everything works without a key or a network.

It has no clock. Whatever it says about time it read in its request, and it says where, so its answers show what the
harness delivered. It reads a request backwards from its end, and no further than to what it looks for.

What decides the answer is the newest user message that a rule knows something of; newer ones are acknowledged. Tool
results that are newer than it are quoted, and nothing is called again. Each line that asks for a tool call gives one,
and all of them are made at once; questions are looked for in the other lines.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import takewhile
from typing import Literal

import msgspec
from attrs import frozen

from dsh_hookspecs import (
    ChatMessage,
    Finished,
    ModelDelta,
    ModelProvider,
    ModelRequest,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    Usage,
)

from . import _demo_rules as rules
from ._demo_clock import is_prompt, shown_timers, tell_gap, tell_time

_QUOTED_CHARACTERS = 2000
_NOTED_CHARACTERS = 200
_BYTES_PER_TOKEN = 4

_ABOUT = (
    "I am the demo model of dsh-time: fixed rules, no language model, no network and no clock of my own. I say what my "
    "request holds of the time, the gap since your last message and running timers, and I call tools when asked to. "
    'Try "what time is it?", "how long since my last message?", "start a timer called deploy" or '
    "`call TOOL key=value`."
)
_REAL_MODEL = "To use a language model, see docs/models.md."
_BAD_CALL = "I cannot read the arguments {given}. Write `call {tool} key=value …` or `call {tool} {{…JSON…}}`."


@frozen
class Call:
    """A tool call the rules decided on. `arguments` is JSON, or what the user wrote in its place."""

    tool: str
    arguments: str


def _tell_timers(request: ModelRequest, name: str) -> str | Call:
    can_ask = _has_tool(request, "time_counter")
    shown = shown_timers(request, name, or_older=not can_ask)
    if shown is None and can_ask:
        return _call("time_counter", {"action": "lapse", "name": name} if name else {"action": "list"})
    return shown or f"My request shows no {f'timer {name}' if name else 'timers'}. {_missing(request, 'time_counter')}"


_ANSWERS: Mapping[rules.Subject, Callable[[ModelRequest, str], str | Call]] = {
    "time": lambda request, _name: tell_time(request),
    "gap": lambda request, _name: tell_gap(request),
    "timers": _tell_timers,
}


def _has_tool(request: ModelRequest, name: str) -> bool:
    return any(tool.name == name for tool in request.header.tools)


def _tools(request: ModelRequest) -> str:
    return f"Tools in my request: {', '.join(f'`{tool.name}`' for tool in request.header.tools) or 'none'}."


def _missing(request: ModelRequest, tool: str) -> str:
    return f"My request has no tool `{tool}`. {_tools(request)}"


def _call(tool: str, arguments: Mapping[str, object]) -> Call:
    return Call(tool, msgspec.json.encode(arguments).decode())


def _value(written: str) -> object:
    try:
        value: object = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):  # not JSON: a plain word
        return written
    return value


def _read_call(tool: str, written: str) -> str | Call:
    """The call that the rest of a `call` line asks for. JSON goes on as it was written, valid or not."""
    if written.startswith("{"):
        return Call(tool, written)
    arguments, at = {}, 0
    while at < len(written):
        pair = rules.PAIR.match(written, at)
        if pair is None:
            return _BAD_CALL.format(given=_quoted(written, _NOTED_CHARACTERS), tool=tool)
        arguments[pair[1]] = _value(pair[2])
        at = pair.end()
    return _call(tool, arguments)


def _action(line: str) -> str | Call | None:
    """What the line asks for, if it asks for a call."""
    if asked := rules.CALL.fullmatch(line):
        return _read_call(asked["tool"], asked["rest"].strip())
    plain = " ".join(line.split()).rstrip(rules.TRAILING)
    for pattern, tool, given in rules.ACTIONS:
        if asked := pattern.fullmatch(plain):
            named = {key: _unquoted(value) for key, value in asked.groupdict().items() if value}
            return _call(tool, {**given, **named})
    return None


def _outcomes(request: ModelRequest, text: str) -> list[str | Call]:
    """What the rules make of a user's message: answers and calls. Empty: no rule knows anything of it."""
    outcomes: list[str | Call] = []
    others = []
    for line in text.splitlines():
        outcome = _action(line) if line.strip() else None
        if isinstance(outcome, Call) and not _has_tool(request, outcome.tool):
            outcome = _missing(request, outcome.tool)
        if outcome is None:
            others.append(line)
        else:
            outcomes.append(outcome)
    rest = "\n".join(others)
    for subject, pattern in rules.QUESTIONS:
        if asked := pattern.search(rest):
            outcomes.append(_ANSWERS[subject](request, asked.groupdict().get("name", "")))
    return outcomes


def _quoted(text: str, limit: int) -> str:
    rest = len(text) - limit
    return f'"{text[:limit]}"' + (f" … and {rest} more characters" if rest > 0 else "")


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in rules.MARKS and text[-1] in rules.MARKS else text


def _quote_results(newest: ChatMessage, earlier: Iterator[ChatMessage]) -> list[str]:
    """Quote the tool results that end with `newest`, in order. Takes their call's message from `earlier`, too."""
    results, names = [*newest.content], {}
    for message in earlier:
        if message.role == "assistant":
            names = {block.id: block.name for block in message.content if isinstance(block, ToolCallBlock)}
            break
        results.extend(message.content if message.role == "tool" else ())
    return [
        f"`{names.get(result.id, 'tool')}` {'failed' if result.is_error else 'answered'}: "
        + _quoted(result.text, _QUOTED_CHARACTERS)
        for result in reversed(results)
        if isinstance(result, ToolResultBlock)
    ]


def _decide(request: ModelRequest) -> tuple[list[str], list[Call]]:
    """The answer's paragraphs and calls."""
    noted: list[str] = []
    backwards = reversed(request.messages)
    for message in backwards:
        if message.role == "tool":
            quotes = _quote_results(message, backwards)
            prompt = next(filter(is_prompt, backwards), None)
            answers = _outcomes(request, prompt.text) if prompt else []
            return [*noted, *quotes, *(answer for answer in answers if isinstance(answer, str))], []
        if message.role == "assistant":
            break
        if not is_prompt(message):
            continue
        if outcomes := _outcomes(request, message.text):
            calls = [outcome for outcome in outcomes if isinstance(outcome, Call)]
            answers = [] if calls else outcomes
            return [*noted, *(answer for answer in answers if isinstance(answer, str))], calls
        noted.insert(0, f"Noted: {_quoted(message.text, _NOTED_CHARACTERS)}.")
    return [_ABOUT, _tools(request), _REAL_MODEL], []


def _tokens(*texts: str | bytes) -> int:
    """An estimate: a token for each four bytes begun."""
    size = sum(len(text.encode() if isinstance(text, str) else text) for text in texts)
    return -(-size // _BYTES_PER_TOKEN)


def _input_tokens(request: ModelRequest) -> int:
    """Tokens of the header and of the messages since the newest answer; older ones are not read, so not counted."""
    new = takewhile(lambda message: message.role != "assistant", reversed(request.messages))
    return _tokens(msgspec.json.encode(request.header), *(message.text for message in new))


@frozen
class DemoSettings:
    """Settings of the `demo` provider. There is one model."""

    model: Literal["demo-1"] = "demo-1"


@frozen
class DemoModel:
    """The model. It holds no state, so one instance serves every session."""

    settings: DemoSettings = DemoSettings()

    @property
    def config(self) -> Mapping[str, object]:
        """What the request header shows of it."""
        return {"provider": "demo", "model": self.settings.model}

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Answer in pieces of one word; tool calls follow the text. Usage is an estimate at four bytes a token."""
        paragraphs, calls = _decide(request)
        text = "\n".join(paragraphs)
        for piece in re.findall(r"\s*\S+|\s+", text):
            yield TextDelta(piece)
            await asyncio.sleep(0)  # lets others run, and lets the answer be cancelled, as with a model far away
        for index, call in enumerate(calls):
            yield ToolCallDelta(index, name=call.tool)
            yield ToolCallDelta(index, arguments=call.arguments)
        written = (part for call in calls for part in (call.tool, call.arguments))
        usage = Usage(input_tokens=_input_tokens(request), output_tokens=_tokens(text, *written))
        yield Finished("tool-calls" if calls else "end", usage)

    async def close(self) -> None:
        """Nothing is held open."""


PROVIDER = ModelProvider(name="demo", settings=DemoSettings, create=DemoModel)
