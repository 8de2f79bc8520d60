"""The deployment as text can be loaded again and says where each value is from; the starter file changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.deployment import load_deployment
from dsh_time.deployment_text import Setting, explain, init_text, render, write_init
from dsh_time.errors import StarterFileError
from dsh_time.yaml_reader import BUILT_IN, Origin, make_node, plain, read_yaml


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _write(name: str, content: str) -> Path:
    Path(name).write_text(content)
    return Path(name)


def test_every_value_is_explained_with_its_path_and_place() -> None:
    deployment = load_deployment(
        user_file=_write("u.yaml", "limits:\n  maxSteps: 7\nmodel:\n  provider: x\n  apiKey: hunter2\n"),
        patches=[_write("p.yaml", "- {id: time-context, config: {timeZone: Asia/Tokyo}}\n")],
        enable=["time-context"],
    )
    assert deployment.explain() == (
        Setting("plugins[0].id", "time-context", "--patch p.yaml:1:4"),
        Setting("plugins[0].name", "dsh-time-context", "built in"),
        Setting("plugins[0].disabled", False, "--enable time-context"),
        Setting("plugins[0].config.timeZone", "Asia/Tokyo", "--patch p.yaml:1:31"),
        Setting("plugins[1].id", "time-reminder", "built in"),
        Setting("plugins[1].name", "dsh-time-reminder", "built in"),
        Setting("plugins[1].disabled", False, "built in"),
        Setting("plugins[1].config", {}, "built in"),
        Setting("model.provider", "x", "u.yaml:4:3"),
        Setting("model.apiKey", "(hidden)", "u.yaml:5:3"),
        Setting("models.demo.provider", "demo", "built in"),
        Setting("limits.maxSteps", 7, "u.yaml:2:3"),
        Setting("limits.toolTimeoutS", 120, "built in"),
        Setting("limits.toolOutputBytes", 65536, "built in"),
        Setting("limits.argumentBytes", 262144, "built in"),
        Setting("limits.slowHookMs", 50, "built in"),
        Setting("sessions", {}, "built in"),
    )


def test_the_effective_file_has_the_place_of_each_value_as_a_comment() -> None:
    deployment = load_deployment(
        config_file=_write(
            "c.yaml",
            "plugins:\n- name: dsh-a\n  config: {cron: '0 0 * * *', mode: off, list: [1, [2], {x: y}], none: }\n"
            "model: {provider: x, token: hunter2}\nsessions: {root: /var/logs}\n",
        )
    )
    assert re.sub(" +#", "  #", deployment.to_yaml()) == (
        "plugins:\n"
        "  - id: a  # c.yaml:2:3\n"
        "    name: dsh-a  # c.yaml:2:3\n"
        "    disabled: false  # c.yaml:2:3\n"
        "    config:\n"
        '      cron: "0 0 * * *"  # c.yaml:3:12\n'
        "      mode: off  # c.yaml:3:31\n"
        "      list:\n"
        "        - 1  # c.yaml:3:49\n"
        "        - - 2  # c.yaml:3:53\n"
        "        - x: y  # c.yaml:3:58\n"
        "      none: null  # c.yaml:3:66\n"
        "model:\n"
        "  provider: x  # c.yaml:4:9\n"
        '  token: "(hidden)"  # c.yaml:4:22\n'
        "models:\n"
        "  demo:\n"
        "    provider: demo  # built in\n"
        "limits:\n"
        "  maxSteps: 50  # built in\n"
        "  toolTimeoutS: 120  # built in\n"
        "  toolOutputBytes: 65536  # built in\n"
        "  argumentBytes: 262144  # built in\n"
        "  slowHookMs: 50  # built in\n"
        "sessions:\n"
        "  root: /var/logs  # c.yaml:5:12\n"
    )


def test_a_relative_folder_for_sessions_is_shown_resolved(tmp_path: Path) -> None:
    deployment = load_deployment(config_file=_write("c.yaml", "sessions: {root: logs}"))
    assert deployment.explain()[-1] == Setting("sessions.root", str(tmp_path / "logs"), "c.yaml:1:12")


_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.sampled_from(["off", "true", "Null", "~", "", "1", "- a", "a: b", "#", "* * *", "0x1", ".inf", "<<", "@x"])
)  # fmt: skip
_keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5).filter(
    lambda key: not re.search(r"(?i)api[_-]*key|token|secret|password", key)
)
_data = st.recursive(_scalars, lambda inner: st.lists(inner) | st.dictionaries(_keys, inner), max_leaves=12)


@given(st.dictionaries(_keys, _data, min_size=1))
def test_what_is_rendered_loads_as_the_same_data(data: dict[str, object]) -> None:
    text = render(make_node(data, Origin("from\nhere")))
    assert all(character.isprintable() or character == "\n" for character in text)
    node = read_yaml(_write("again.yaml", text), BUILT_IN)
    assert node is not None
    assert repr(plain(node)) == repr(data)  # repr, so that 1, 1.0 and true differ


@given(st.dictionaries(_keys, _data, min_size=1))
def test_a_rendered_deployment_can_be_given_as_its_config_file(config: dict[str, object]) -> None:
    entry = {"name": "dsh-a", "config": config}
    base = _write("base.yaml", render(make_node({"plugins": [entry]}, BUILT_IN)))
    first = load_deployment(config_file=base)
    again = load_deployment(config_file=_write("again.yaml", first.to_yaml()))
    assert again == first


def test_a_secret_is_hidden_wherever_it_stands() -> None:
    tree = make_node({"a": [{"apiKey": ["hunter2"], "password": {"x": "hunter2"}}]}, BUILT_IN)
    assert "hunter2" not in render(tree) + repr(explain(tree))


def test_the_starter_file_changes_nothing() -> None:
    assert load_deployment(project_file=_write("dsh-time.yaml", init_text())) == load_deployment()


def test_the_starter_file_says_the_defaults() -> None:
    content = re.sub(r"(?m)^#(?! \S|$)", "", init_text()).replace("  root: ./sessions\n", "")  # `# Text` stays
    assert "\n  maxSteps: 50\n" in content
    deployment = load_deployment(project_file=_write("dsh-time.yaml", content))
    default = load_deployment()
    assert (deployment.limits, deployment.model) == (default.limits, default.model)
    shown = {(entry.id, entry.disabled) for entry in deployment.plugins}
    assert shown == {("time-context", True), ("time-reminder", False)}


def test_init_writes_the_starter_file_for_its_owner_alone_and_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "config.yaml"
    write_init(path)
    assert path.read_text() == init_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_init_leaves_what_is_there(tmp_path: Path) -> None:
    path = _write("dsh-time.yaml", "mine")
    with pytest.raises(StarterFileError, match=r"dsh-time.yaml: exists already and is left as it is"):
        write_init(path)
    assert path.read_text() == "mine"
    link = tmp_path / "link.yaml"
    link.symlink_to("elsewhere.yaml")
    with pytest.raises(StarterFileError, match="exists already"):
        write_init(link)
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_init_says_why_it_cannot_write(tmp_path: Path) -> None:
    _write("file", "")
    with pytest.raises(StarterFileError, match="cannot be written: Not a directory"):
        write_init(tmp_path / "file" / "below" / "x.yaml")
