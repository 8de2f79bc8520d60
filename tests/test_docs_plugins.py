"""`docs/plugins.md` is true: its plugins load and work, and it describes every hook with its exact arguments."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsh_hookspecs import (
    ENTRY_POINT_GROUP,
    ChatMessage,
    Event,
    FoldType,
    Hooks,
    Prompt,
    Step,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolResultBlock,
)
from dsh_time.deployment import load_deployment
from dsh_time.hook_values import MAX_VALUES
from dsh_time.loadout import Loadout, Plugin, Rejection
from dsh_time.plugin_host import PluginHost
from dsh_time.plugin_loading import PluginSource, load_plugin, scan_plugins

TEXT = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
CALL = ToolCall("c1", "t", "{}", "dsh-x")


class Session:
    """A session whose only fold has the state it was given."""

    id = "s"

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def fold(self, kind: type[FoldType], /) -> FoldType:
        assert isinstance(self.state, kind)
        return self.state


def step(session: Session) -> Step:
    return Step(session, turn=1, number=1, now=datetime(2026, 7, 14, tzinfo=UTC), previous_message=None)


def block(language: str, containing: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)
    (only,) = (one for one in found if containing in one)
    return only


def plugin(site: Path, name: str) -> Plugin:
    """The class called `name` in the page, loaded as a plugin from a module `documented`."""
    (site / "documented.py").write_text(block("python", f"class {name}:"), encoding="utf-8")
    importlib.invalidate_caches()
    source = PluginSource("dsh-x", "dsh-x", "1.0", EntryPoint("dsh-x", f"documented:{name}", ENTRY_POINT_GROUP))
    return load_plugin("x", source, lambda cls: cls())


@pytest.fixture
def house(site: Path) -> Path:
    """The page's first plugin, installed as its pyproject.toml says."""
    project = tomllib.loads(block("toml", "[project]"))["project"]
    (site / "dsh_house.py").write_text(block("python", "class House:"), encoding="utf-8")
    info = site / "dsh_house-0.1.0.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    importlib.invalidate_caches()
    return site


def test_the_ten_line_plugin_works(house: Path) -> None:
    """Found by its entry point, turned on by the page's deployment file, it says what it was told."""
    assert len(block("python", "class House:").splitlines()) == 10
    file = house.parent / "dsh-time.yaml"
    file.write_text(block("yaml", "dsh-house"), encoding="utf-8")
    host = PluginHost(load_deployment(config_file=file), sources=scan_plugins([str(house)]))
    (section,) = host.loadout.sections(Prompt(None), lambda error: pytest.fail(str(error)))
    assert (section.name, section.order, section.text) == ("house:language", 50, "Answer in French.")


def test_it_is_enabled_by_its_name(house: Path) -> None:
    """`--enable house`, with its defaults."""
    sources = scan_plugins([str(house)])
    host = PluginHost(load_deployment(enable=["house"], installed=sources), sources=sources)
    (section,) = host.loadout.sections(Prompt(None), lambda error: pytest.fail(str(error)))
    assert section.text == "Answer in English."


def test_the_pages_test_passes(house: Path) -> None:
    scope: dict[str, Any] = {}
    exec(block("python", "def test_the_language_is_said"), scope)
    scope["test_the_language_is_said"]()
    assert "dsh_house" in sys.modules


def test_the_pages_tests_of_a_fold_and_a_step_pass(site: Path) -> None:
    (site / "dsh_counting.py").write_text(block("python", "class Counting:"), encoding="utf-8")
    importlib.invalidate_caches()
    scope: dict[str, Any] = {}
    exec(block("python", "def test_failures_are_told"), scope)
    scope["test_a_failed_call_is_counted"]()
    scope["test_failures_are_told"]()


def test_the_pages_tool_works(site: Path) -> None:
    (owned,) = plugin(site, "Weather").tools
    context = ToolContext(CALL, Session(), datetime(2026, 7, 14, tzinfo=UTC))

    def run(arguments: bytes) -> object:
        return owned.tool.run(msgspec.json.decode(arguments, type=owned.tool.arguments), context)

    assert run(b'{"celsius": 100}') == "212.0 °F"
    with pytest.raises(msgspec.ValidationError):
        run(b'{"celsius": -300}')
    with pytest.raises(ToolError):
        run(b'{"celsius": 1e9}')
    assert "Degrees Celsius." in str(owned.schema.parameters)


def test_the_pages_fold_works(site: Path) -> None:
    loadout = Loadout((plugin(site, "Counting"),))
    ((owner, failures),) = loadout.folds
    assert (owner, failures.__name__) == ("dsh-x", "Failures")
    state = failures()
    for seq, failed in enumerate([True, False, True]):
        content = (ToolResultBlock("c1", "x", is_error=failed),)
        result = ToolResult(ChatMessage(id=f"m{seq}", role="tool", content=content, source={"kind": "tool"}))
        state = state.apply(Event(seq, 0, result))
    answer = loadout.before_step(step(Session(state)), lambda error: pytest.fail(str(error)))
    assert not isinstance(answer, Rejection)
    assert [message.text for _, message in answer] == ["2 calls failed so far."]
    assert loadout.before_step(step(Session(failures())), lambda error: pytest.fail(str(error))) == []


def test_every_hook_has_a_heading_with_its_exact_arguments() -> None:
    """In the order of the hook specifications."""
    expected = []
    for name, function in vars(Hooks).items():
        if not name.startswith("_"):
            arguments = list(inspect.signature(function).parameters)[1:]
            expected.append(f"{name}({', '.join(arguments)})")
    assert re.findall(r"^### `(.+)`$", TEXT, flags=re.MULTILINE) == expected


def test_every_hook_stands_in_the_table_of_failures() -> None:
    table = TEXT[TEXT.index("## When something goes wrong") : TEXT.index("Refused when")]
    assert {name for name in vars(Hooks) if not name.startswith("_")} == set(re.findall(r"`([a-z_]+)`(?=,| \|)", table))


def test_the_pages_numbers_are_the_hosts() -> None:
    assert f"are at most {MAX_VALUES}." in TEXT
    assert f"`limits.slowHookMs` ({load_deployment().limits.slow_hook_ms} ms)" in TEXT
