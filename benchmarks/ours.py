"""This project's side of the benchmarks: a harness with a model that answers at once and one tool."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
from attrs import field, frozen

import workload
from dsh_hookspecs import (
    Finished,
    Model,
    ModelDelta,
    ModelRequest,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolContext,
    hookimpl,
)
from dsh_time.deployment import load_deployment
from dsh_time.harness import Harness
from dsh_time.log import FILES, FileIo
from dsh_time.plugin_host import PluginHost
from dsh_time.plugin_loading import PluginSource, scan_plugins

SESSION = "bench"


class NoSync(FileIo):
    """Real files whose syncs do nothing: what is left is the cost of the harness itself."""

    def sync_data(self, descriptor: int) -> None:
        """Return at once."""

    def sync(self, descriptor: int) -> None:
        """Return at once."""


class CountedSyncs(FileIo):
    """Real files that count how often data is synced."""

    count = 0

    def sync_data(self, descriptor: int) -> None:
        """Sync, and count it."""
        self.count += 1
        super().sync_data(descriptor)


class InstantModel:
    """Asks for the tool after a user's message and answers in text after a tool's; `with_tool` off: in text at once.

    `query_length` is how long the query is that the tool is called with.
    """

    config: Mapping[str, object] = {"provider": "instant", "model": "instant"}

    def __init__(self, *, with_tool: bool = True, query_length: int = 288) -> None:
        self._turn = 0
        self._with_tool = with_tool
        self._query_length = query_length

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelDelta]:
        """Answer without looking further than at the last message."""
        if request.messages[-1].role == "tool" or not self._with_tool:
            yield TextDelta(workload.answer(self._turn))
            yield Finished("end")
        else:
            self._turn += 1
            query = workload.query(self._turn)[: self._query_length]
            yield ToolCallDelta(0, "search", msgspec.json.encode({"query": query}).decode())
            yield Finished("tool-calls")

    async def close(self) -> None:
        """Nothing to give back."""


class SearchArguments(msgspec.Struct, frozen=True):
    """Arguments of `search`."""

    query: str


@frozen(eq=False)
class Search:
    """A plugin with one tool, a plain function as most tools are."""

    @hookimpl
    def register_tools(self) -> list[Tool]:
        """Offer `search`."""
        return [Tool("search", "Search the survey.", SearchArguments, self._run)]

    def _run(self, arguments: SearchArguments, context: ToolContext) -> str | Awaitable[str]:
        return workload.found(len(arguments.query))


@frozen(eq=False)
class AsyncSearch(Search):
    """The same with an async tool, which needs no thread."""

    async def _run(self, arguments: SearchArguments, context: ToolContext) -> str:
        return workload.found(len(arguments.query))


class _Class(EntryPoint):
    """An entry point that gives a class of the benchmark instead of importing one."""

    def load(self) -> Any:
        return _CLASSES[self.value]


_CLASSES: dict[str, type] = {}


def source_of(name: str, cls: type) -> PluginSource:
    """Return an installed plugin whose class is `cls`."""
    _CLASSES[name] = cls
    return PluginSource(name, name, "1.0", _Class(name=name, value=name, group="dsh_time.plugins"))


def plugin_host(
    classes: Mapping[str, type], installed: Iterable[str] = (), config_file: Path | None = None
) -> PluginHost:
    """Return a host with these classes as plugins, and the installed plugins of these names; the file may set them."""
    found = scan_plugins()
    sources = {name: source_of(name, cls) for name, cls in classes.items()}
    sources |= {name: found[name] for name in installed}
    deployment = load_deployment(config_file=config_file, enable=list(sources), installed=list(sources))
    return PluginHost(deployment, sources=sources)


@frozen
class Bench:
    """Makes harnesses below `root`. `io` decides whether syncs are real, `search` is the plugin with the tool."""

    root: Path
    io: FileIo = FILES
    model: Model = field(factory=InstantModel)
    installed: tuple[str, ...] = ()
    search: type = Search

    def harness(self) -> Harness:
        """Return a harness with the tool `search` and the installed plugins asked for."""
        host = plugin_host({"search": self.search}, self.installed)
        return Harness(host.deployment, root=self.root, plugins=host, model=self.model, io=self.io)


async def seed(root: Path, messages: int, installed: tuple[str, ...] = ()) -> None:
    """Make the session `bench` below `root` by running turns until it holds so many messages (not synced)."""
    harness = Bench(root, NoSync(), installed=installed).harness()
    agent = harness.create(SESSION)
    for turn in range(messages // workload.MESSAGES_PER_TURN):
        await agent.prompt(workload.question(turn))
    await harness.close()
    os.sync()


def log_bytes(root: Path) -> int:
    """Return the size of the session's log."""
    return (root / SESSION / "log.jsonl").stat().st_size
