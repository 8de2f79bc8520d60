"""The plugin host: which plugins are enabled, and how one loadout takes the place of another.

Only what the deployment enables is imported. A change builds and checks a whole new loadout first; when it fails, the
old one stays. Plugins that both have are the same instances, so nobody's tools and folds are registered twice. The
host keeps nothing of a plugin that left (Python itself keeps its modules). Calls come from one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import attrs

from dsh_time import models
from dsh_time.deployment import BUILT_IN, Deployment, PluginEntry, install_command
from dsh_time.deployment_layers import OWN_PLUGINS, default_id, to_install
from dsh_time.deployment_models import provider_plugin
from dsh_time.errors import PluginLoadError
from dsh_time.loadout import Loadout, Plugin, SlowHooks
from dsh_time.plugin_loading import PluginProblem, PluginSource, load_plugin, scan_plugins
from dsh_time.problems import did_you_mean

if TYPE_CHECKING:
    import click


@attrs.frozen
class PluginStatus:
    """A plugin as the user is told of it.

    `id` is empty for one that is installed but not in the deployment. `order` counts enabled plugins from 1. `hooks`
    is known of enabled plugins only, because nothing else is imported.
    """

    id: str
    name: str
    version: str
    distribution: str
    state: Literal["enabled", "disabled", "failed", "not installed", "not listed"]
    reason: str
    hooks: tuple[str, ...] = ()
    order: int | None = None


class PluginHost:
    """The plugins of a process.

    `deployment` is replaced by each change. `sources` are the installed plugins (default: a scan when they are first
    needed). `monotonic` gives seconds. With `tolerant` a plugin that cannot be loaded is left out, and `statuses`
    says why; without, the constructor raises PluginLoadError with all that is wrong.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        sources: Mapping[str, PluginSource] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        tolerant: bool = False,
    ) -> None:
        self._given_sources = sources
        self._slow = SlowHooks(deployment.limits.slow_hook_ms, monotonic)
        self.deployment = deployment
        #: The current loadout. A step takes it once and keeps it.
        self.loadout = Loadout(slow=self._slow)
        self._left_out: dict[str, tuple[PluginProblem, ...]] = {}
        self._use(deployment, tolerant=tolerant)

    @cached_property
    def sources(self) -> Mapping[str, PluginSource]:
        """The installed plugins by name."""
        return scan_plugins() if self._given_sources is None else self._given_sources

    def enable(self, word: str) -> Loadout:
        """Enable what `word` names (an id, a name, an installed plugin, which is then added); return the new loadout.

        Raises DeploymentError when nothing is called so, PluginLoadError when it cannot be loaded; then nothing
        changed.
        """
        return self.change(enable=[word])

    def disable(self, word: str) -> Loadout:
        """Disable the entry `word` names and return the new loadout. Raises as `enable` does."""
        return self.change(disable=[word])

    def swap(self, out: str, into: str) -> Loadout:
        """Disable `out` and enable `into` in one go. Raises as `enable` does."""
        return self.change(disable=[out], enable=[into])

    def change(self, *, enable: Sequence[str] = (), disable: Sequence[str] = ()) -> Loadout:
        """Disable and enable plugins, all or nothing. Raises as `enable` does."""
        self._use(self.deployment.switched(enable=enable, disable=disable, installed=self.sources))
        return self.loadout

    def statuses(self) -> tuple[PluginStatus, ...]:
        """Every entry of the deployment in its order, then the installed plugins that it does not list."""
        listed = {entry.name for entry in self.deployment.plugins}
        others = [
            PluginStatus("", source.name, source.version, source.distribution, "not listed", source.problem)
            for source in self.sources.values()
            if source.name not in listed
        ]
        return (*map(self._status, self.deployment.plugins), *others)

    def advice(self, provider: str) -> str:
        """Say what to do so that somebody offers a model provider which nobody offers now."""
        name = provider_plugin(provider)
        for status in self.statuses():
            if status.name == name and status.state == "disabled":
                return f"Its plugin {name} is disabled ({status.reason}): enable it, or choose a model with `--model`."
            if status.name == name and status.state == "not listed":
                return f"Its plugin is installed: add `- name: {name}` to `plugins:`."
        if name in OWN_PLUGINS:
            return f"It comes with the plugin {name}{to_install(name)}"
        offered = [*models.BUILT_IN, *self.loadout.providers, *map(default_id, self.sources)]
        known = "A provider is known when its plugin is installed and enabled; `dsh-time plugins` lists them."
        return did_you_mean(provider, offered).replace("; d", "D") or known

    def add_commands(self, group: click.Group) -> None:
        """Add the commands of the enabled plugins to `group`; see `Loadout.add_commands`."""
        self.loadout.add_commands(group)

    def _status(self, entry: PluginEntry) -> PluginStatus:
        for order, plugin in enumerate(self.loadout.plugins, start=1):
            if plugin.id == entry.id:
                return PluginStatus(
                    entry.id,
                    plugin.name,
                    plugin.version,
                    plugin.distribution,
                    "enabled",
                    entry.place,
                    plugin.hooks,
                    order,
                )
        source = self.sources.get(entry.name)
        if source is None:
            return PluginStatus(entry.id, entry.name, "", "", "not installed", install_command(entry.name))
        status = partial(PluginStatus, entry.id, source.name, source.version, source.distribution)
        if problems := self._left_out.get(entry.id):
            return status("failed", "; ".join(problem.message for problem in problems))
        return status("disabled", source.problem or entry.place)

    def _use(self, deployment: Deployment, *, tolerant: bool = False) -> None:
        loaded: list[Plugin] = []
        failed: dict[str, tuple[PluginProblem, ...]] = {}
        present = {plugin.id: plugin for plugin in self.loadout.plugins}
        for entry in deployment.plugins:
            if entry.disabled or (entry.origin == BUILT_IN and entry.name not in self.sources):
                continue
            try:
                plugin = present.get(entry.id) or self._load(deployment, entry)
                problems = _collisions(plugin, loaded, deployment)
            except PluginLoadError as error:
                problems = error.problems
            if problems:
                failed[entry.id] = problems
            else:
                loaded.append(plugin)
        if failed and not tolerant:
            raise PluginLoadError(tuple(problem for problems in failed.values() for problem in problems))
        self.loadout = Loadout(tuple(loaded), self._slow)
        self.deployment, self._left_out = deployment, failed

    def _load(self, deployment: Deployment, entry: PluginEntry) -> Plugin:
        source = self.sources.get(entry.name)
        if source is None:
            # A slip, such as a name without `dsh-`, is no reason to install whatever package has that name.
            slip = "" if entry.name in OWN_PLUGINS else did_you_mean(entry.name, (*self.sources, *OWN_PLUGINS))
            hint = slip or to_install(entry.name)
            message = f"it is not installed, but enabled by {entry.place}{hint}"
            raise PluginLoadError((PluginProblem(entry.name, "", "", message),))
        return load_plugin(entry.id, source, partial(deployment.configure, entry))


