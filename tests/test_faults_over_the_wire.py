"""Faults of a server, seen through the whole host and both providers: the log stays whole, the session usable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import frozen
from fake_server import FakeServer, Reply
from msgspec import Struct
from through import render_anthropic, render_openai

from dsh_anthropic import AnthropicSettings
from dsh_hookspecs import AssistantMessage, Model, Retrying, TextDelta, Tool, ToolResult, hookimpl
from dsh_openai import OpenAISettings
from dsh_time.agent import Agent
from dsh_time.harness import Harness
from dsh_time.log import verify
from dsh_time.models.scripted import Answer, call, reason, say
from dsh_time.recorder import AgentEvent

from .kit import make_harness, payloads, plugin_host


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


@frozen(eq=False)
class Ring:
    """A plugin with one tool."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        return [Tool("ring", "Rings.", Nothing, lambda arguments, context: "rung")]


async def no_nap(_seconds: float) -> None:
    """Stands in for `asyncio.sleep`."""


def _openai(url: str, timeout_s: float, retries: int) -> Model:
    from dsh_openai._model import ChatCompletions

    settings = OpenAISettings("m", base_url=f"{url}/v1", retries=retries, timeout_s=timeout_s)
    return ChatCompletions(settings, settings.endpoint(), no_nap)


def _anthropic(url: str, timeout_s: float, retries: int) -> Model:
    from dsh_anthropic._model import Messages

    settings = AnthropicSettings("m", base_url=url, retries=retries, timeout_s=timeout_s)
    return Messages(settings, settings.endpoint(), no_nap)


@frozen
class Wire:
    """A running fake server, what makes the provider's model for it, and how it streams an answer."""

    server: FakeServer
    make: Callable[[str, float, int], Model]
    render: Callable[[Answer], object]

    def reply(self, answer: Answer) -> Reply:
        return Reply(list(self.chunks(answer)))

    def chunks(self, answer: Answer) -> list[bytes]:
        return list(self.render(answer))  # type: ignore[call-overload, no-any-return]  # both give chunks


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest, wire_servers: dict[str, FakeServer], monkeypatch: pytest.MonkeyPatch) -> Wire:
    import ssl

    # Certificates are of no use on loopback, and reading them takes longer than a session.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_args, **_kwargs: None)
    monkeypatch.setenv("NO_PROXY", "*")
    makes = {"openai": (_openai, render_openai), "anthropic": (_anthropic, render_anthropic)}
    return Wire(wire_servers[request.param], *makes[request.param])


@asynccontextmanager
async def talk(
    root: Path, wire: Wire, *replies: Reply, timeout_s: float = 30, retries: int = 0
) -> AsyncIterator[tuple[Harness, Agent]]:
    """A session whose model asks the server, which answers with `replies`; its log is whole afterwards."""
    wire.server.reset(replies)
    host = plugin_host({"ring": Ring})
    async with make_harness(root, model=wire.make(wire.server.url, timeout_s, retries), plugins=host) as harness:
        yield harness, harness.create("one")
    assert wire.server.refusals == []
    assert verify(root / "one").ok


async def usable(wire: Wire, agent: Agent) -> None:
    """The next prompt is answered."""
    wire.server.replies.append(wire.reply(say("still here")))
    assert (await agent.prompt("Are you there?")).text == "still here"


async def test_a_busy_server_is_asked_again_with_the_same_bytes_and_the_turn_completes(
    tmp_path: Path, wire: Wire
) -> None:
    busy = Reply(status=429, headers={"retry-after": "1"}), Reply(status=500)
    async with talk(tmp_path, wire, *busy, wire.reply(say("12:00")), retries=2) as (_, agent):
        heard: list[AgentEvent] = []
        agent.subscribe(heard.append)
        assert (await agent.prompt("Hi")).text == "12:00"
        await usable(wire, agent)
    assert len([event for event in heard if isinstance(event, Retrying)]) == 2
    assert len({received.body for received in wire.server.requests[:3]}) == 1


async def test_silence_ends_the_turn_and_keeps_what_came(tmp_path: Path, wire: Wire) -> None:
    chunks = wire.chunks(say("half", " more"))
    for count in range(3):
        reply = Reply(chunks[:count], then="hang")
        async with talk(tmp_path / str(count), wire, reply, timeout_s=0.05) as (_, agent):
            result = await agent.prompt("Hi")
            assert result.reason.kind == "error"
            assert "raise model.timeoutS" in result.reason.message
            await usable(wire, agent)


async def test_a_connection_cut_after_any_chunk_leaves_a_whole_log(tmp_path: Path, wire: Wire) -> None:
    chunks = wire.chunks(say("half", " more") + call("ring"))
    for count in range(len(chunks)):
        async with talk(tmp_path / str(count), wire, Reply(chunks[:count], then="cut")) as (_, agent):
            wire.server.replies.append(wire.reply(say("rung, it says")))  # where the answer was complete already
            heard: list[AgentEvent] = []
            agent.subscribe(heard.append)
            await agent.prompt("Hi")
            wire.server.replies.clear()
            await usable(wire, agent)
        came = "".join(event.text for event in heard if isinstance(event, TextDelta))
        kept = [answer.message.text for answer in payloads(tmp_path / str(count) / "one", AssistantMessage)]
        assert "".join(kept) == came


