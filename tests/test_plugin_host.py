"""Which plugins are enabled, in which order, and how one takes the place of another. Distributions are real files."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import attrs
import click
import pytest

from dsh_hookspecs import FoldType, Prompt, Step
from dsh_time.deployment import Deployment, load_deployment
from dsh_time.errors import DeploymentError, PluginLoadError
from dsh_time.loadout import Loadout
from dsh_time.plugin_host import PluginHost
from dsh_time.plugin_loading import scan_plugins

Install = Callable[..., None]


class NoSession:
    id = "s"

    def fold(self, kind: type[FoldType], /) -> FoldType:
        raise KeyError(kind)


STEP = Step(session=NoSession(), turn=1, number=1, now=datetime(2026, 7, 14, tzinfo=UTC), previous_message=None)


def deployment(site: Path, text: str) -> Deployment:
    file = site.parent / "dsh-time.yaml"
    file.write_text(text, encoding="utf-8")
    return load_deployment(config_file=file)


def host(site: Path, *entries: str, tolerant: bool = False) -> PluginHost:
    """A host of the entries, each `name` or `name, key: value, …`, that knows only what is installed in `site`."""
    lines = "".join(f"  - {{name: {entry}}}\n" for entry in entries)
    return PluginHost(deployment(site, f"plugins:\n{lines}"), sources=scan_plugins([str(site)]), tolerant=tolerant)


def sample(section: str, tool: str = "", conflicts: str = "()", fields: str = "") -> str:
    """A plugin with a section of that text, and perhaps a tool."""
    register = f"@hookimpl\n    def register_tools(self): return [Tool({tool!r}, '', Struct, len)]" if tool else ""
    return f"""
@frozen(eq=False)
class Sample:
    conflicts = {conflicts}
    {fields}
    @hookimpl
    def system_prompt_section(self): return Section({section!r}, 1, {section!r})
    {register}
"""


def shown(loadout: Loadout) -> tuple[list[str], list[str], list[str]]:
    """What a step sees: plugins, sections, tools."""
    sections = loadout.sections(Prompt(STEP), lambda error: pytest.fail(str(error)))
    return ([p.name for p in loadout.plugins], [section.text for section in sections], list(loadout.tools))


def test_plugins_run_in_the_order_of_the_file(site: Path, install: Install) -> None:
    """Not in that of their names."""
    for name in ("dsh-a", "dsh-b", "dsh-c"):
        install(name, sample(name[-1]))
    loadout = host(site, "dsh-c", "dsh-a", "dsh-b").loadout
    assert [(plugin.id, plugin.name) for plugin in loadout.plugins] == [("c", "dsh-c"), ("a", "dsh-a"), ("b", "dsh-b")]


def test_only_what_is_enabled_is_imported(site: Path, install: Install) -> None:
    """Neither a disabled entry nor an installed plugin that is not listed; the config of a disabled one is not read."""
    install("dsh-a", sample("a"))
    install("dsh-b", "raise SystemExit")
    install("dsh-c", "raise SystemExit")
    assert shown(host(site, "dsh-a", "'dsh-b', disabled: true, config: {no: such}").loadout) == (["dsh-a"], ["a"], [])
    assert ("dsh_a" in sys.modules, "dsh_b" in sys.modules, "dsh_c" in sys.modules) == (True, False, False)


@pytest.mark.process
def test_disabled_plugins_are_not_imported_and_nothing_is_scanned_for_them() -> None:
    """Both built-in plugins are listed and disabled: their modules are not there, and no metadata was read."""
    code = """
