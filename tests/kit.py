"""A harness for tests: a scripted model, a clock the test moves, and plugins that are classes of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from attrs import define, evolve

from dsh_hookspecs import Event, Model, Payload
from dsh_time.deployment import load_deployment
from dsh_time.fold_set import decode_event
from dsh_time.harness import Harness
from dsh_time.log import Record, scan
from dsh_time.models.scripted import Played, ScriptedModel
from dsh_time.plugin_host import PluginHost
from dsh_time.plugin_loading import PluginSource

#: 2026-07-14T08:30:00Z.
START_MS = 1_784_017_800_000


@define
class Clock:
    """A wall clock in epoch ms that moves only when a test says so."""

    now: int = START_MS

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        self.now += round(seconds * 1000) + ms


class _Class(EntryPoint):
    """An entry point that gives a class of the test instead of importing one."""

    def load(self) -> Any:
        return _CLASSES[self.value]


_CLASSES: dict[str, type] = {}


def source_of(name: str, cls: type) -> PluginSource:
    """Return an installed plugin whose class is `cls`."""
    value = f"{cls.__module__}:{cls.__qualname__}.{len(_CLASSES)}"  # classes made by one function share a name
    _CLASSES[value] = cls
    return PluginSource(name, name, "1.0", _Class(name=name, value=value, group="dsh_time.plugins"))


def plugin_host(classes: Mapping[str, type], *, enable: Sequence[str] | None = None) -> PluginHost:
    """Return a host with these classes as installed plugins, those in `enable` (default: all) enabled in this order."""
    sources = {name: source_of(name, cls) for name, cls in classes.items()}
    deployment = load_deployment(enable=list(sources) if enable is None else enable, installed=list(sources))
    return PluginHost(deployment, sources=sources)


def make_harness(
    root: Path,
    *answers: Played,
    model: Model | None = None,
    clock: Clock | None = None,
    limits: Mapping[str, int] | None = None,
    new_id: Callable[[], str] | None = None,
    plugins: Mapping[str, type] | PluginHost | None = None,
) -> Harness:
    """Return a harness whose model plays `answers` and whose plugins are the given ones."""
    host = plugins if isinstance(plugins, PluginHost) else plugin_host(plugins or {})
    deployment = evolve(host.deployment, limits=evolve(host.deployment.limits, **(limits or {})))
    return Harness(
        deployment,
        root=root,
        plugins=host,
        model=model or ScriptedModel(*answers),
        now_ms=clock or Clock(),
        monotonic=lambda: 0.0,
        new_id=new_id,
    )


def logged(directory: Path) -> list[Event]:
    """Return every event of a log on disk."""
    events: list[Event] = []

    def on_record(record: Record) -> None:
        if (event := decode_event(record, directory)) is not None:
            events.append(event)

    scan(directory, on_record=on_record)
    return events


def types(directory: Path) -> list[str]:
    """Return the types of all events of a log on disk."""
    return [event.data.type for event in logged(directory)]


def payloads(directory: Path, *kinds: type[Payload]) -> list[Any]:
    """Return the payloads of these types in a log on disk."""
    return [event.data for event in logged(directory) if isinstance(event.data, kinds)]
