"""Lets the answers of a `ScriptedModel` go over a provider's wire.

A strict fake server streams them, and the real provider plugin asks for them and reads them. So a test that was written
for the scripted model also shows that a server takes its requests, and that nothing is lost on the way back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import groupby
from typing import Any

import fake_anthropic
import fake_openai
from attrs import define, field, frozen
from fake_server import FakeServer, Reply

from dsh_anthropic import AnthropicSettings
from dsh_hookspecs import (
    Finished,
    ModelDelta,
    ModelRequest,
    ReasoningDelta,
    Retrying,
    StopReason,
    TextDelta,
    ToolCallDelta,
)
from dsh_openai import OpenAISettings
from dsh_time.models.scripted import Answer, Pause, Played, ScriptedModel


def _openai(url: str) -> tuple[Any, Callable[[ModelRequest], bytes]]:
    from dsh_openai._model import ChatCompletions
    from dsh_openai._wire import Converter

    settings = OpenAISettings("m", base_url=f"{url}/v1", retries=0)
    endpoint = settings.endpoint()
    return ChatCompletions(settings, endpoint), lambda request: Converter(settings, endpoint.host).body(request)


def _anthropic(url: str) -> tuple[Any, Callable[[ModelRequest], bytes]]:
    from dsh_anthropic._model import Messages
    from dsh_anthropic._wire import Converter

    settings = AnthropicSettings("m", base_url=url, retries=0)
    return Messages(settings, settings.endpoint()), lambda request: Converter(settings).body(request)[0]


def _finished(answer: Answer) -> Finished:
    last = answer.items[-1] if answer.items else None
    return last if isinstance(last, Finished) else Finished(answer.stop_reason)


def render_openai(answer: Answer) -> Iterator[bytes]:
    """The answer as a stream of chat completions."""
    reasons: dict[StopReason, str] = {
        "end": "stop",
        "tool-calls": "tool_calls",
        "max-tokens": "length",
        "refusal": "content_filter",
    }
    known: set[int] = set()
    for item in answer.items:
        match item:
            case TextDelta(text):
                yield fake_openai.chunk({"content": text})
            case ReasoningDelta(text):
                yield fake_openai.chunk({"reasoning_content": text})
            case ToolCallDelta(index, name, arguments):
                call_id = "" if index in known else f"call_{index}"
                known.add(index)
                yield fake_openai.chunk(fake_openai.call(index, id=call_id, name=name, arguments=arguments))
    end = _finished(answer)
    yield fake_openai.chunk(finish=reasons[end.stop_reason])
    if (usage := end.usage) is not None:
        details = {"cached_tokens": usage.cached_tokens}
        counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        yield fake_openai.chunk(usage={**counts, "prompt_tokens_details": details})
    yield fake_openai.DONE


def render_anthropic(answer: Answer) -> Iterator[bytes]:
    """The answer as a stream of the Messages API."""
    reasons: dict[StopReason, str] = {
        "end": "end_turn",
        "tool-calls": "tool_use",
        "max-tokens": "max_tokens",
        "refusal": "refusal",
    }
    end = _finished(answer)
    counted: dict[str, object] = {}
    if (usage := end.usage) is not None:
        uncached = usage.input_tokens - usage.cached_tokens
        counted = {"usage": {"input_tokens": uncached, "cache_read_input_tokens": usage.cached_tokens}}
    yield fake_anthropic.event("message_start", message={"role": "assistant", "content": [], **counted})
    for number, (_, group) in enumerate(groupby(_said(answer), _block)):
        pieces = list(group)
        match pieces[0]:
            case TextDelta():
                yield fake_anthropic.start(number, type="text", text="")
            case ReasoningDelta():
                yield fake_anthropic.start(number, type="thinking", thinking="", signature="")
            case ToolCallDelta():
                name = "".join(piece.name for piece in pieces if isinstance(piece, ToolCallDelta))
                yield fake_anthropic.start(number, type="tool_use", id=f"toolu_{number}", name=name, input={})
        for piece in pieces:
            match piece:
                case TextDelta(text):
                    yield fake_anthropic.delta(number, "text_delta", text=text)
                case ReasoningDelta(text):
                    yield fake_anthropic.delta(number, "thinking_delta", thinking=text)
                case ToolCallDelta(arguments=arguments) if arguments:
                    yield fake_anthropic.delta(number, "input_json_delta", partial_json=arguments)
        yield fake_anthropic.stop(number)
    counted = {} if usage is None else {"usage": {"output_tokens": usage.output_tokens}}
    yield fake_anthropic.event("message_delta", delta={"stop_reason": reasons[end.stop_reason]}, **counted)
    yield fake_anthropic.END


Piece = TextDelta | ReasoningDelta | ToolCallDelta


def _said(answer: Answer) -> list[Piece]:
    return [item for item in answer.items if isinstance(item, Piece)]


def _block(piece: Piece) -> tuple[type, int]:
    return (type(piece), piece.index if isinstance(piece, ToolCallDelta) else 0)


@frozen
class Wire:
    """A provider: its fake server, what makes its model and a fresh converter, and how an answer is streamed."""

    server: Callable[[], FakeServer]
    connect: Callable[[str], tuple[Any, Callable[[ModelRequest], bytes]]]
    render: Callable[[Answer], Iterator[bytes]]

    def can(self, answer: Answer) -> bool:
        """Whether the wire can carry the answer: a script may also say what no server does."""
        pieces = _said(answer)
        blocks = [block for block, _ in groupby(pieces, _block) if block[0] is ToolCallDelta]
        return (
            not any(isinstance(item, Retrying) for item in answer.items)
            and not any(isinstance(piece, ReasoningDelta) and piece.replay for piece in pieces)
            and len(set(blocks)) == len(blocks)  # a call's pieces stand together
            and not any("\ud800" <= c <= "\udfff" for piece in pieces for c in _text(piece))
        )


WIRES = {
    "openai": Wire(fake_openai.server, _openai, render_openai),
    "anthropic": Wire(fake_anthropic.server, _anthropic, render_anthropic),
}


def _text(piece: Piece) -> str:
    return piece.name + piece.arguments if isinstance(piece, ToolCallDelta) else piece.text


def _length(delta: ModelDelta) -> int:
    """How much of an answer this is. Names do not count: they may be held back until arguments come."""
    if isinstance(delta, ToolCallDelta):
        return len(delta.arguments)
    return len(delta.text) if isinstance(delta, TextDelta | ReasoningDelta) else 0


@define
class Through:
    """Plays scripts over `wire`, whose server runs. `carried`: how many answers came that way."""

    wire: Wire
    server: FakeServer
    carried: int = 0
    #: The provider's model that stands behind each scripted one, and how many of its streams are open.
    _models: dict[ScriptedModel, Any] = field(factory=dict)
    _open: Counter[object] = field(factory=Counter)

    async def play(self, scripted: ScriptedModel, request: ModelRequest, answer: Answer) -> AsyncIterator[ModelDelta]:
        """Give what comes over the wire, with the script's pauses and errors where it has them.

        The request's bytes are those that a converter makes which has seen no other request.
        """
        model, convert = self.wire.connect(self.server.url)
        self.server.expect(convert(request), Reply(list(self.wire.render(answer))))
        model = self._models.setdefault(scripted, model)
        self._open[model] += 1
        stops = _stops(answer)
        came = 0
        stream = model.stream(request)
        try:
            async for delta in stream:
                while stops and stops[0][0] <= came:
                    _, stop = stops.pop(0)
                    if isinstance(stop, BaseException):
                        raise stop
                    stop.reached.set()
                    await stop.release.wait()
                yield delta
                came += _length(delta)
        finally:
            await stream.aclose()
            self._open[model] -= 1
            if not self._open[model]:  # not every test closes its model, and each has an event loop of its own
                client, model._client = model._client, None
                if client is not None:
                    await client.close()
        assert not stops
        self.carried += 1


def _stops(answer: Answer) -> list[tuple[int, Pause | BaseException]]:
    """The pauses and errors of an answer, and how much of it comes before each."""
    stops: list[tuple[int, Pause | BaseException]] = []
    length = 0
    for item in answer.items:
        if isinstance(item, Pause | BaseException):
            stops.append((length, item))
        else:
            length += _length(item)
    return stops


def patched(through: Through) -> Callable[..., AsyncIterator[ModelDelta]]:
    """What takes the place of `ScriptedModel._play`."""
    original = ScriptedModel._play

    async def play(self: ScriptedModel, request: ModelRequest, step: Played) -> AsyncIterator[ModelDelta]:
        answer = step if isinstance(step, Answer) else step(request)
        carried = bool(request.messages) and through.wire.can(answer)
        stream = through.play(self, request, answer) if carried else original(self, request, answer)
        self.open_streams += carried
        try:
            async for delta in stream:
                yield delta
        finally:
            self.open_streams -= carried
            await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator

    return play
