"""The plugin as a deployment has it: built in, mounted, configured, swapped out."""

import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_time.deployment import load_deployment
from dsh_time.errors import PluginLoadError
from dsh_time.plugin_host import PluginHost
from dsh_time_reminder import TimeReminder
from dsh_time_reminder.fold import PLUGIN

from .loop_kit import MODES, ROOT

MOUNT = (ROOT / "tests" / "cases" / "mount.yaml").read_text(encoding="utf-8")


@pytest.fixture
def switched(tmp_path: Path) -> Callable[..., PluginHost]:
    def load(**switches: Any) -> PluginHost:
        return PluginHost(load_deployment(**switches))

    return load


def test_the_built_in_deployment_has_it_in_mode_cron(switched: Callable[..., PluginHost]) -> None:
    """Nobody has to enable it: its defaults are in force."""
    (plugin,) = [plugin for plugin in switched().loadout.plugins if plugin.name == PLUGIN]
    assert isinstance(plugin.instance, TimeReminder)
    assert (plugin.instance.default_mode, plugin.instance.cron) == ("cron", "0 0 * * *")
    assert plugin.hooks == ("before_step", "register_tools", "register_folds", "status_line", "register_commands")


def test_two_clocks_exclude_each_other(switched: Callable[..., PluginHost]) -> None:
    """Enabling time-context beside it is refused with the lines to change; doing both in one go works."""
    with pytest.raises(PluginLoadError) as caught:
        switched(enable=["time-context"])
    way = "with `--disable` or `disabled: true` in its entry: time-context (--enable time-context)"
    assert f"{way} or time-reminder (built in)" in str(caught.value)
    host = switched(enable=["time-context"], disable=["time-reminder"])
    assert [plugin.id for plugin in host.loadout.plugins] == ["time-context"]
    host.swap("time-context", "time-reminder")
    assert [plugin.id for plugin in host.loadout.plugins] == ["time-reminder"]


@pytest.mark.process
@pytest.mark.parametrize(("mode", "loaded"), [("cron", True), ("off", False), ("turn", False), ("fine", False)])
def test_what_a_first_step_needs_is_imported_when_the_plugin_is_loaded(mode: str, loaded: bool, tmp_path: Path) -> None:
    """Else the import is a slow hook on a slow machine; a mode without cron expressions does without it."""
    patch = tmp_path / "patch.yaml"
    patch.write_text(f"- {{id: time-reminder, config: {{defaultMode: {mode}}}}}\n", encoding="utf-8")
    code = """
import pathlib, sys
from dsh_time.deployment import load_deployment
from dsh_time.plugin_host import PluginHost
PluginHost(load_deployment(patches=[pathlib.Path(sys.argv[1])]))
print("croniter" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code, patch], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{loaded}\n"


@pytest.mark.parametrize("notice", ["inject", "steer", "off"])
@pytest.mark.parametrize("mode", MODES)
def test_the_mount_snippet_of_the_seed_loads(
    tmp_path: Path, switched: Callable[..., PluginHost], mode: str, notice: str
) -> None:
    """Verbatim, and with each value that its comments show; `off` is text."""
    text = MOUNT.replace("defaultMode: cron", f"defaultMode: {mode}").replace("Notice: inject", f"Notice: {notice}")
    patch = tmp_path / "mount.yaml"
    patch.write_text(text, encoding="utf-8")
    (plugin,) = switched(patches=[patch]).loadout.plugins
    made = plugin.instance
    assert isinstance(made, TimeReminder)
    assert (made.default_mode, made.counter_notice) == (mode, notice)
    assert (made.cron, made.time_zone, made.fine_interval_ms) == ("0 0 * * *", "Asia/Shanghai", 0)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{defaultMode: daily}", "config.defaultMode: must be one of cron, off, turn, fine, not 'daily'"),
        ("{defaultMode: false}", "config.defaultMode: must be one of cron, off, turn, fine, not false"),
        ("{cron: '0 0 30 2 *', defaultMode: off}", "config.cron: '0 0 30 2 *' never fires"),
        ("{cron: 5}", "config.cron: must be text, not 5"),
        ("{timeZone: Asia/Shangai}", "config.timeZone: 'Asia/Shangai' is not an IANA time zone name; did you mean"),
        ("{timeZone: 8}", "config.timeZone: must be text, not 8"),
        (
            "{fineIntervalMs: -1}",
            "config.fineIntervalMs: must be whole milliseconds from 0 to 9007199254740991, not -1",
        ),
        ("{fineIntervalMs: true}", "config.fineIntervalMs: must be a whole number, not true"),
        ("{counterNotice: wake}", "config.counterNotice: must be one of inject, steer, off, not 'wake'"),
        ("{weekday: 1}", "config.weekday: must be true or false, not 1"),
        ("{weekDay: true}", "config.weekDay: unknown key; did you mean weekday?"),
    ],
)
def test_a_bad_setting_is_refused_when_the_plugin_is_loaded(
    tmp_path: Path, switched: Callable[..., PluginHost], config: str, said: str
) -> None:
    """The error names the plugin, the file, the line, the key and what to write instead."""
    file = tmp_path / "dsh-time.yaml"
    file.write_text(f"plugins:\n  - name: dsh-time-reminder\n    config: {config}\n", encoding="utf-8")
    with pytest.raises(PluginLoadError) as caught:
        switched(config_file=file)
    assert f"{file}:3" in str(caught.value)
    assert said in str(caught.value)


def test_all_bad_settings_are_reported_at_once(tmp_path: Path, switched: Callable[..., PluginHost]) -> None:
    """Not only the first."""
    file = tmp_path / "dsh-time.yaml"
    file.write_text(
        "plugins:\n  - name: dsh-time-reminder\n    config: {cron: '', timeZone: x, fineIntervalMs: -1}\n",
        encoding="utf-8",
    )
    with pytest.raises(PluginLoadError) as caught:
        switched(config_file=file)
    assert len(caught.value.problems) == 3


def test_nothing_is_left_after_it_is_swapped_out(switched: Callable[..., PluginHost]) -> None:
    """Neither its tools nor its instance."""
    host = switched()
    instance = weakref.ref(host.loadout.plugins[0].instance)
    assert sorted(host.loadout.tools) == ["time_counter", "time_mode"]
    host.disable("time-reminder")
    assert host.loadout.tools == {}
    assert instance() is None
