"""The scan of installed plugins, and all that is refused when one is loaded. The distributions are real files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_time.errors import PluginLoadError
from dsh_time.loadout import Plugin
from dsh_time.plugin_loading import load_plugin, scan_plugins

Install = Callable[..., None]


def plugin(body: str, *, mark: str = "@frozen(eq=False)") -> str:
    return f"{mark}\nclass Sample:\n" + "".join(f"    {line}\n" for line in body.splitlines())


def load(folder: Path) -> Plugin:
    return load_plugin("sample", scan_plugins([str(folder)])["dsh-sample"], lambda cls: cls())


def test_the_scan_imports_nothing(site: Path, install: Install) -> None:
    """Name, distribution and version come from the metadata."""
    install("dsh-sample", "raise SystemExit", version="2.5")
    (source,) = scan_plugins([str(site)]).values()
    assert (source.name, source.distribution, source.version, source.problem) == ("dsh-sample", "dsh-sample", "2.5", "")
    assert "dsh_sample" not in sys.modules


def test_the_scan_of_sys_path_finds_the_plugin_of_this_repository() -> None:
    assert scan_plugins()["dsh-time-context"].entry_point.value == "dsh_time_context:TimeContext"


def test_two_distributions_that_offer_one_name(site: Path, install: Install) -> None:
    """Neither is taken; the error names both and what to do."""
    install("dsh-sample")
    install("evil", offers="dsh-sample", version="6.6")
    with pytest.raises(PluginLoadError, match=r"it is offered by .* uninstall all but one") as caught:
        load(site)
    assert "dsh-sample 1.0" in str(caught.value)
    assert "evil 6.6" in str(caught.value)
    assert "dsh_sample" not in sys.modules


def test_an_entry_point_that_is_not_called_like_its_distribution(site: Path, install: Install) -> None:
    """It is listed with the reason, and refused when it is enabled."""
    install("evil", offers="dsh-sample")
    with pytest.raises(PluginLoadError) as caught:
        load(site)
    assert str(caught.value).endswith(
        "plugin dsh-sample (distribution evil 1.0): its entry point must be called like its distribution, evil"
    )
    assert "evil" not in sys.modules


@pytest.mark.parametrize("name", ["user", "model", "tool", "User"])
def test_a_name_that_the_host_itself_writes_as_a_source(site: Path, install: Install, name: str) -> None:
    """What such a plugin says would pass for what the user, the model or a tool said."""
    install(name, plugin("pass"))
    with pytest.raises(PluginLoadError, match="its messages would pass for the host's own"):
        load_plugin("sample", scan_plugins([str(site)])[name], lambda cls: cls())


def test_distribution_names_are_compared_as_installers_do(site: Path, install: Install) -> None:
    """Letter case, and which of `-_.` stands, do not matter."""
    install("Dsh_Sample", plugin("pass"), offers="dsh-sample")
    assert load(site).distribution == "Dsh_Sample"


@pytest.mark.parametrize("spelling", ["", ".", "{}", "{}/../site"])
def test_the_working_directory_is_never_looked_at(
    site: Path, install: Install, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    """However the path spells it."""
    install("dsh-sample")
    monkeypatch.chdir(site)
    assert scan_plugins([spelling.format(site)]) == {}


def test_a_removed_working_directory_does_not_stop_the_scan(
    site: Path, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("dsh-sample")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert list(scan_plugins(["", str(site)])) == ["dsh-sample"]


def test_a_module_in_the_working_directory_does_not_take_the_plugins_place(
    site: Path, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` puts the working directory first on `sys.path`; plugins are not imported from there."""
    install("dsh-sample", plugin("where = 'site'"))
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "dsh_sample.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(hostile)
    monkeypatch.syspath_prepend(str(hostile))
    before = list(sys.path)
    instance: Any = load(site).instance
    assert instance.where == "site"
    assert sys.path == before


