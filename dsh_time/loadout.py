"""A loadout: the plugins of a moment, and the one place that calls their hooks.

A loadout never changes. A step takes one and keeps it, so a plugin that is swapped meanwhile takes effect with the
next step. Hooks are called one by one (a plain pluggy call drops everybody's results when one raises), in the
deployment's order. A hook that raises or returns nonsense contributes nothing, and everybody else's answer stands:
contained are `Exception` and SystemExit, with which a plugin would end a process that is not its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen

from dsh_hookspecs import (
    Fold,
    LoadedPlugin,
    Message,
    ModelProvider,
    PluginError,
    Prompt,
    PromptSection,
    Reject,
    SessionView,
    Step,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSchema,
)
from dsh_time import hook_values
from dsh_time.hook_values import HookValueError

if TYPE_CHECKING:
    from datetime import datetime

    import click

T = TypeVar("T")

#: Told of each failure while a turn runs; the caller logs it to the session.
Report = Callable[[PluginError], None]

_log = logging.getLogger(__name__)


@frozen
class OwnedTool:
    """A tool, the name of the plugin that offers it, and the schema that the model is told."""

    tool: Tool
    owner: str
    schema: ToolSchema


@frozen(eq=False)
class HookCall:
    """One hook implementation. `positions` are the indices of the hook's arguments that it takes, in its own order."""

    function: Callable[..., object]
    positions: tuple[int, ...]


@frozen(eq=False)
class Plugin:
    """A loaded plugin.

    `id` is the deployment's, `name` the entry point's; `name` owns tools and messages. `calls` has each hook that is
    implemented, in the order of the hook specifications.
    """

    id: str
    name: str
    version: str
    distribution: str
    instance: object
    conflicts: tuple[str, ...] = ()
    calls: Mapping[str, tuple[HookCall, ...]] = field(factory=dict)
    tools: tuple[OwnedTool, ...] = ()
    folds: tuple[type[Fold], ...] = ()
    providers: tuple[ModelProvider, ...] = ()

    @property
    def hooks(self) -> tuple[str, ...]:
        """The names of the hooks it implements."""
        return tuple(self.calls)


@frozen(eq=False)
class SlowHooks:
    """Warns of hooks that take longer than `limit_ms`, once per plugin and hook. `monotonic` gives seconds."""

    limit_ms: int = 50
    monotonic: Callable[[], float] = time.monotonic
    _warned: set[tuple[str, str]] = field(factory=set, init=False)

    def check(self, plugin: Plugin, hook: str, started: float) -> None:
        """Warn when `hook`, called at `started`, took too long until now."""
        took_ms = (self.monotonic() - started) * 1000
        if took_ms > self.limit_ms and (plugin.name, hook) not in self._warned:
            self._warned.add((plugin.name, hook))
            _log.warning(
                "plugin %s (distribution %s): hook %s took %.0f ms (limits.slowHookMs is %d); said once",
                plugin.name,
                plugin.distribution,
                hook,
                took_ms,
                self.limit_ms,
            )


@frozen
class Rejection:
    """The plugin called `plugin` ends the turn before the model is asked."""

    plugin: str
    reason: str