def _collisions(plugin: Plugin, loaded: Sequence[Plugin], deployment: Deployment) -> tuple[PluginProblem, ...]:
    """What keeps `plugin` from standing beside those that are loaded already."""
    entries = {entry.id: entry for entry in deployment.plugins}
    problems = []

    def refuse(hook: str, message: str) -> None:
        problems.append(PluginProblem(plugin.name, f"{plugin.distribution} {plugin.version}", hook, message))

    for name in sorted(_provider_names(plugin) & set(models.BUILT_IN)):
        refuse("register_models", f"the model provider {name!r} is the host's own; give it another name")
    for other in loaded:
        owner = f"plugin {other.name} (distribution {other.distribution} {other.version})"
        for name in sorted(_tool_names(plugin) & _tool_names(other)):
            refuse("register_tools", f"the tool {name!r} is offered by {owner} too; disable one of the two")
        for name in sorted(_provider_names(plugin) & _provider_names(other)):
            refuse("register_models", f"the model provider {name!r} is offered by {owner} too; disable one of the two")
        if other.name in plugin.conflicts or plugin.name in other.conflicts:
            lines = [f"{one.id} ({entries[one.id].place})" for one in (other, plugin)]
            way = "disable one of the two, with `--disable` or `disabled: true` in its entry:"
            refuse("", f"it excludes {owner}; {way} {' or '.join(lines)}")
    return tuple(problems)


def _tool_names(plugin: Plugin) -> set[str]:
    return {owned.tool.name for owned in plugin.tools}


def _provider_names(plugin: Plugin) -> set[str]:
    return {provider.name for provider in plugin.providers}
