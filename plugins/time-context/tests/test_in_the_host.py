"""The time-context plugin as the host loads it: from a deployment, by its entry point, and out again."""

from __future__ import annotations

import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dsh_hookspecs import FoldType, Prompt, Step
from dsh_time.deployment import load_deployment
from dsh_time.errors import PluginLoadError
from dsh_time.plugin_host import PluginHost


class NoSession:
    id = "s"

    def fold(self, kind: type[FoldType], /) -> FoldType:
        raise KeyError(kind)


STEP = Step(session=NoSession(), turn=1, number=1, now=datetime(2026, 7, 14, 8, 30, tzinfo=UTC), previous_message=None)


def host(folder: Path, config: str) -> PluginHost:
    file = folder / "dsh-time.yaml"
    file.write_text(f"plugins:\n  - name: dsh-time-context\n    config: {config}\n", encoding="utf-8")
    return PluginHost(load_deployment(config_file=file))


def sections(host: PluginHost) -> list[str]:
    failures: list[object] = []
    found = host.loadout.sections(Prompt(STEP), failures.append)
    assert failures == []
    return [section.text for section in found]


def test_a_deployment_turns_it_on_with_its_settings(tmp_path: Path) -> None:
    """Keys are camelCase; it has one hook, no tool and no fold."""
    plugins = host(tmp_path, "{timeZone: Asia/Shanghai, refreshIntervalMs: 0}")
    (text,) = sections(plugins)
    assert text.startswith("Current time: 2026-07-14T16:30:00+08:00[Asia/Shanghai]\n")
    (plugin,) = plugins.loadout.plugins
    assert plugin.hooks == ("system_prompt_section",)
    assert (plugin.tools, plugin.folds) == ((), ())


@pytest.mark.parametrize(
    ("config", "path", "said"),
    [
        ("{refreshIntervalMs: true}", "refreshIntervalMs", "must be a whole number, not true"),
        ("{refreshIntervalMs: 1.5}", "refreshIntervalMs", "must be a whole number, not 1.5"),
        (
            "{refreshIntervalMs: -1}",
            "refreshIntervalMs",
            "must be whole milliseconds from 0 to 9007199254740991, not -1",
        ),
        ("{timeZone: Asia/Shangai}", "timeZone", "is not an IANA time zone name; did you mean Asia/Shanghai"),
        ("{timezone: UTC}", "timezone", "unknown key; did you mean timeZone?"),
    ],
)
def test_a_bad_setting_is_refused_when_the_plugin_is_loaded(tmp_path: Path, config: str, path: str, said: str) -> None:
    """The error names the plugin, the file, the key and what to write instead."""
    with pytest.raises(PluginLoadError) as caught:
        host(tmp_path, config)
    (problem,) = caught.value.problems
    assert str(problem).startswith("plugin dsh-time-context (distribution dsh-time-context ")
    assert f"{tmp_path / 'dsh-time.yaml'}:3" in str(problem)
    assert f"config.{path}: " in str(problem)
    assert said in str(problem)


def test_nothing_is_left_after_it_is_swapped_out(tmp_path: Path) -> None:
    """Neither its section nor its instance."""
    plugins = host(tmp_path, "{}")
    instance = weakref.ref(plugins.loadout.plugins[0].instance)
    assert len(sections(plugins)) == 1
    plugins.disable("time-context")
    assert sections(plugins) == []
    assert instance() is None


def test_the_built_in_deployment_does_not_load_it() -> None:
    """It is listed and disabled; its section is not there, and swapping it in is all it takes."""
    plugins = PluginHost(load_deployment())
    (status,) = [status for status in plugins.statuses() if status.id == "time-context"]
    assert (status.id, status.name, status.state) == ("time-context", "dsh-time-context", "disabled")
    assert sections(plugins) == []
    plugins.swap("time-reminder", "time-context")
    assert len(sections(plugins)) == 1
    assert "dsh_time_context" in sys.modules
