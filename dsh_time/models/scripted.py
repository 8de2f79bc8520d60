"""A model for tests: it plays answers from a script and keeps every request it got.

    model = ScriptedModel(
        call("clock", zone="UTC"),                          # the answer to the first request
        say("It is ", "noon."),                             # to the second, in two pieces
        lambda request: say(request.messages[-1].text),     # to the third, made from what was asked
        fail(ModelError("the server hung up")),             # the fourth fails
    )

Answers are joined with `+`: `say("Let me look.") + call("clock") + call("calendar")` is one answer with two calls.
It reads no clock and never sleeps. An answer stops only where the script says `pause`, so a test can cancel it there:

    reached, release = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(say("par") + pause(release, reached) + say("tial"))
    ...
    await reached.wait()                                    # "par" has been streamed
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec
from attrs import evolve, field, frozen

from dsh_hookspecs import (
    Finished,
    ModelDelta,
    ModelRequest,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolCallDelta,
    Usage,
)

__all__ = [
    "Answer",
    "Pause",
    "Played",
    "Recorded",
    "ScriptExhausted",
    "ScriptedModel",
    "call",
    "deltas",
    "fail",
    "finish",
    "pause",
    "reason",
    "say",
    "truncated",
]

_SHOWN_CHARACTERS = 80


class ScriptExhausted(AssertionError):
    """A request came that the script has no answer for. The text says which one and what it asked."""


@frozen(eq=False)
class Pause:
    """A point where an answer sets `reached` and waits until the test sets `release`."""

    release: asyncio.Event
    reached: asyncio.Event = field(factory=asyncio.Event)


@frozen(eq=False)
class Answer:
    """One answer: what is streamed, waited for and raised, in this order. Made by the functions of this module.

    When `items` ends without `Finished` or an exception, the model adds `Finished("tool-calls")` if there are tool
    calls and `Finished("end")` if there are none.
    """

    items: tuple[ModelDelta | Pause | BaseException, ...] = ()

    def __add__(self, other: Answer) -> Answer:
        """Both answers in one; the tool calls of `other` are numbered after those of this one."""
        first_free = max((item.index + 1 for item in self.items if isinstance(item, ToolCallDelta)), default=0)
        moved = (
            evolve(item, index=item.index + first_free) if isinstance(item, ToolCallDelta) else item
            for item in other.items
        )
        return Answer((*self.items, *moved))

    @property
    def is_complete(self) -> bool:
        """Whether the last item ends the stream."""
        return bool(self.items) and isinstance(self.items[-1], Finished | BaseException)

    @property
    def stop_reason(self) -> StopReason:
        """The stop reason that is added to an answer without one."""
        return "tool-calls" if any(isinstance(item, ToolCallDelta) for item in self.items) else "end"


#: A script's step: an answer, or a function that makes it from the request (and may raise instead).
Played = Answer | Callable[[ModelRequest], Answer]


def say(*pieces: str) -> Answer:
    """Text, streamed in these pieces."""
    return Answer(tuple(TextDelta(piece) for piece in pieces))


def reason(*pieces: str, replay: str = "") -> Answer:
    """Reasoning, streamed in these pieces; the last one carries `replay`."""
    *head, last = pieces or ("",)
    return Answer((*(ReasoningDelta(piece) for piece in head), ReasoningDelta(last, replay)))


def call(tool: str, written: str | None = None, /, **arguments: object) -> Answer:
    """A call of `tool`, its name and arguments streamed apart. `written` is their text as it is, JSON or not."""
    text = msgspec.json.encode(arguments).decode() if written is None else written
    return Answer((ToolCallDelta(0, name=tool), ToolCallDelta(0, arguments=text)))


def deltas(*items: ModelDelta) -> Answer:
    """Exactly these deltas, for streams the other functions do not make."""
    return Answer(items)


def finish(stop_reason: StopReason = "end", usage: Usage | None = None) -> Answer:
    """The end of an answer: `say("hello") + finish(usage=Usage(input_tokens=9))`."""
    return Answer((Finished(stop_reason, usage),))


def truncated(*pieces: str) -> Answer:
    """Text that breaks off because the model ran into its output limit."""
    return say(*pieces) + finish("max-tokens")


def fail(error: BaseException) -> Answer:
    """Raises `error`, after whatever the answer holds before: `say("half an ans") + fail(ModelError("gone"))`."""
    return Answer((error,))


def pause(release: asyncio.Event, reached: asyncio.Event | None = None) -> Answer:
    """Waits until the test sets `release`. `reached` is set when the answer has got here."""
    return Answer((Pause(release, reached or asyncio.Event()),))


@frozen(eq=False)
class Recorded:
    """A request as it came, and its bytes (`encode()`) at that moment."""

    request: ModelRequest
    encoded: bytes


class ScriptedModel:
    """Answers the n-th request with the n-th step of `script`, and each one after those with `then`.

    Sessions that run at the same time take steps in the order in which their requests come. Where that order is not
    fixed, use `then` with a function of the request, or a model per session. Without `then`, a request after the last
    step raises ScriptExhausted. `config` is what the request header shows of this model.

    `requests` holds every request in order, `remaining` the number of steps not yet taken, `open_streams` the number
    of answers that were begun and neither ended nor closed, `closed` whether `close` was called.
    """

    def __init__(self, *script: Played, then: Played | None = None, config: Mapping[str, object] | None = None) -> None:
        self.config: Mapping[str, object] = {"provider": "scripted", "model": "scripted"} if config is None else config
        self.requests: list[Recorded] = []
        self.open_streams = 0
        self.closed = False
        self._script = script
        self._then = then

    @property
    def remaining(self) -> int:
        """The number of steps not yet taken."""
        return max(len(self._script) - len(self.requests), 0)

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Record `request` now, and play the next step when the stream is read. A step's errors are raised there."""
        number = len(self.requests)
        self.requests.append(Recorded(request, request.encode()))
        played = self._script[number] if number < len(self._script) else self._then
        return self._play(request, fail(self._exhausted(request)) if played is None else played)

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    async def _play(self, request: ModelRequest, played: Played) -> AsyncIterator[ModelDelta]:
        answer = played if isinstance(played, Answer) else played(request)
        self.open_streams += 1
        try:
            for item in answer.items:
                if isinstance(item, Pause):
                    item.reached.set()
                    await item.release.wait()
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
            if not answer.is_complete:
                yield Finished(answer.stop_reason)
        finally:
            self.open_streams -= 1

    def _exhausted(self, request: ModelRequest) -> ScriptExhausted:
        newest = request.messages[-1] if request.messages else None
        asked = f"{newest.role} message {newest.text[:_SHOWN_CHARACTERS]!r}" if newest else "no message"
        steps = len(self._script)
        return ScriptExhausted(
            f"request {len(self.requests)} came, but the script has {steps} step{'' if steps == 1 else 's'}; "
            f"the request ends with {asked}. Add a step, or give `then=`."
        )
