"""The library's front door: a harness holds the plugins, the model and the live sessions of a process.

deployment = load_deployment(enable=["time-context"], installed=scan_plugins())
async with Harness(deployment) as harness:
    agent = harness.create()
    result = await agent.prompt("What time is it?")
    print(result.text)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import dsh_time
from dsh_hookspecs import InboxSpliced, Model
from dsh_hookspecs.timefmt import instant_at

from .agent import Agent, Runtime
from .deployment import Deployment
from .errors import UnknownProvider
from .folds import Inbox
from .log import SessionHeader, fork
from .models import BUILT_IN
from .plugin_host import PluginHost
from .recorder import OpenTurns
from .replay import last_settled_seq
from .session import Session
from .store import Store, default_root

WRITER = f"dsh-time {dsh_time.__version__}"


def wall_clock_ms() -> int:
    """Return the wall clock in epoch ms."""
    return time.time_ns() // 1_000_000


class Harness:
    """Makes, opens and forks sessions and gives each live one its agent.

    `root` is the directory that holds the sessions (default: the deployment's `sessions.root`, else the platform's
    data folder). `plugins` and `model` replace those the deployment asks for. `force` writes on a network file system.
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
        force: bool = False,
    ) -> None:
        self.plugins = PluginHost(deployment, monotonic=monotonic) if plugins is None else plugins
        self.store = Store(root or deployment.sessions.root or default_root())
        self.live: dict[str, Agent] = {}
        self._deployment = deployment
        self._model = model
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._force = force
        self._open_turns = OpenTurns()

    @property
    def model(self) -> Model:
        """The deployment's model, made when it is first needed.

        Raises UnknownProvider, or DeploymentError when its settings are wrong.
        """
        if self._model is None:
            providers = {**BUILT_IN, **self.plugins.loadout.providers}
            name = self._deployment.model.get("provider")
            if name not in providers:
                raise UnknownProvider(name, sorted(providers))
            provider = providers[name]
            self._model = provider.create(self._deployment.model_settings(provider.settings))
        return self._model

    def create(self, session_id: str | None = None) -> Agent:
        """Make a new session; its id says when it was made (UTC). Raises LogError."""
        session_id = session_id or self._new_id()
        header = SessionHeader(id=session_id, created_at=self._now_ms(), writer=WRITER)
        model = self.model
        session = Session.create(
            self.store.directory(session_id), header, self.plugins.loadout.folds, force=self._force
        )
        return self._agent(session, model)

    def open(self, session_id: str) -> Agent:
        """Open a session for writing; a turn that a crash left open is closed. Returns the agent if it is live here.

        Raises LogError: SessionNotFound, SessionLocked, DamagedLog and others.
        """
        if (agent := self.live.get(session_id)) is not None:
            return agent
        model = self.model
        session = Session.open(self.store.directory(session_id), self.plugins.loadout.folds, force=self._force)
        return self._agent(session, model)

    def fork(self, session_id: str, new_id: str | None = None) -> str:
        """Copy a session into a new one and return its id. Works while somebody writes the source.

        The copy ends where the source does, or before its open turn. It is nobody's child and inherits no inbox.
        Raises LogError.
        """
        new_id = new_id or self._new_id()
        source, target = self.store.directory(session_id), self.store.directory(new_id)
        upto = last_settled_seq(source)
        header = SessionHeader(
            id=new_id,
            created_at=self._now_ms(),
            writer=WRITER,
            forked_from=session_id,
            seed_length=upto + 1,
        )
        fork(source, target, header, upto, force=self._force)
        with Session.open(target, force=self._force) as session:
            inbox = session.fold(Inbox)
            splices = (
                InboxSpliced(target="next-turn", start=0, removed_count=len(inbox.next_turn), outcome="canceled"),
                InboxSpliced(target="next-step", start=0, removed_count=len(inbox.next_step), outcome="canceled"),
            )
            session.append([splice for splice in splices if splice.removed_count], self._now_ms())
            session.sync()
        return new_id

    async def close(self) -> None:
        """End all turns, close all sessions, and give the model's connections back."""
        for agent in list(self.live.values()):
            await self.close_session(agent.id)
        if self._model is not None:
            await self._model.close()

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
            open_turns=self._open_turns,
        )
        try:
            agent = self.live[session.id] = Agent(session, runtime)
        except BaseException:
            session.close()
            raise
        return agent

    def _wake(self, sessions: Iterable[str]) -> None:
        for session_id in sessions:
            if (agent := self.live.get(session_id)) is not None:
                agent.wake()

    def _new_id(self) -> str:
        return f"{instant_at(self._now_ms()):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
