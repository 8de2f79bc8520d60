"""A loopback HTTP server whose answers a test scripts, down to where the connection breaks."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send


@dataclass
class Reply:
    """An answer. Each chunk is one HTTP chunk; `then`: what follows the last, `hang` until the client goes."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    then: Literal["end", "cut", "hang"] = "end"


@dataclass
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeServer:
    """Answers each request at `path` with the next of `replies`; what `refuse` finds wrong with it is a 400 instead.

    One whose body was given to `expect` gets the reply that was given with it.
    """

    path: str
    refuse: Callable[[Any], str | None]
    error: Callable[[str], object]
    replies: deque[Reply] = field(default_factory=deque)
    expected: dict[bytes, deque[Reply]] = field(default_factory=dict)
    requests: list[Received] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    client_gone: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def reset(self, replies: Iterable[Reply]) -> None:
        """Forget what was, and answer with `replies`."""
        self.replies = deque(replies)
        self.requests, self.refusals = [], []
        self.expected = {}
        self.asked.clear()
        self.client_gone.clear()

    def expect(self, body: bytes, reply: Reply) -> None:
        """Answer the next request of exactly these bytes with `reply`, whatever comes before it."""
        self.expected.setdefault(body, deque()).append(reply)

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        self.requests.append(Received(request.url.path, dict(request.headers), body))
        self.asked.set()
        if (wrong := self.refuse(json.loads(body))) is not None:
            self.refusals.append(wrong)
            return JSONResponse(self.error(wrong), status_code=400)
        return _Scripted(self.expected.get(body, self.replies).popleft(), self.client_gone)

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        """Serve in a thread on a free loopback port."""
        app = Starlette(routes=[Route(self.path, self._answer, methods=["POST"])])
        config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        # With the protocol named, asyncio turns Nagle's algorithm off, which would cost 40 ms for each answer.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
            listener.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.should_exit = True
                thread.join(10)


class _Scripted(Response):
    def __init__(self, reply: Reply, client_gone: threading.Event) -> None:
        super().__init__(status_code=reply.status, headers=dict(reply.headers))
        del self.headers["content-length"]
        self._reply, self._client_gone = reply, client_gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._reply.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if self._reply.then == "hang":
            while (await receive())["type"] != "http.disconnect":
                pass
            self._client_gone.set()
        if self._reply.then == "cut":
            return  # the server closes the connection of an answer that did not end
        await send({"type": "http.response.body", "body": b"", "more_body": False})