@pytest.mark.parametrize("junk", [b"data: {not json}\n\n", b"data: [1]\n\n", b"\xff\xfe\n\n", b"<html>log in</html>"])
async def test_what_is_no_stream_ends_the_turn_with_a_line_that_says_what_to_do(
    tmp_path: Path, wire: Wire, junk: bytes
) -> None:
    async with talk(tmp_path, wire, Reply([junk])) as (_, agent):
        result = await agent.prompt("Hi")
        assert (result.reason.kind, "\n" in result.reason.message) == ("error", False)
        await usable(wire, agent)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (call("ring", '{"broken'), "Wrong arguments for ring"),
        (call("ring", '{"loud": true}'), "unknown field `loud`"),
        (call("rang"), "There is no tool 'rang'. Tools: ring."),
    ],
    ids=["no JSON", "wrong argument", "unknown tool"],
)
async def test_a_call_that_cannot_run_goes_back_to_the_server_as_an_error_it_accepts(
    tmp_path: Path, wire: Wire, answer: Answer, says: str
) -> None:
    async with talk(tmp_path, wire, wire.reply(answer), wire.reply(say("I see"))) as (_, agent):
        assert (await agent.prompt("Hi")).text == "I see"
        await usable(wire, agent)
    (result,) = payloads(tmp_path / "one", ToolResult)
    assert result.result.is_error
    assert says in result.result.text


async def test_ten_megabytes_of_output_end_the_turn_and_leave_a_log_that_opens(tmp_path: Path, wire: Wire) -> None:
    async with talk(tmp_path, wire, wire.reply(say(*["tick " * 20_000] * 100))) as (harness, agent):
        result = await agent.prompt("Hi")
        assert (result.reason.kind, "output token limit" in result.reason.message) == ("error", True)
        await usable(wire, agent)
        await harness.close_session("one")
        assert harness.open("one").session.next_seq > 0


async def test_cancelling_at_any_piece_closes_the_connection_and_keeps_what_came(tmp_path: Path, wire: Wire) -> None:
    answer = say("one ", "two ", "three")
    for count in range(1, 4):
        async with talk(tmp_path / str(count), wire, Reply(wire.chunks(answer), then="hang"), timeout_s=5) as (
            _,
            agent,
        ):
            heard: list[AgentEvent] = []

            def listen(
                event: AgentEvent, agent: Agent = agent, heard: list[AgentEvent] = heard, at: int = count
            ) -> None:
                if isinstance(event, TextDelta):
                    heard.append(event)
                    if len(heard) == at:
                        agent.cancel()

            agent.subscribe(listen)
            result = await agent.prompt("Hi")
            assert result.reason.kind == "aborted"
            assert "one two three".startswith(result.text)
            assert await asyncio.to_thread(wire.server.client_gone.wait, 5)
            await usable(wire, agent)


async def test_cancelling_before_a_piece_came_closes_the_connection_too(tmp_path: Path, wire: Wire) -> None:
    """Nothing came at all, or only what says nothing."""
    for count in range(2):
        reply = Reply([_nothing(wire)][:count], then="hang")
        async with talk(tmp_path / str(count), wire, reply) as (_, agent):
            turn = asyncio.create_task(agent.prompt("Hi"))
            assert await asyncio.to_thread(wire.server.asked.wait, 5)
            agent.cancel()
            assert (await turn).reason.kind == "aborted"
            assert await asyncio.to_thread(wire.server.client_gone.wait, 5)
            await usable(wire, agent)


def _nothing(wire: Wire) -> bytes:
    """The beginning of a stream, in which nothing is said yet."""
    return b": keep-alive\n\n" if wire.render is render_openai else wire.chunks(say("x"))[0]


async def test_a_session_that_began_with_one_provider_goes_on_with_the_other(
    tmp_path: Path, wire: Wire, wire_servers: dict[str, FakeServer]
) -> None:
    """What the one gave (reasoning, calls, their ids) is in the history that the other is sent, and takes."""
    rich = reason("hm") + say("Let me see. ") + call("ring") + call("rang", '{"broken')
    async with talk(tmp_path, wire, wire.reply(rich), wire.reply(say("Rung."))) as (_, agent):
        await agent.prompt("Ring")
        await usable(wire, agent)
    name, make, render = "anthropic", _anthropic, render_anthropic
    if wire.render is render_anthropic:
        name, make, render = "openai", _openai, render_openai
    server = wire_servers[name]
    server.reset([Reply(list(render(say("I go on."))))])
    async with make_harness(tmp_path, model=make(server.url, 30, 0), plugins=plugin_host({"ring": Ring})) as harness:
        assert (await harness.open("one").prompt("And you?")).text == "I go on."
    assert server.refusals == []
