"""The library's front door: a harness holds the plugins, the model and the live sessions of a process.

deployment = load_deployment()
async with Harness(deployment) as harness:
    agent = harness.create()
    result = await agent.prompt("What time is it?")
    print(result.text)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

import msgspec

import dsh_time
from dsh_hookspecs import ChildAnswer, Model, ModelError, ToolError

from .agent import Agent, Runtime
from .deployment import Deployment
from .errors import LogError, ModelNotReady, UnknownProvider, text_of
from .folds import ClientZone
from .lineage import MAX_DEPTH, LineageReader
from .log import FILES, FileIo, SessionHeader, fork
from .models import BUILT_IN
from .plugin_host import PluginHost
from .recorder import OpenTurns
from .replay import last_settled_seq
from .session import Session
from .store import Store, default_root, new_session_id

WRITER: Final = f"dsh-time {dsh_time.__version__}"

#: Bytes of JSON that a model's settings may have in a request's header.
MAX_CONFIG_BYTES: Final = 65_536


def _check_config(model: Model) -> None:
    """Raise ModelError when a model's `config` cannot be logged with each request's header."""
    try:
        config = dict(model.config)
        logged = msgspec.json.encode(config)
        is_plain = msgspec.json.decode(logged) == config
    except Exception as error:  # a provider's property may do anything
        raise ModelError(f"its config cannot be logged: {type(error).__name__}: {text_of(error)}") from error
    if not is_plain or len(logged) > MAX_CONFIG_BYTES:
        raise ModelError(f"its config must be plain JSON values of at most {MAX_CONFIG_BYTES} bytes")


def wall_clock_ms() -> int:
    """Return the wall clock in epoch ms."""
    return time.time_ns() // 1_000_000


class Harness:
    """Makes, opens and forks sessions and gives each live one its agent.

    `root` is the directory that holds the sessions (default: the deployment's `sessions.root`, else the platform's
    data folder). `plugins` and `model` replace those the deployment asks for. `now_ms` is the wall clock in epoch ms,
    `monotonic` gives seconds that never go back, `new_id` names new sessions (default: by their time, UTC, and a
    random end). `io` is what logs touch files through. `force` writes on a network file system.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        root: Path | None = None,
        plugins: PluginHost | None = None,
        model: Model | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] | None = None,
        io: FileIo = FILES,
        force: bool = False,
    ) -> None:
        self.plugins = PluginHost(deployment, monotonic=monotonic) if plugins is None else plugins
        self.store = Store(root or deployment.sessions.root or default_root())
        self.live: dict[str, Agent] = {}
        self._deployment = deployment
        self._model = model
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._new_id = new_id or self._dated_id
        self._io = io
        self._force = force
        self._open_turns = OpenTurns()
        self._lineage = LineageReader(self.store, self._live_session, lambda: self.plugins.loadout.folds, io)

    @property
    def model(self) -> Model:
        """The deployment's model, made when it is first needed.

        Raises UnknownProvider, DeploymentError when its settings are wrong, and ModelNotReady when its provider cannot
        make it.
        """
        if self._model is None:
            offered = self.plugins.loadout.providers
            name = self._deployment.model["provider"]
            provider = offered.get(name) or BUILT_IN.get(name)
            if provider is None:
                raise UnknownProvider(name, sorted({*BUILT_IN, *offered}), self.plugins.advice(name))
            settings = self._deployment.model_settings(provider.settings)
            try:
                model = provider.create(settings)
                _check_config(model)
            except ModelError as error:
                raise ModelNotReady(name, str(error)) from None
            self._model = model
        return self._model

    def create(self, session_id: str | None = None) -> Agent:
        """Make a new session; its id says when it was made (UTC). Raises LogError."""
        return self._create(
            SessionHeader(
                id=self._new_id() if session_id is None else session_id, created_at=self._now_ms(), writer=WRITER
            )
        )

    def _create(self, header: SessionHeader) -> Agent:
        model = self.model
        directory, loadout = self.store.directory(header.id), self.plugins.loadout
        session = Session.create(directory, header, loadout, io=self._io, force=self._force)
        return self._agent(session, model)

    def open(self, session_id: str, *, io: FileIo | None = None) -> Agent:
        """Open a session for writing; a turn that a crash left open is closed. Returns the agent if it is live here.

        `io` takes the place of the harness's own for this session.

        Raises LogError: SessionNotFound, SessionLocked, DamagedLog and others.
        """
        if (agent := self.live.get(session_id)) is not None and not agent.closed:
            return agent
        model = self.model
        directory, loadout = self.store.directory(session_id), self.plugins.loadout
        session = Session.open(directory, loadout, io=io or self._io, force=self._force)
        return self._agent(session, model)

    def fork(self, session_id: str, new_id: str | None = None) -> str:
        """Copy a session into a new one and return its id. Works while somebody writes the source.

        The copy ends where the source does, or before its open turn. It is nobody's child and inherits no inbox.
        Raises LogError.
        """
        new_id = self._new_id() if new_id is None else new_id
        source, target = self.store.directory(session_id), self.store.directory(new_id)
        upto = last_settled_seq(source, io=self._io)
        header = SessionHeader(
            id=new_id,
            created_at=self._now_ms(),
            writer=WRITER,
            forked_from=session_id,
            seed_length=upto + 1,
        )
        fork(source, target, header, upto, io=self._io, force=self._force)
        return new_id

    async def close(self) -> None:
        """End all turns, close all sessions, and give the model's connections back.

        All of that is done even when some of it fails; what failed last is raised.
        """
        async with AsyncExitStack() as stack:
            if self._model is not None:
                stack.push_async_callback(self._model.close)
            for agent in self.live.values():
                agent.cancel("closed")
                stack.push_async_callback(self.close_session, agent.id)

    async def close_session(self, session_id: str) -> None:
        """End the session's turn and close it; nothing happens when it is not live."""
        if (agent := self.live.pop(session_id, None)) is not None:
            await agent.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _agent(self, session: Session, model: Model) -> Agent:
        runtime = Runtime(
            loadout=lambda: self.plugins.loadout,
            model=model,
            limits=self._deployment.limits,
            now_ms=self._now_ms,
            monotonic=self._monotonic,
            wake=self._wake,
            lineage=self._lineage.relatives_of,
            spawn=self._spawn,
            open_turns=self._open_turns,
        )
        try:
            agent = self.live[session.id] = Agent(session, runtime)
        except BaseException:
            session.close()
            raise
        return agent

    def _live_session(self, session_id: str) -> Session | None:
        agent = self.live.get(session_id)
        return None if agent is None or agent.closed else agent.session

    async def _spawn(self, parent: Agent, prompt: str, resume: str | None) -> ChildAnswer:
        child = self._make_child(parent) if resume is None else self._resume_child(parent, resume)
        parent.children.add(child)
        try:
            result = await child.prompt(prompt, client_time_zone=parent.session.fold(ClientZone).name)
        finally:
            parent.children.discard(child)
            await self.close_session(child.id)
        return ChildAnswer(session=child.id, text=result.text, reason=result.reason)

    def _make_child(self, parent: Agent) -> Agent:
        session_id = self._new_id()
        parent.log_spawned(session_id)
        ancestors = self._lineage.relatives_of(parent.session).ancestors(MAX_DEPTH)
        for ancestor in ancestors:
            ancestor.sync()
        header = SessionHeader(
            id=session_id,
            created_at=self._now_ms(),
            writer=WRITER,
            parent_session=parent.id,
            ancestor_seqs=(parent.session.next_seq - 1, *(ancestor.last_seq for ancestor in ancestors)),
            delegation_depth=parent.session.header.delegation_depth + 1,
            origin="subagent",
        )
        return self._create(header)

    def _resume_child(self, parent: Agent, session_id: str) -> Agent:
        children = self._lineage.relatives_of(parent.session).descendants(1)
        if session_id not in [child.session.id for child in children]:
            raise ToolError(f"There is no child session {session_id!r} of this one.")
        if session_id in self.live:
            raise ToolError(f"The child session {session_id} is in use. Wait until it has ended.")
        try:
            return self.open(session_id)
        except LogError as error:
            raise ToolError(f"The child session {session_id} cannot go on: {error}") from error

    def _wake(self, sessions: Iterable[str]) -> None:
        for session_id in sessions:
            if (agent := self.live.get(session_id)) is not None:
                agent.wake()

    def _dated_id(self) -> str:
        return new_session_id(self._now_ms())
