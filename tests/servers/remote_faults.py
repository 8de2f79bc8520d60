"""What every provider of remote models must stand, against its wire's fake server. A provider's tests subclass it."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from fake_server import FakeServer, Reply

from dsh_hookspecs import (
    ChatMessage,
    Finished,
    Header,
    Model,
    ModelDelta,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Retrying,
    TextBlock,
    TextDelta,
    ToolCallDelta,
)

KEY = "sk-SENTINEL-0123456789"
REQUEST = ModelRequest(
    Header(), [ChatMessage(id="m1", role="user", content=(TextBlock("What time is it?"),), source={"kind": "user"})]
)


@dataclass
class Naps:
    """Stands in for `asyncio.sleep`: notes how long it was asked to sleep, and does not."""

    asked: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


@dataclass(frozen=True)
class Wire:
    """One provider and its API. `make(url, naps, settings)`; `rich` streams one event per chunk, all kinds of them.

    `quiet`: how many chunks of `rich` come before the first delta; `needed`: after how many the answer is complete.
    """

    make: Callable[..., Model]
    rich: Sequence[bytes]
    quiet: int
    needed: int
    says: Callable[[str], Reply]
    url_path: str
    default_url_variable: str
    key_variable: str


async def collect(stream: AsyncIterator[ModelDelta]) -> tuple[list[ModelDelta], str]:
    """The deltas, and the text of the ModelError that ended them, or nothing."""
    deltas: list[ModelDelta] = []
    try:
        async for delta in stream:
            deltas.append(delta)  # noqa: PERF401 - those before an error count
    except ModelError as error:
        failure = error
    else:
        return deltas, ""
    assert leaks(failure) == []
    assert "\n" not in str(failure)
    return deltas, str(failure)


def leaks(error: BaseException) -> list[str]:
    """Where an error that a user or a log may see holds the key or other exceptions, which hold it."""
    shown = [str(error), repr(error), *traceback.format_exception(error)]
    chained = [repr(cause) for cause in (error.__cause__, error.__context__) if cause is not None]
    return [text for text in shown if KEY in text] + chained


def joined(deltas: Sequence[ModelDelta]) -> tuple[Any, ...]:
    """What the deltas say, however they are cut up."""
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            name, arguments = calls.get(delta.index, ["", ""])
            calls[delta.index] = [name + delta.name, arguments + delta.arguments]
    return (
        "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)),
        "".join(d.replay for d in deltas if isinstance(d, ReasoningDelta)),
        "".join(d.text for d in deltas if isinstance(d, TextDelta)),
        calls,
        [d for d in deltas if isinstance(d, Finished)],
    )


class RemoteFaults:
    """The tests. `wire` is the provider; the fixture `server` runs its fake server."""

    wire: ClassVar[Wire]

    @pytest.fixture(autouse=True)
    def _key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setenv("SENTINEL_KEY", KEY)
        monkeypatch.delenv(self.wire.default_url_variable, raising=False)

    def model(self, server: FakeServer | str, naps: Naps | None = None, **settings: object) -> Model:
        url = server if isinstance(server, str) else server.url
        settings = {"model": "m", "base_url": url + self.wire.url_path, "api_key_env": "SENTINEL_KEY", **settings}
        return self.wire.make(settings, naps or Naps())

    async def answer(
        self, server: FakeServer, replies: Sequence[Reply], naps: Naps | None = None, **settings: object
    ) -> tuple[list[ModelDelta], str]:
        server.reset(replies)
        model = self.model(server, naps, **settings)
        try:
            return await collect(model.stream(REQUEST))
        finally:
            await model.close()

    async def test_a_stream_cut_into_single_bytes_says_the_same(self, server: FakeServer) -> None:
        whole, _ = await self.answer(server, [Reply(self.wire.rich)])
        raw = b"".join(self.wire.rich)
        pieces, _ = await self.answer(server, [Reply([raw[i : i + 1] for i in range(len(raw))])])
        assert pieces == whole
        assert isinstance(whole[-1], Finished)

    async def test_a_stream_cut_in_two_at_any_byte_says_the_same(self, server: FakeServer) -> None:
        raw = b"".join(self.wire.says("\u2603 12:00").chunks)
        model = self.model(server)
        server.reset(Reply([raw[:i], raw[i:]]) for i in range(1, len(raw)))
        answers = {str(await collect(model.stream(REQUEST))) for _ in range(1, len(raw))}
        await model.close()
        assert len(answers) == 1
        assert "\u2603 12:00" in answers.pop()

    async def test_crlf_line_ends_say_the_same(self, server: FakeServer) -> None:
        whole, _ = await self.answer(server, [Reply(self.wire.rich)])
        other, _ = await self.answer(server, [Reply([chunk.replace(b"\n", b"\r\n") for chunk in self.wire.rich])])
        assert other == whole

    async def test_passing_refusals_are_retried_with_the_same_bytes_and_are_seen(self, server: FakeServer) -> None:
        naps = Naps()
        replies = [
            Reply(status=429, headers={"retry-after": "7"}),
            Reply(status=500),
            Reply(self.wire.rich[: self.wire.quiet], then="cut"),
            self.wire.says("12:00"),
        ]
        deltas, error = await self.answer(server, replies, naps)
        retries = [delta for delta in deltas if isinstance(delta, Retrying)]
        assert error == ""
        assert [(r.attempt, r.delay_s) for r in retries] == [(2, 7.0), (3, 1.0), (4, 2.0)]
        assert naps.asked == [7.0, 1.0, 2.0]
        assert "429" in retries[0].reason
        assert len({request.body for request in server.requests}) == 1
        assert len(server.requests) == 4
        assert TextDelta("12:00") in deltas

    async def test_after_the_last_retry_the_error_says_how_often_it_was_tried(self, server: FakeServer) -> None:
        deltas, error = await self.answer(server, [Reply(status=503)] * 3, retries=2)
        assert [type(delta) for delta in deltas] == [Retrying, Retrying]
        assert "status 503" in error
        assert "tried 3 times" in error

    async def test_a_server_that_asks_for_a_long_wait_is_not_waited_for(self, server: FakeServer) -> None:
        naps = Naps()
        deltas, error = await self.answer(server, [Reply(status=429, headers={"retry-after": "3600"})], naps)
        assert (deltas, naps.asked) == ([], [])
        assert "try again in 3600 s" in error

    async def test_a_connection_cut_after_any_chunk_keeps_what_came(self, server: FakeServer) -> None:
        whole, _ = await self.answer(server, [Reply(self.wire.rich)])
        for count in range(len(self.wire.rich)):
            reply = Reply(self.wire.rich[:count], then="cut")
            deltas, error = await self.answer(server, [reply], retries=0)
            if count >= self.wire.needed:
                assert (error, type(deltas[-1])) == ("", Finished)
            else:
                assert deltas == whole[: len(deltas)], count
                assert bool(deltas) == (count > self.wire.quiet), count
                assert error, count

    async def test_a_clean_end_before_the_answer_is_complete_is_an_error_too(self, server: FakeServer) -> None:
        _, error = await self.answer(server, [Reply(self.wire.rich[: self.wire.quiet + 1])])
        assert "ended the stream before the answer was complete" in error

    async def test_silence_longer_than_the_timeout_is_an_error_that_names_the_setting(self, server: FakeServer) -> None:
        for count in (0, self.wire.quiet + 1):
            reply = Reply(self.wire.rich[:count], then="hang")
            _, error = await self.answer(server, [reply], timeout_s=0.05)
            assert "sent nothing for 0.05 s: raise model.timeoutS" in error

    async def test_closing_the_stream_after_any_delta_closes_the_connection(self, server: FakeServer) -> None:
        model = self.model(server)
        whole, _ = await self.answer(server, [Reply(self.wire.rich)])
        for count in range(1, len(whole)):
            server.reset([Reply(self.wire.rich, then="hang")])
            stream = model.stream(REQUEST)
            assert [await anext(stream) for _ in range(count)] == whole[:count]
            await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator
            assert await asyncio.to_thread(server.client_gone.wait, 5)
        await model.close()

    async def test_cancelling_the_task_closes_the_connection(self, server: FakeServer) -> None:
        for count in (0, self.wire.quiet + 1):
            server.reset([Reply(self.wire.rich[:count], then="hang")])
            model = self.model(server)
            task = asyncio.create_task(collect(model.stream(REQUEST)))
            assert await asyncio.to_thread(server.asked.wait, 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.client_gone.wait, 5)
            await model.close()

    async def test_ten_megabytes_of_output_arrive(self, server: FakeServer) -> None:
        text = "tick " * 2_000_000
        deltas, error = await self.answer(server, [self.wire.says(text)])
        assert error == ""
        assert joined(deltas)[2] == text

    @pytest.mark.parametrize("junk", [b"{not json}", b"[1, 2]", b'{"x": "\xff"}', b"}", b"[" * 99999, b'"text"'])
    async def test_what_is_no_stream_of_the_api_is_an_error(self, server: FakeServer, junk: bytes) -> None:
        _, error = await self.answer(server, [Reply([b"event: message_start\ndata: " + junk + b"\n\n"])])
        assert "correct model.baseUrl" in error

    @pytest.mark.parametrize(
        ("content_type", "body"),
        [("text/html; charset=utf-8", b"<html>log in</html>"), ("application/json", b'{"choices": []}')],
    )
    async def test_what_is_no_stream_at_all_is_an_error(
        self, server: FakeServer, content_type: str, body: bytes
    ) -> None:
        _, error = await self.answer(server, [Reply([body], headers={"content-type": content_type})])
        kind = content_type.partition(";")[0]
        assert error.endswith(f"answers with {kind}, which is no stream of a chat API: correct model.baseUrl")

    async def test_a_stream_that_ends_before_it_began_is_asked_for_again(self, server: FakeServer) -> None:
        deltas, error = await self.answer(server, [Reply([b""]), self.wire.says("There.")])
        assert (error, joined(deltas)[2]) == ("", "There.")

    @pytest.mark.parametrize(
        ("status", "message", "expected"),
        [
            (401, "bad key", "refuses the key in SENTINEL_KEY: set a valid one: bad key"),
            (403, "", "does not let the key in SENTINEL_KEY use m"),
            (402, "Insufficient Balance", "no credit left"),
            (404, "model m does not exist", "has no model 'm': correct model.model"),
            (404, "Not Found", "correct model.baseUrl"),
            (400, "maximum context length is 8 tokens", "longer than m can read: start a new session"),
            (400, "prompt is too long: 9 tokens > 8", "longer than m can read: start a new session"),
            (400, "temperature is deprecated", "refuses the request (status 400): temperature is deprecated"),
        ],
    )
    async def test_a_refusal_says_what_to_change(
        self, server: FakeServer, status: int, message: str, expected: str
    ) -> None:
        body = json.dumps(server.error(message)).encode()
        reply = Reply([body], status=status, headers={"content-type": "application/json"})
        deltas, error = await self.answer(server, [reply])
        assert deltas == []
        assert expected in error

    async def test_without_a_key_a_refusal_says_how_to_name_one(self, server: FakeServer) -> None:
        _, error = await self.answer(server, [Reply(status=401)], api_key_env=None)
        assert "wants a key: set model.apiKeyEnv" in error

    async def test_a_redirect_is_not_followed(self, server: FakeServer) -> None:
        _, error = await self.answer(server, [Reply(status=307, headers={"location": "https://evil.example/v1"})])
        assert "redirects to evil.example" in error
        assert len(server.requests) == 1

    async def test_a_wrong_path_names_the_setting(self, server: FakeServer) -> None:
        model = self.model(server.url + "/elsewhere")
        _, error = await collect(model.stream(REQUEST))
        await model.close()
        assert "correct model.baseUrl" in error

    async def test_a_port_where_nothing_listens_and_a_server_without_tls_are_named(self, server: FakeServer) -> None:
        for url, expected in [
            ("http://127.0.0.1:9", "nothing answers at 127.0.0.1:9: start the server"),
            (server.url.replace("http:", "https:"), "does not speak TLS"),
        ]:
            model = self.model(url)
            _, error = await collect(model.stream(REQUEST))
            await model.close()
            assert expected in error

    async def test_an_unknown_host_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import socket

        def unknown(*_args: object, **_kwargs: object) -> object:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        model = self.model("https://no-such-host.example")
        _, error = await collect(model.stream(REQUEST))
        await model.close()
        assert "the host of no-such-host.example is unknown" in error

    async def test_the_key_is_in_no_error_log_record_or_repr(
        self, server: FakeServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        echo = json.dumps(server.error(f"bad key {KEY}\nAuthorization: Bearer {KEY}" + "x" * 5000)).encode()
        for status in (400, 401, 403, 404, 500):
            _, error = await self.answer(server, [Reply([echo], status=status)], retries=0)
            assert error
            assert len(error) < 500
        model = self.model(server)
        shown = repr(model) + repr(model.config) + caplog.text + "".join(str(r.__dict__) for r in caplog.records)
        await model.close()
        assert KEY not in shown
        assert any(KEY in value for value in server.requests[0].headers.values())

    async def test_one_model_answers_sessions_at_the_same_time(self, server: FakeServer) -> None:
        server.reset([self.wire.says("12:00")] * 8)
        model = self.model(server)
        answers = await asyncio.gather(*(collect(model.stream(REQUEST)) for _ in range(8)))
        await model.close()
        assert [joined(deltas)[2] for deltas, _ in answers] == ["12:00"] * 8
