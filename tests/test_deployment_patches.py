"""Patches and switches change single entries; what does not fit is said with its file, line and a suggestion."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_time.deployment import Deployment, Limits, Origin, load_deployment
from dsh_time.deployment_layers import to_install
from dsh_time.errors import DeploymentError

# The mount snippet of the time-reminder seed, to the letter.
SNIPPET = (Path(__file__).parent / "cases" / "mount.yaml").read_text(encoding="utf-8")
BOTH = ("dsh-time-context", "dsh-time-reminder")

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the working directory and return its relative path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str) -> Path:
        Path(name).write_text(content, encoding="utf-8")
        return Path(name)

    return write_file


def refusals(**sources: Any) -> list[str]:
    with pytest.raises(DeploymentError) as caught:
        load_deployment(**sources)
    return [str(problem) for problem in caught.value.problems]


def listed(deployment: Deployment) -> list[tuple[str, str, bool]]:
    return [(entry.id, entry.name, entry.disabled) for entry in deployment.plugins]


# Patches


def test_the_seeds_mount_snippet_loads_verbatim(write: Write) -> None:
    deployment = load_deployment(patches=[write("mount.yaml", SNIPPET)], installed=BOTH)
    assert listed(deployment) == [
        ("time-context", "dsh-time-context", True),
        ("time-reminder", "dsh-time-reminder", False),
    ]
    assert deployment.plugins[1].config == {
        "defaultMode": "cron",
        "cron": "0 0 * * *",
        "timeZone": "Asia/Shanghai",
        "fineIntervalMs": 0,
        "counterNotice": "inject",
    }


@pytest.mark.parametrize("mode", ["off", "cron", "turn", "fine"])
@pytest.mark.parametrize("notice", ["inject", "steer", "off"])
def test_every_value_the_snippet_shows_is_read_as_that_text(write: Write, mode: str, notice: str) -> None:
    content = SNIPPET.replace("defaultMode: cron", f"defaultMode: {mode}").replace(
        "counterNotice: inject", f"counterNotice: {notice}"
    )
    config = load_deployment(patches=[write("mount.yaml", content)]).plugins[1].config
    assert (config["defaultMode"], config["counterNotice"]) == (mode, notice)


def test_a_patch_changes_the_entry_with_that_id_and_leaves_the_rest(write: Write) -> None:
    base = write("c.yaml", "plugins: [{name: dsh-a, config: {x: 1, deep: {p: 1, l: [1, 2]}}}, {name: dsh-b}]")
    patch = write("p.yaml", "- {id: a, name: dsh-a, config: {deep: {q: 2, l: [3]}}}\n- {id: b, disabled: true}")
    deployment = load_deployment(config_file=base, patches=[patch])
    assert listed(deployment) == [("a", "dsh-a", False), ("b", "dsh-b", True)]
    assert deployment.plugins[0].config == {"x": 1, "deep": {"p": 1, "q": 2, "l": [3]}}


def test_keys_without_a_value_in_a_patch_say_nothing(write: Write) -> None:
    patch = write("p.yaml", "- {id: time-context, name: , disabled: , config: }\n- set: {model: }")
    assert load_deployment(patches=[patch]) == load_deployment()


def test_inserting_what_is_there_merges_into_it_and_enables_it(write: Write) -> None:
    patch = write(
        "p.yaml",
        "- insert: [{name: dsh-new, config: {a: 1}}, {name: dsh-time-context}]\n"
        "- insert: [{id: new, name: dsh-new, disabled: true, config: {b: 2}}]",
    )
    deployment = load_deployment(patches=[patch])
    assert listed(deployment) == [
        ("time-context", "dsh-time-context", False),
        ("time-reminder", "dsh-time-reminder", False),
        ("new", "dsh-new", True),
    ]
    assert deployment.plugins[2].config == {"a": 1, "b": 2}


def test_later_items_and_patches_see_what_earlier_ones_did(write: Write) -> None:
    first = write("1.yaml", "- insert: [{name: dsh-x}]\n- {id: x, config: {a: 1}}")
    second = write("2.yaml", "- {id: x, config: {a: 2}}")
    assert load_deployment(patches=[first, second]).plugins[-1].config == {"a": 2}


def test_what_does_not_fit_in_a_patch_is_reported_all_at_once(write: Write) -> None:
    patch = write(
        "p.yaml",
        "- {id: time-contxt, disabled: true}\n"
        "- {id: time-context, name: dsh-other}\n"
        "- insert: [{id: time-context, name: dsh-third}]\n"
        "- {id: zzz}\n",
    )
    assert refusals(patches=[patch]) == [
        "--patch p.yaml:1:4: [0].id: no entry has the id 'time-contxt'; did you mean time-context?",
        "--patch p.yaml:2:22: [1].name: the entry time-context is dsh-time-context; a patch cannot change that",
        (
            "--patch p.yaml:3:12: [2].insert[0]: the id time-context belongs to dsh-time-context (built in);"
            " give this entry another id"
        ),
        "--patch p.yaml:4:4: [3].id: no entry has the id 'zzz'; the ids are: time-context, time-reminder",
    ]


def test_the_shape_of_a_patch_is_checked_item_by_item(write: Write) -> None:
    patch = write(
        "p.yaml",
        "- {name: dsh-x}\n"
        "- {id: a, insert: []}\n"
        "- just text\n"
        "- {id: a, disable: true}\n"
        "- insert: {name: dsh-x}\n"
        "- insert: [{id: x}, {name: 'a b'}, {name: dsh-y, config: [1]}]\n"
        "- set: {plugins: [], limits: {maxSteps: 0}, model: {provider: 5}}\n",
    )
    found = refusals(patches=[patch])
    assert [message.split(": ")[1] for message in found] == [
        "[0]",
        "[1]",
        "[2]",
        "[3].disable",
        "[4].insert",
        "[5].insert[0]",
        "[5].insert[1].name",
        "[5].insert[2].config",
        "[6].set.plugins",
        "[6].set.limits.maxSteps",
        "[6].set.model",
    ]
    assert found[0].endswith("exactly one of the keys id, insert and set; a new entry stands below insert")
    assert found[3].endswith("unknown key; did you mean disabled?")
    assert found[5] == "--patch p.yaml:6:12: [5].insert[0]: the key name is missing"


def test_a_layer_given_as_a_patch_and_a_patch_given_as_a_layer_say_which_option_to_use(write: Write) -> None:
    layer, patch, word = write("l.yaml", "limits: {}"), write("p.yaml", "- set: {}"), write("w.yaml", "word")
    assert refusals(config_file=patch) == ["p.yaml:1:1: is a list, which is a patch: give it with --patch"]
    assert refusals(project_file=patch) == ["p.yaml:1:1: is a list, which is a patch: give it with --patch"]
    assert refusals(patches=[layer]) == ["--patch l.yaml:1:1: is a mapping, which is a layer: give it with --config"]
    assert refusals(patches=[word]) == ["--patch w.yaml:1:1: a patch must be a list, not 'word'"]
    assert refusals(config_file=word) == ["w.yaml:1:1: must be a mapping like {plugins: …}, not 'word'"]


# --enable and --disable


@pytest.mark.parametrize("word", ["time-context", "dsh-time-context"])
def test_enable_switches_on_the_entry_with_that_id_or_name(word: str) -> None:
    deployment = load_deployment(enable=[word])
    assert listed(deployment)[0] == ("time-context", "dsh-time-context", False)
    assert deployment.plugins[0].origin == Origin(f"--enable {word}")


@pytest.mark.parametrize("word", ["openai", "dsh-openai"])
def test_enable_adds_an_installed_plugin_with_its_defaults(word: str) -> None:
    deployment = load_deployment(enable=[word], installed=["dsh-openai"])
    assert listed(deployment)[2:] == [("openai", "dsh-openai", False)]
    assert deployment.plugins[2].config == {}
    assert deployment.plugins[2].place == f"--enable {word}"


def test_an_id_goes_before_a_name(write: Write) -> None:
    base = write("c.yaml", "plugins: [{id: a, name: dsh-b, disabled: true}, {id: b, name: dsh-a, disabled: true}]")
    assert listed(load_deployment(config_file=base, enable=["a"])) == [("a", "dsh-b", False), ("b", "dsh-a", True)]


def test_disable_switches_off_and_one_that_is_not_listed_is_off_already(write: Write) -> None:
    base = write("c.yaml", "plugins: [{name: dsh-time-context}]")
    deployment = load_deployment(config_file=base, disable=["dsh-time-context", "time-reminder"], installed=BOTH)
    assert listed(deployment) == [("time-context", "dsh-time-context", True)]


def test_unknown_words_get_a_suggestion_or_the_install_command() -> None:
    assert refusals(enable=["time-contxt", "openai", "zzz"], disable=["what"], installed=["dsh-foo"]) == [
        "--disable what: there is no plugin 'what'; known are: foo, time-context, time-reminder",
        "--enable time-contxt: there is no plugin 'time-contxt'; did you mean time-context?",
        "--enable openai: there is no plugin 'openai'" + to_install("dsh-openai"),
        "--enable zzz: there is no plugin 'zzz'; known are: foo, time-context, time-reminder",
    ]
    assert to_install("dsh-openai") == "; to install it, in a clone of dsh-time: pip install ./plugins/openai"
    assert to_install("dsh-x") == "; to install it: pip install dsh-x"


def test_one_word_cannot_be_both_enabled_and_disabled() -> None:
    assert refusals(enable=["time-context"], disable=["time-context"]) == [
        "--enable time-context: 'time-context' is both enabled and disabled; give one of the two"
    ]


# The documentation


def test_the_examples_of_the_documentation_load(write: Write) -> None:
    page = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        path = write("example.yaml", block)
        if block.startswith("-"):
            load_deployment(patches=[path])
        else:
            assert load_deployment(config_file=path).limits == Limits()


def test_the_errors_of_the_documentation_are_what_is_said(write: Write) -> None:
    page = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
    project = write("dsh-time.yaml", "# mine\nlimits:\n  maxStep: 5\n")
    patch = write("mount.yaml", "- id: time-context\n  disable: true\n")
    with pytest.raises(DeploymentError) as caught:
        load_deployment(project_file=project, patches=[patch])
    assert f"```text\n{caught.value}\n```" in page
