"""Short ways to run the plugin in a real loop."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from dsh_hookspecs import (
    ChatMessage,
)
from dsh_hookspecs.timefmt import epoch_ms
from dsh_time.agent import Agent
from dsh_time.deployment import load_deployment
from dsh_time.harness import Harness
from dsh_time.models.scripted import ScriptedModel
from dsh_time.plugin_host import PluginHost
from dsh_time_reminder import TimeReminder
from dsh_time_reminder.fold import PLUGIN
from tests.kit import source_of

ROOT = Path(__file__).parents[3]
MODES = ("cron", "off", "turn", "fine")


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


def reminder(folder: Path, *, others: dict[str, type] | None = None, **config: Any) -> PluginHost:
    """The plugin with these settings, after other plugins, which are classes."""
    patch = folder / "patch.yaml"
    entries = [{"name": name} for name in others or {}]
    patch.write_text(json.dumps([{"insert": [*entries, {"name": PLUGIN, "config": config}]}]), encoding="utf-8")
    sources = {name: source_of(name, cls) for name, cls in {PLUGIN: TimeReminder, **(others or {})}.items()}
    return PluginHost(load_deployment(patches=[patch], installed=list(sources)), sources=sources)


def at(text: str) -> int:
    return epoch_ms(datetime.fromisoformat(text))


def messages(model: ScriptedModel) -> list[ChatMessage]:
    return list(model.requests[-1].request.messages)


def ours(found: list[ChatMessage]) -> list[str]:
    return [message.text for message in found if message.source["kind"] == PLUGIN]


def child_of(harness: Harness, parent: Agent, name: str) -> Agent:
    """A live child that is idle."""
    harness._new_id = lambda: name
    return harness._make_child(parent)


async def quiet(harness: Harness) -> None:
    """Wait until nobody runs."""
    while busy := [agent for agent in harness.live.values() if agent.busy]:
        await busy[0].idle()