import sys
from dsh_time.deployment import load_deployment
from dsh_time.plugin_host import PluginHost
host = PluginHost(load_deployment(disable=["time-reminder"]))
assert host.loadout.plugins == ()
names = ("dsh_time_context", "dsh_time_reminder", "importlib.metadata", "click")
print([name for name in names if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_plugin_is_made_from_its_config(site: Path, install: Install) -> None:
    """camelCase keys; what is wrong is reported with plugin, file, line and key, all of it at once."""
    install("dsh-a", sample("a", fields="max_words: int = 3\n    zone: str = 'UTC'"))
    instance = host(site, "dsh-a, config: {maxWords: 5}").loadout.plugins[0].instance
    assert (instance.max_words, instance.zone) == (5, "UTC")  # type: ignore[attr-defined]  # a class of the test
    with pytest.raises(PluginLoadError) as caught:
        host(site, "dsh-a, config: {maxWord: 5, zone: 8}")
    unknown, zone = (str(problem) for problem in caught.value.problems)
    assert unknown.startswith("plugin dsh-a (distribution dsh-a 1.0): ")
    assert "dsh-time.yaml:2" in unknown
    assert "plugins[0].config.maxWord: unknown key; did you mean maxWords?" in unknown
    assert "plugins[0].config.zone: must be text, not 8" in zone


def test_everything_that_cannot_be_loaded_is_said_at_once(site: Path, install: Install) -> None:
    install("dsh-a", "raise RuntimeError('one')")
    install("dsh-b", "raise RuntimeError('two')")
    with pytest.raises(PluginLoadError, match=r"(?s)plugin dsh-a .*: one.*plugin dsh-b .*: two"):
        host(site, "dsh-a", "dsh-b")


def test_two_plugins_with_one_tool(site: Path, install: Install) -> None:
    """The error names the hook, the tool, and both owners with their distributions."""
    install("dsh-a", sample("a", "read"))
    install("dsh-b", sample("b", "read"), version="2.0")
    with pytest.raises(PluginLoadError) as caught:
        host(site, "dsh-a", "dsh-b")
    (problem,) = caught.value.problems
    assert str(problem) == (
        "plugin dsh-b (distribution dsh-b 2.0), hook register_tools: the tool 'read' is offered by "
        "plugin dsh-a (distribution dsh-a 1.0) too; disable one of the two"
    )


def test_two_plugins_with_one_model_provider(site: Path, install: Install) -> None:
    code = (
        "@frozen\nclass Sample:\n    @hookimpl\n    def register_models(self): return ModelProvider('m', Reject, len)"
    )
    install("dsh-a", code)
    install("dsh-b", code)
    with pytest.raises(
        PluginLoadError, match=r"hook register_models: the model provider 'm' is offered by plugin dsh-a"
    ):
        host(site, "dsh-a", "dsh-b")


def test_a_model_provider_called_like_one_of_the_host(site: Path, install: Install) -> None:
    code = "def register_models(self): return ModelProvider('demo', Reject, len)"
    install("dsh-a", f"@frozen\nclass Sample:\n    @hookimpl\n    {code}")
    with pytest.raises(PluginLoadError, match=r"hook register_models: the model provider 'demo' is the host's own"):
        host(site, "dsh-a")


@pytest.mark.parametrize("order", [("dsh-a", "dsh-b"), ("dsh-b", "dsh-a")])
def test_plugins_that_exclude_each_other(site: Path, install: Install, order: tuple[str, str]) -> None:
    """It is enough that one says so, in either order; the error names the entries and their lines."""
    install("dsh-a", sample("a", conflicts="('dsh-b',)"))
    install("dsh-b", sample("b"))
    with pytest.raises(PluginLoadError) as caught:
        host(site, *order)
    (problem,) = caught.value.problems
    assert "excludes plugin dsh-" in str(problem)
    assert "disable one of the two, with `--disable` or `disabled: true` in its entry: " in str(problem)
    for number, name in enumerate(order):
        assert f"{name[-1]} ({site.parent / 'dsh-time.yaml'}:{number + 2}" in str(problem)


def test_a_plugin_that_a_user_enabled_must_be_installed(site: Path) -> None:
    """The error has the place and the command that installs it."""
    with pytest.raises(PluginLoadError, match=r"not installed, .*dsh-time.yaml:2.*: pip install dsh-missing"):
        host(site, "dsh-missing")


def test_a_slip_in_a_plugins_name_leads_to_no_strangers_package(site: Path, install: Install) -> None:
    """What is nearly the name of a plugin that is installed, or of our own, is asked about, not installed."""
    install("dsh-weather", sample("weather"))
    for written, meant in (("weather", "dsh-weather"), ("time-reminder", "dsh-time-reminder")):
        with pytest.raises(PluginLoadError) as caught:
            host(site, written)
        assert str(caught.value.problems[0]).endswith(f"; did you mean {meant}?")


def test_our_own_plugins_are_installed_from_a_clone(site: Path) -> None:
    with pytest.raises(PluginLoadError, match=r", in a clone of dsh-time: pip install \./plugins/time-context$"):
        host(site, "dsh-time-context")


def test_a_swap_keeps_the_order_of_the_file(site: Path, install: Install) -> None:
    """A plugin that comes back stands where its entry stands, not last."""
    for name in ("dsh-a", "dsh-b", "dsh-c"):
        install(name, sample(name[-1], f"tool_{name[-1]}"))
    plugins = host(site, "dsh-a", "dsh-b", "'dsh-c', disabled: true")
    before = plugins.loadout
    assert shown(plugins.swap("a", "c")) == (["dsh-b", "dsh-c"], ["b", "c"], ["tool_b", "tool_c"])
    assert shown(plugins.swap("dsh-c", "a")) == (["dsh-a", "dsh-b"], ["a", "b"], ["tool_a", "tool_b"])
    assert shown(before) == shown(plugins.loadout)
    assert before.plugins[1] is plugins.loadout.plugins[1]  # b was never loaded anew
    assert before.plugins[0] is not plugins.loadout.plugins[0]


def test_a_step_keeps_the_loadout_it_took(site: Path, install: Install) -> None:
    """A swap meanwhile changes nothing of it."""
    install("dsh-a", sample("a", "read"))
    plugins = host(site, "dsh-a")
    taken = plugins.loadout
    assert shown(plugins.disable("a")) == ([], [], [])
    assert shown(taken) == (["dsh-a"], ["a"], ["read"])


def test_an_installed_plugin_is_added_by_its_name(site: Path, install: Install) -> None:
    """With its defaults, at the end; the name may stand without `dsh-`."""
    install("dsh-a", sample("a"))
    install("dsh-b", sample("b"))
    plugins = host(site, "dsh-b")
    assert shown(plugins.enable("a")) == (["dsh-b", "dsh-a"], ["a", "b"], [])
    with pytest.raises(DeploymentError, match=r"there is no plugin 'c'"):
        plugins.enable("c")


@pytest.mark.parametrize("bad", ["raise RuntimeError", sample("b", "read"), sample("b", conflicts="('dsh-a',)")])
def test_after_a_failed_change_everything_is_as_before(site: Path, install: Install, bad: str) -> None:
    """Loadout, deployment and statuses: the new plugin does not load, has a name that is taken, or excludes another."""
    install("dsh-a", sample("a", "read"))
    install("dsh-b", bad)
    plugins = host(site, "dsh-a", "'dsh-b', disabled: true")
    before = (plugins.loadout, plugins.deployment, plugins.statuses())
    with pytest.raises(PluginLoadError):
        plugins.enable("b")
    assert (plugins.loadout, plugins.deployment, plugins.statuses()) == before


def test_statuses(site: Path, install: Install) -> None:
    """Name, version, distribution, state with reason, hooks and order of every plugin, listed or just installed."""
    install("dsh-a", sample("a", "read"), version="2.0")
    install("dsh-b", "raise SystemExit")
    install("dsh-c", "raise RuntimeError('no luck')")
    install("dsh-d", sample("d", "read"))
    install("dsh-e", "raise SystemExit")
    install("evil", offers="dsh-f")
    plugins = host(
        site,
        "dsh-c",
        "dsh-a",
        "'dsh-b', disabled: true",
        "dsh-d",
        "dsh-missing",
        "'dsh-gone', disabled: true",
        tolerant=True,
    )
    file = site.parent / "dsh-time.yaml"
    listed = [(s.id, s.name, s.version, s.distribution, s.state, s.order) for s in plugins.statuses()]
    assert listed == [
        ("c", "dsh-c", "1.0", "dsh-c", "failed", None),
        ("a", "dsh-a", "2.0", "dsh-a", "enabled", 1),
        ("b", "dsh-b", "1.0", "dsh-b", "disabled", None),
        ("d", "dsh-d", "1.0", "dsh-d", "failed", None),
        ("missing", "dsh-missing", "", "", "not installed", None),
        ("gone", "dsh-gone", "", "", "not installed", None),
        ("", "dsh-e", "1.0", "dsh-e", "not listed", None),
        ("", "dsh-f", "1.0", "evil", "not listed", None),
    ]
    reasons = {status.name: status.reason for status in plugins.statuses()}
    assert reasons["dsh-a"].startswith(f"{file}:3")
    assert reasons["dsh-b"].startswith(f"{file}:4")
    assert reasons["dsh-c"] == "dsh_c:Sample cannot be imported: RuntimeError: no luck"
    assert reasons["dsh-d"].startswith("the tool 'read' is offered by plugin dsh-a (distribution dsh-a 2.0) too")
    assert reasons["dsh-missing"] == "pip install dsh-missing"
    assert reasons["dsh-f"] == "its entry point must be called like its distribution, evil"
    assert plugins.statuses()[1].hooks == ("system_prompt_section", "register_tools")


def test_a_built_in_plugin_that_is_not_installed_is_skipped(site: Path) -> None:
    """Nobody asked for it, so that it is missing is no error; `plugins` says so."""
    deployment = load_deployment()
    enabled = tuple(attrs.evolve(entry, disabled=False) for entry in deployment.plugins)
    plugins = PluginHost(attrs.evolve(deployment, plugins=enabled), sources=scan_plugins([str(site)]))
    assert plugins.loadout.plugins == ()
    assert [(status.name, status.state, status.reason) for status in plugins.statuses()] == [
        (f"dsh-{name}", "not installed", f"pip install ./plugins/{name}") for name in ("time-context", "time-reminder")
    ]


def test_commands_of_enabled_plugins(site: Path, install: Install) -> None:
    code = """
import attrs
import click
@frozen
class Sample:
    @hookimpl
    def register_commands(self, group): group.add_command(click.Command("hello"))
"""
    install("dsh-a", code)
    group = click.Group()
    host(site, "dsh-a").add_commands(group)
    assert list(group.commands) == ["hello"]


def test_nothing_of_a_plugin_that_was_swapped_out_is_left(site: Path, install: Install) -> None:
    """Its instance is gone as soon as the last step has let go of its loadout; no collection is needed."""
    install("dsh-a", sample("a", "read"))
    gc.disable()
    try:
        plugins = host(site, "dsh-a")
        instance = weakref.ref(plugins.loadout.plugins[0].instance)
        shown(plugins.loadout)
        plugins.disable("a")
        assert instance() is None
    finally:
        gc.enable()


def test_a_thousand_swaps_leave_nothing_behind(site: Path, install: Install) -> None:
    """Plugins, sections, tools and memory are as before; of each swapped plugin not even an instance is left."""
    install("dsh-a", sample("a", "read", conflicts="('dsh-b',)"))
    install("dsh-b", sample("b", "read"))
    install("dsh-c", sample("c", "write"))
    plugins = host(site, "dsh-a", "'dsh-b', disabled: true", "dsh-c")
    instances: list[weakref.ref[object]] = []

    def swap_there_and_back(times: int) -> None:
        for _ in range(times):
            for out, into in (("a", "b"), ("b", "a")):
                instances.append(weakref.ref(plugins.swap(out, into).plugins[0].instance))
                shown(plugins.loadout)

    swap_there_and_back(1)
    before, statuses = shown(plugins.loadout), plugins.statuses()
    swap_there_and_back(399)
    modules = set(sys.modules)
    instances.clear()
    gc.collect()
    tracemalloc.start()  # makes each swap five times slower, so for the last of them only
    try:
        swap_there_and_back(100)
        left = [instance for instance in instances[:-1] if instance() is not None]
        instances.clear()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left == []
    assert (shown(plugins.loadout), set(sys.modules), plugins.statuses()) == (before, modules, statuses)
    assert kept < 64 * 1024  # caches of Python take half of it; a loadout kept at each of the 200 swaps far more