@frozen(eq=False)
class Loadout:
    """Plugins in the deployment's order, and all they registered. `Loadout()` is the empty one.

    Names of tools and providers are unique over `plugins`; the plugin host sees to that before it makes a loadout.
    """

    plugins: tuple[Plugin, ...] = ()
    _slow: SlowHooks = field(factory=SlowHooks)
    #: For the request header.
    described: tuple[LoadedPlugin, ...] = field(init=False)
    #: By tool name, sorted.
    tools: Mapping[str, OwnedTool] = field(init=False)
    tool_schemas: tuple[ToolSchema, ...] = field(init=False)
    #: Owner and class. A class that two plugins register stands once, with the first.
    folds: tuple[tuple[str, type[Fold]], ...] = field(init=False)
    providers: Mapping[str, ModelProvider] = field(init=False)
    _calls: Mapping[str, tuple[tuple[Plugin, HookCall], ...]] = field(init=False)

    @described.default
    def _described(self) -> tuple[LoadedPlugin, ...]:
        return tuple(LoadedPlugin(plugin.name, plugin.version, plugin.distribution) for plugin in self.plugins)

    @tools.default
    def _tools(self) -> Mapping[str, OwnedTool]:
        owned = {tool.tool.name: tool for plugin in self.plugins for tool in plugin.tools}
        return MappingProxyType(dict(sorted(owned.items())))

    @tool_schemas.default
    def _tool_schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema for tool in self.tools.values())

    @folds.default
    def _folds(self) -> tuple[tuple[str, type[Fold]], ...]:
        owners: dict[type[Fold], str] = {}
        for plugin in self.plugins:
            for kind in plugin.folds:
                owners.setdefault(kind, plugin.name)
        return tuple((owner, kind) for kind, owner in owners.items())

    @providers.default
    def _providers(self) -> Mapping[str, ModelProvider]:
        return MappingProxyType({provider.name: provider for plugin in self.plugins for provider in plugin.providers})

    @_calls.default
    def _calls_by_hook(self) -> Mapping[str, tuple[tuple[Plugin, HookCall], ...]]:
        hooks = dict.fromkeys(hook for plugin in self.plugins for hook in plugin.calls)
        return {
            hook: tuple((plugin, call) for plugin in self.plugins for call in plugin.calls.get(hook, ()))
            for hook in hooks
        }

    def without(self, names: Collection[str]) -> Loadout:
        """The loadout without the plugins of these names."""
        return Loadout(tuple(plugin for plugin in self.plugins if plugin.name not in names), self._slow)

    def failure(self, name: str, hook: str, error: Exception) -> PluginError:
        """Warn that something of the plugin `name` failed outside a hook call; return what is logged of it."""
        (plugin,) = (plugin for plugin in self.plugins if plugin.name == name)
        errors: list[PluginError] = []
        _failed(plugin, hook, error, errors.append)
        return errors[0]

    def sections(self, prompt: Prompt, report: Report) -> tuple[PromptSection, ...]:
        """The system prompt's sections by (order, name), without empty ones.

        Of two sections with one name the later plugin's is left out, and reported; and so is what makes all of them
        together too long.
        """
        hook = "system_prompt_section"
        owners: dict[str, str] = {}
        found: list[PromptSection] = []
        free = hook_values.MAX_CHARACTERS
        for plugin, sections in self._results(hook, (prompt,), hook_values.sections, report):
            for section in sections:
                if len(section.text) > free:
                    full = f"returned the section {section.name!r}, for which the system prompt has no room left"
                    _failed(plugin, hook, HookValueError(full), report)
                elif owner := owners.get(section.name):
                    taken = f"returned the section {section.name!r}, which plugin {owner} has returned already"
                    _failed(plugin, hook, HookValueError(taken), report)
                else:
                    owners[section.name] = plugin.name
                    found.append(section)
                    free -= len(section.text)
        return tuple(sorted(found, key=lambda section: (section.order, section.name)))

    def before_step(self, step: Step, report: Report) -> list[tuple[str, Message]] | Rejection:
        """Plugin name and message, in the deployment's order; or the first rejection, after which no hook is called."""
        found: list[tuple[str, Message]] = []
        for plugin, answer in self._results("before_step", (step,), hook_values.messages, report):
            if isinstance(answer, Reject):
                return Rejection(plugin.name, answer.reason)
            found += [(plugin.name, message) for message in answer]
        return found

    def tool_result(self, context: ToolContext, output: ToolOutput, report: Report) -> ToolOutput:
        """`output` after every plugin has seen it, each the answer of the one before. `is_error` stays what it is."""
        hook = "on_tool_result"
        for plugin, call in self._calls.get(hook, ()):
            check = partial(hook_values.tool_output, current=output)
            for changed in self._result(plugin, hook, call, (context, output), check, report):
                output = changed
        return output

    def status_lines(self, session: SessionView, now: datetime, report: Report) -> list[str]:
        """What plugins show a person of the session at `now` (UTC), in the deployment's order, without empty ones."""
        results = self._results("status_line", (session, now), hook_values.status_line, report)
        return [line for _, line in results if line]

    def add_commands(self, group: click.Group) -> None:
        """Add the commands of all plugins to `group`.

        A plugin whose hook fails, or that has a command under a name that is taken, adds none; that is one warning.
        """
        import click

        for plugin, call in self._calls.get("register_commands", ()):
            own = click.Group()
            check = partial(_new_commands, own=own, group=group)
            for commands in self._result(plugin, "register_commands", call, (own,), check, _no_report):
                for name, command in commands.items():
                    group.add_command(command, name)

    def _results(
        self, hook: str, arguments: Sequence[object], check: Callable[[object], T], report: Report
    ) -> Iterator[tuple[Plugin, T]]:
        for plugin, call in self._calls.get(hook, ()):
            for result in self._result(plugin, hook, call, arguments, check, report):
                yield plugin, result

    def _result(
        self,
        plugin: Plugin,
        hook: str,
        call: HookCall,
        arguments: Sequence[object],
        check: Callable[[object], T],
        report: Report,
    ) -> tuple[T] | tuple[()]:
        """What the hook gave, checked; nothing when it failed."""
        started = self._slow.monotonic()
        try:
            result = check(call.function(*[arguments[index] for index in call.positions]))
        except (Exception, SystemExit) as error:  # whatever a plugin raises: the turn goes on
            _failed(plugin, hook, error, report)
            return ()
        finally:
            self._slow.check(plugin, hook, started)
        return (result,)


def _failed(plugin: Plugin, hook: str, error: BaseException, report: Report) -> None:
    kind, message = type(error).__name__, hook_values.describe_error(error)
    _log.warning(
        "plugin %s (distribution %s): hook %s failed: %s: %s", plugin.name, plugin.distribution, hook, kind, message
    )
    _log.debug("where the hook %s of plugin %s failed", hook, plugin.name, exc_info=error)
    report(PluginError(plugin=plugin.name, distribution=plugin.distribution, hook=hook, error=kind, message=message))


def _new_commands(_: object, own: click.Group, group: click.Group) -> Mapping[str, click.Command]:
    for name in own.commands:
        if name in group.commands:
            raise HookValueError(f"added the command {name!r}, which there is already")
    return own.commands


def _no_report(_: PluginError) -> None:
    pass
