"""From an installed distribution to a loaded plugin: the scan of entry points, and all that can be refused at load.

The scan imports nothing. `load_plugin` imports one plugin, makes its instance, checks every method marked with
`hookimpl`, and calls the hooks that register something. All that is wrong with a plugin is reported at once.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pluggy

from dsh_hookspecs import ENTRY_POINT_GROUP, PROJECT, Hooks
from dsh_time import hook_values
from dsh_time.errors import DeploymentError, PluginLoadError
from dsh_time.hook_values import describe_error
from dsh_time.loadout import HookCall, OwnedTool, Plugin
from dsh_time.problems import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: What the host writes as the source of prompts, answers and results.
_HOST_SOURCES = frozenset({"user", "model", "tool"})

#: Each hook's arguments, in the order of the hook specifications.
HOOK_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(function).parameters)[1:]
    for name, function in vars(Hooks).items()
    if not name.startswith("_")
}


@attrs.frozen
class PluginProblem:
    """Why a plugin cannot be loaded. `distribution` is name and version; `hook` is empty if none is to blame."""

    plugin: str
    distribution: str
    hook: str
    message: str

    def __str__(self) -> str:
        distribution = f" (distribution {self.distribution})" if self.distribution else ""
        hook = f", hook {self.hook}" if self.hook else ""
        return f"plugin {self.plugin}{distribution}{hook}: {self.message}"


@attrs.frozen
class PluginSource:
    """An installed plugin that nobody has imported. `problem` says why it cannot be loaded, empty if it can."""

    name: str
    distribution: str
    version: str
    entry_point: EntryPoint
    problem: str = ""

    def refuse(self, message: str, hook: str = "") -> PluginProblem:
        """A problem of this plugin."""
        return PluginProblem(self.name, f"{self.distribution} {self.version}", hook, message)


def scan_plugins(path: Sequence[str] | None = None) -> Mapping[str, PluginSource]:
    """Return the installed plugins by name, from the metadata of the distributions on `path` (default: `sys.path`).

    The working directory is never looked at. A plugin is called like its distribution; one that is not, and a name
    that several distributions offer, have a `problem`. A distribution whose metadata cannot be read is left out with
    a warning.
    """
    from importlib.metadata import distributions

    offers: dict[str, list[PluginSource]] = {}
    seen: set[str] = set()
    searched = [entry for entry in (sys.path if path is None else path) if not _is_working_directory(entry)]
    for distribution in distributions(path=searched):
        try:
            found = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
            if not found:
                continue
            name, version = distribution.name, distribution.version
            normalized = _normalized(name)
        except Exception as error:  # broken metadata of a stranger must not stop the host
            _log.warning("the metadata of an installed distribution cannot be read: %s", describe_error(error))
            continue
        if normalized in seen:  # Python imports from the first one on the path
            continue
        seen.add(normalized)
        for point in found:
            offers.setdefault(point.name, []).append(PluginSource(point.name, name, version, point))
    return {name: _one_of(sources) for name, sources in sorted(offers.items())}


def _one_of(sources: Sequence[PluginSource]) -> PluginSource:
    first = sources[0]
    if len(sources) > 1:
        names = " and ".join(f"{source.distribution} {source.version}" for source in sources)
        return attrs.evolve(first, problem=f"it is offered by {names}: uninstall all but one")
    if _normalized(first.name) in _HOST_SOURCES:
        return attrs.evolve(
            first, problem=f"its messages would pass for the host's own, whose source is {first.name!r}"
        )
    if _normalized(first.name) != _normalized(first.distribution):
        message = f"its entry point must be called like its distribution, {first.distribution}"
        return attrs.evolve(first, problem=message)
    return first


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_working_directory(entry: str) -> bool:
    try:
        return Path(entry).resolve() == Path.cwd().resolve()
    except OSError:  # the working directory was removed
        return not Path(entry).is_absolute()


@contextmanager
def _working_directory_not_first() -> Iterator[None]:
    """Take the working directory off the start of `sys.path`, where `python -m` puts it, while a plugin is imported."""
    if not (sys.path and _is_working_directory(sys.path[0])):
        yield
        return
    first = sys.path.pop(0)
    try:
        yield
    finally:
        sys.path.insert(0, first)


def load_plugin(plugin_id: str, source: PluginSource, configure: Callable[[type[Any]], object]) -> Plugin:
    """Import a plugin, make its instance with `configure(cls)`, and call the hooks that register something.

    Raises PluginLoadError with all that is wrong. Contained are `Exception` and SystemExit.
    """
    if source.problem:
        raise PluginLoadError((source.refuse(source.problem),))
    instance = _instance(source, configure)
    calls = _calls(source, instance)
    problems: list[PluginProblem] = []

    def register(hook: str, check: Callable[[object], list[T]]) -> list[T]:
        try:
            return [value for call in calls.get(hook, ()) for value in check(call.function())]
        except (Exception, SystemExit) as error:  # whatever a plugin raises is its load error
            kind = "" if isinstance(error, hook_values.HookValueError) else f"raised {type(error).__name__}: "
            problems.append(source.refuse(kind + describe_error(error), hook))
            return []

    tools = register("register_tools", hook_values.tools)
    folds = register("register_folds", hook_values.folds)
    providers = register("register_models", hook_values.providers)
    conflicts = getattr(instance, "conflicts", ())
    if not isinstance(conflicts, tuple | list | set | frozenset) or not all(
        isinstance(name, str) for name in conflicts
    ):
        problems.append(source.refuse("its `conflicts` is not a tuple of plugin names"))
    if problems:
        raise PluginLoadError(tuple(problems))
    return Plugin(
        id=plugin_id,
        name=source.name,
        version=source.version,
        distribution=source.distribution,
        instance=instance,
        conflicts=tuple(conflicts),
        calls=calls,
        tools=tuple(OwnedTool(tool, source.name, schema) for tool, schema in tools),
        folds=tuple(folds),
        providers=tuple(providers),
    )


def _instance(source: PluginSource, configure: Callable[[type[Any]], object]) -> object:
    try:
        with _working_directory_not_first():
            cls = source.entry_point.load()
    except (Exception, SystemExit) as error:  # an import can raise anything
        message = f"{source.entry_point.value} cannot be imported: {type(error).__name__}: {describe_error(error)}"
        raise PluginLoadError((source.refuse(message),)) from error
    if not isinstance(cls, type) or not attrs.has(cls):
        raise PluginLoadError((source.refuse(f"{source.entry_point.value} is not an attrs class"),))
    try:
        instance = configure(cls)
    except DeploymentError as error:
        raise PluginLoadError(tuple(source.refuse(str(problem)) for problem in error.problems)) from error
    except (Exception, SystemExit) as error:  # what its constructor raises
        message = f"cannot be constructed: {type(error).__name__}: {describe_error(error)}"
        raise PluginLoadError((source.refuse(message),)) from error
    if not _is_frozen(instance):
        message = f"{source.entry_point.value} is not frozen: use @attrs.frozen(eq=False), and folds for what changes"
        raise PluginLoadError((source.refuse(message),))
    return instance


def _is_frozen(instance: Any) -> bool:
    try:
        instance.is_frozen = False  # an instance that takes this is thrown away
    except attrs.exceptions.FrozenInstanceError:
        return True
    except Exception:  # slots, or a __setattr__ of its own
        return False
    return False


def _calls(source: PluginSource, instance: object) -> Mapping[str, tuple[HookCall, ...]]:
    """The hooks in the order of the specifications. Raises PluginLoadError with all that pluggy would pass over."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    problems: list[PluginProblem] = []
    for name in dir(instance):
        options = manager.parse_hookimpl_opts(instance, name)
        hook = (options and options.get("specname")) or name
        if options is not None:
            faults = _faults(hook, options, getattr(instance, name))
            problems += [source.refuse(fault, hook) for fault in faults]
        elif name in HOOK_ARGUMENTS and manager.parse_hookspec_opts(type(instance), name) is None:
            problems.append(source.refuse("has the name of a hook, but is no method marked with @hookimpl", name))
    if problems:
        raise PluginLoadError(tuple(problems))
    manager.register(instance, source.name)
    calls = {}
    for hook, arguments in HOOK_ARGUMENTS.items():
        if found := getattr(manager.hook, hook).get_hookimpls():
            calls[hook] = tuple(
                HookCall(one.function, tuple(arguments.index(argument) for argument in one.argnames)) for one in found
            )
    manager.unregister(instance)  # the manager is cyclic, and would keep the plugin until the next garbage collection
    return calls


def _faults(hook: str, options: Mapping[str, object], function: Callable[..., object]) -> Iterator[str]:
    if hook not in HOOK_ARGUMENTS:
        if not options.get("optionalhook"):
            yield f"there is no such hook{did_you_mean(hook, HOOK_ARGUMENTS)}"
        return
    for option in ("wrapper", "hookwrapper", "tryfirst", "trylast"):
        if options.get(option):
            yield f"{option}=True is not supported: each hook is called by itself, in the order of the deployment file"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield "is async; hooks are synchronous"
    known = ", ".join(HOOK_ARGUMENTS[hook]) or "none"
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        yield "has no parameter `self`"
        return
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield f"the parameter {parameter.name} is keyword-only, so nothing would be passed for it"
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        elif parameter.name in HOOK_ARGUMENTS[hook]:
            if parameter.default is not parameter.empty:
                yield f"the parameter {parameter.name} has a default, so nothing would be passed for it"
        elif parameter.default is parameter.empty:
            yield f"there is no argument {parameter.name}; the arguments are: {known}"