def test_the_first_distribution_on_the_path_is_the_one(site: Path, install: Install, tmp_path: Path) -> None:
    """As for imports: one distribution in two places is not two."""
    other = tmp_path / "other"
    other.mkdir()
    install("dsh-sample", version="1.0")
    install("dsh-sample", version="2.0", folder=other)
    (source,) = scan_plugins([str(other), str(site)]).values()
    assert (source.version, source.problem) == ("2.0", "")


def test_broken_metadata_of_a_stranger_is_a_warning(
    site: Path, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugins beside it are found."""
    install("dsh-sample")
    install("broken")
    (site / "broken-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[")
    assert list(scan_plugins([str(site)])) == ["dsh-sample"]
    assert "metadata of an installed distribution cannot be read" in caplog.text


def test_a_loaded_plugin_says_what_it_is(site: Path, install: Install) -> None:
    """Id of the deployment, name and distribution of the metadata, and its hooks in the specification's order."""
    hooks = "@hookimpl\ndef before_step(self): ...\n@hookimpl\ndef system_prompt_section(self): ..."
    install("dsh-sample", plugin(hooks))
    loaded = load(site)
    assert (loaded.id, loaded.name, loaded.version) == ("sample", "dsh-sample", "1.0")
    assert loaded.distribution == "dsh-sample"
    assert loaded.hooks == ("system_prompt_section", "before_step")


def hook(signature: str, mark: str = "@hookimpl", body: str = "return None") -> str:
    return plugin(f"{mark}\n{signature}: {body}")


def returning(name: str, value: str) -> str:
    return plugin(f"@hookimpl\ndef {name}(self): return {value}")


def tool(arguments: str, **changes: str) -> str:
    fields = {"name": "'t'", "description": "'d'", "arguments": arguments, "run": "len"} | changes
    return returning("register_tools", f"[Tool({', '.join(f'{key}={value}' for key, value in fields.items())})]")


def fold(body: str) -> str:
    return f"@frozen\nclass F:\n{body}" + returning("register_folds", "[F]")


PLAIN = "def before_step(self)"
ORDER = "is not supported: each hook is called by itself, in the order of the deployment file"
ASYNC = "is async; hooks are synchronous"
PASSED = "so nothing would be passed for it"
FROZEN = "dsh_sample:Sample is not frozen: use @attrs.frozen(eq=False), and folds for what changes"
NO_ATTRS = "dsh_sample:Sample is not an attrs class"
NO_IMPORT = "dsh_sample:Sample cannot be imported: "
T = "returned the tool 't' whose"
F = "returned the fold F"

#: By hook: what is wrong, the code, and the message. Without a hook: what no hook is to blame for.
REFUSED = {
    "before_step": [
        ("wrapper", hook(PLAIN, "@hookimpl(wrapper=True)", "yield"), f"wrapper=True {ORDER}"),
        ("old wrapper", hook(PLAIN, "@hookimpl(hookwrapper=True)", "yield"), f"hookwrapper=True {ORDER}"),
        ("tryfirst", hook(PLAIN, "@hookimpl(tryfirst=True)"), f"tryfirst=True {ORDER}"),
        ("trylast", hook(PLAIN, "@hookimpl(trylast=True)"), f"trylast=True {ORDER}"),
        ("coroutine", hook(f"async {PLAIN}"), ASYNC),
        ("async generator", hook(f"async {PLAIN}", body="yield"), ASYNC),
        ("unmarked", hook(PLAIN, ""), "has the name of a hook, but is no method marked with @hookimpl"),
        ("keyword", hook("def before_step(self, *, step)"), f"the parameter step is keyword-only, {PASSED}"),
        ("default", hook("def before_step(self, step=None)"), f"the parameter step has a default, {PASSED}"),
        ("no self", hook("def before_step()"), "has no parameter `self`"),
        ("argument", hook("def before_step(self, stop)"), "there is no argument stop; the arguments are: step"),
    ],
    "before_stop": [
        ("misspelled", hook("def before_stop(self)"), "there is no such hook; did you mean before_step?"),
        (
            "misspelled specname",
            hook("def x(self)", "@hookimpl(specname='before_stop')"),
            "there is no such hook; did you mean before_step?",
        ),
    ],
    "fly": [("unknown", hook("def fly(self)"), "there is no such hook")],
    "": [
        ("import", "raise RuntimeError('no\\nluck')", f"{NO_IMPORT}RuntimeError: no luck"),
        ("no class", "", f"{NO_IMPORT}AttributeError: module 'dsh_sample' has no attribute 'Sample'"),
        ("function", "def Sample(): ...", NO_ATTRS),
        ("plain class", "class Sample: ...", NO_ATTRS),
        ("not frozen", plugin("x: int = 0", mark="@define"), FROZEN),
        ("not frozen, no slots", plugin("x: int = 0", mark="@define(slots=False)"), FROZEN),
        (
            "constructor",
            plugin("def __attrs_post_init__(self): 1 / 0"),
            "cannot be constructed: ZeroDivisionError: division by zero",
        ),
        ("conflicts", plugin("conflicts = 'dsh-other'"), "its `conflicts` is not a tuple of plugin names"),
    ],
    "register_tools": [
        (
            "raises",
            hook("def register_tools(self)", body="yield 1 / 0"),
            "raised ZeroDivisionError: division by zero",
        ),
        ("none", returning("register_tools", "None"), "returned None, not Tool or several"),
        ("class", returning("register_tools", "[Tool]"), "returned type among its values, not Tool"),
        (
            "name",
            tool("Struct", name="'two words'"),
            "returned a tool called 'two words': 1 to 64 letters, digits, `_` and `-`",
        ),
        ("no Struct", tool("dict"), f"{T} arguments are no msgspec.Struct class"),
        ("no schema", "class A(Struct):\n    x: complex\n" + tool("A"), f"{T} arguments have no schema: TypeError: "),
        ("no type", "class A(Struct):\n    x: 'M'\n" + tool("A"), f"{T} arguments have no schema: NameError: name 'M'"),
        (
            "list",
            "class A(Struct, array_like=True):\n    x: int\n" + tool("A"),
            f"{T} arguments are no JSON object",
        ),
        ("body", tool("Struct", run="None"), f"{T} run cannot be called"),
        ("description", tool("Struct", description="None"), "returned None as Tool.description, not str"),
        ("parallel", tool("Struct", parallel="1"), f"{T} parallel is int, not bool"),
        ("time", tool("Struct", timeout_s="-1"), f"{T} timeout_s is -1, not seconds or None"),
        ("endless", tool("Struct", timeout_s="float('inf')"), f"{T} timeout_s is inf, not seconds or None"),
        ("twice", tool("Struct").replace("return [", "return 2 * ["), "returned two of the tool 't'"),
        (
            "too long",
            tool("Struct", description="'x' * 1_000_000"),
            "returned tools whose descriptions and schemas have 1,00",
        ),
    ],
    "register_folds": [
        ("reads", fold("    reads = 'turn/start'\n"), f"{F} whose reads is not a tuple of event types"),
        ("no event", fold("    reads = (str,)\n"), f"{F} whose reads is not a tuple of event types"),
        ("arguments", fold("    reads = (TurnStart,)\n    x: int\n"), "raised TypeError: "),
        ("no apply", fold("    reads = (TurnStart,)\n"), f"{F} that has no apply(event)"),
        (
            "twice",
            fold("    reads = (TurnStart,)\n    def apply(self, event): ...\n").replace("[F]", "[F, F]"),
            "returned one fold twice",
        ),
        ("instance", returning("register_folds", "[Reject('x')]"), "returned Reject among its values, not type"),
    ],
    "register_models": [
        (
            "settings",
            returning("register_models", "ModelProvider('m', dict, len)"),
            "returned the provider 'm' whose settings are no attrs class",
        ),
        (
            "create",
            returning("register_models", "ModelProvider('m', Reject, None)"),
            "returned the provider 'm' whose create cannot be called",
        ),
        (
            "name",
            returning("register_models", "ModelProvider('', Reject, len)"),
            "returned '' as ModelProvider.name: not empty, no control characters",
        ),
    ],
}


@pytest.mark.parametrize(
    ("blamed", "code", "said"),
    [
        pytest.param(blamed, code, said, id=f"{blamed}: {what}")
        for blamed, cases in REFUSED.items()
        for what, code, said in cases
    ],
)
def test_refused_at_load(site: Path, install: Install, blamed: str, code: str, said: str) -> None:
    """The message names plugin, distribution and hook, and says what is wrong."""
    install("dsh-sample", code)
    with pytest.raises(PluginLoadError) as caught:
        load(site)
    (problem,) = caught.value.problems
    who = "plugin dsh-sample (distribution dsh-sample 1.0)" + f", hook {blamed}" * bool(blamed)
    assert str(problem).startswith(f"{who}: {said}")


def test_all_that_is_wrong_with_the_hooks_is_said_at_once(site: Path, install: Install) -> None:
    bad = "@hookimpl(tryfirst=True)\nasync def before_step(self, stop): ..."
    install("dsh-sample", plugin(f"{bad}\n@hookimpl\ndef fly(self): ..."))
    with pytest.raises(PluginLoadError) as caught:
        load(site)
    assert [problem.hook for problem in caught.value.problems] == ["before_step"] * 3 + ["fly"]


def test_all_that_is_wrong_with_what_is_registered_is_said_at_once(site: Path, install: Install) -> None:
    registers = "".join(f"@hookimpl\ndef register_{what}(self): return 3\n" for what in ("tools", "folds", "models"))
    install("dsh-sample", plugin(registers))
    with pytest.raises(PluginLoadError) as caught:
        load(site)
    assert [problem.hook for problem in caught.value.problems] == [
        "register_tools",
        "register_folds",
        "register_models",
    ]


def test_a_hook_that_says_it_may_be_unknown_is_let_be(site: Path, install: Install) -> None:
    """A plugin written for a newer host marks its new hook `optionalhook`."""
    install("dsh-sample", plugin("@hookimpl(optionalhook=True)\ndef after_everything(self, x): ..."))
    assert load(site).hooks == ()


def test_a_module_that_ends_the_process_is_a_load_error(site: Path, install: Install) -> None:
    """Else a plugin could make a command end with 0 that has done nothing."""
    install("dsh-sample", "raise SystemExit(0)")
    with pytest.raises(PluginLoadError, match="dsh_sample:Sample cannot be imported: SystemExit: 0"):
        load(site)


def test_only_exceptions_are_contained_at_load(site: Path, install: Install) -> None:
    install("dsh-sample", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load(site)


def test_a_tools_schema_stands_alone(site: Path, install: Install) -> None:
    """An object at its root; what is nested or recursive stays in its own `$defs`."""
    code = """
class Point(Struct):
    x: int = 0
class Tree(Struct, forbid_unknown_fields=True):
    point: Point
    child: 'Tree | None' = None
class Flat(Struct):
    path: str
"""
    tools = "[Tool(kind.__name__, '', kind, len) for kind in (Tree, Flat, Point)]"
    install("dsh-sample", code + returning("register_tools", tools))
    tree, flat, point = (owned.schema.parameters for owned in load(site).tools)
    assert flat == {"title": "Flat", "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert point["properties"] == {"x": {"type": "integer", "default": 0}}
    body: Any = tree
    assert (body["type"], body["additionalProperties"], set(body["$defs"])) == ("object", False, {"Point", "Tree"})
    assert body["properties"]["point"] == {"$ref": "#/$defs/Point"}
