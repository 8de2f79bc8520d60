"""The deployment: which plugins run, which model, which limits. Read from layers of YAML files, the later
ones winning.

```
built in < user config file < ./dsh-time.yaml < --config FILE < --patch FILE, in order < --model < --enable, --disable
```

`docs/deployment.md` describes the files. Neither ruamel.yaml nor cattrs is imported before a file is read or
a value is structured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from dsh_time import deployment_text
from dsh_time.deployment_files import Limits, Sessions, check_layer, check_patch
from dsh_time.deployment_layers import (
    apply_layer,
    apply_patch,
    apply_switch,
    check_entries,
    complete_entry,
    install_command,
    merge,
)
from dsh_time.deployment_models import choose_model, enable_all_providers, enable_provider
from dsh_time.deployment_text import Setting
from dsh_time.errors import DeploymentError, StructureError
from dsh_time.problems import Keys, Problem
from dsh_time.structure import camel_case, structure
from dsh_time.yaml_reader import BUILT_IN, Node, Origin, make_node, nearest, plain, read_yaml

__all__ = [
    "BUILT_IN",
    "PROJECT_FILE",
    "Deployment",
    "Limits",
    "Origin",
    "PluginEntry",
    "Sessions",
    "Setting",
    "install_command",
    "load_deployment",
    "user_config_file",
]

T = TypeVar("T")

#: The project's own file, looked for in the working directory.
PROJECT_FILE = "dsh-time.yaml"

#: The plugins of a deployment that no file changes. Each is listed, so that a patch can name it by its id.
_BUILT_IN_PLUGINS: tuple[Mapping[str, Any], ...] = (
    {"name": "dsh-time-context", "disabled": True},
    {"name": "dsh-time-reminder"},
)


@attrs.frozen
class PluginEntry:
    """One line of the deployment's list of plugins.

    `name` is the plugin's entry point and distribution; `id` is what patches and switches call it. `config`
    is checked when the plugin is loaded. `origin` is the layer that touched the entry last: while it is
    `BUILT_IN`, a plugin that is not installed is skipped; else somebody asked for it, and that it is missing
    is an error. `place` is that layer's file and line, for messages.
    """

    id: str
    name: str
    disabled: bool
    config: Mapping[str, Any] = attrs.field(repr=False)  # it may hold a secret
    origin: Origin = attrs.field(eq=False)
    place: str = attrs.field(eq=False)


@attrs.frozen
class Deployment:
    """The effective deployment, in the order of the file: `plugins` run in that order.

    `model` names a `provider` and holds its settings; so does each of `models`, which has the names that `--model`
    takes. Two deployments are equal when they say the same, wherever it was said.
    """

    plugins: tuple[PluginEntry, ...]
    model: Mapping[str, Any] = attrs.field(repr=False)  # it may hold a secret
    models: Mapping[str, Mapping[str, Any]] = attrs.field(repr=False)  # as above
    limits: Limits
    sessions: Sessions
    tree: Node = attrs.field(eq=False, repr=False)

    def configure(self, entry: PluginEntry, cls: type[T]) -> T:
        """Return the entry's plugin: its class, structured from the entry's config.

        Raises DeploymentError with every problem, each with the file and line of the value.
        """
        index = next(index for index, other in enumerate(self.plugins) if other.id == entry.id)
        return _structured(self.tree, ("plugins", index, "config"), cls, entry.config)

    def model_settings(self, cls: type[T], name: str | None = None) -> T:
        """Return the provider's settings class, structured from `model` without `provider`; with `name`, from that one
        of `models`.

        Raises DeploymentError.
        """
        model, keys = (self.model, ("model",)) if name is None else (self.models[name], ("models", name))
        settings = {key: value for key, value in model.items() if key != "provider"}
        return _structured(self.tree, keys, cls, settings)

    def with_all_providers(self, installed: Collection[str]) -> Deployment:
        """Return the deployment with the plugins of all providers in `models` enabled, not of that in `model` alone."""
        return _deployment(enable_all_providers(self.tree, installed))

    def switched(
        self, *, enable: Sequence[str] = (), disable: Sequence[str] = (), installed: Collection[str] = ()
    ) -> Deployment:
        """Return the deployment with plugins disabled and then enabled, as by `--disable` and `--enable`.

        Raises DeploymentError.
        """
        problems: list[Problem] = []
        return _checked(_switch(self.tree, enable, disable, installed, problems), problems)

    def without(self, words: Sequence[str], *, installed: Collection[str] = ()) -> Deployment:
        """Return the deployment without what `words` name, or with an empty word without any plugin, as by
        `--no-plugins`.

        Raises DeploymentError.
        """
        problems: list[Problem] = []
        tree = self.tree
        switches = [(word, f"--no-plugins={word}") for word in words if word]
        if "" in words:
            switches = [(entry.id, "--no-plugins") for entry in self.plugins]
        for word, place in switches:
            tree = apply_switch(tree, word, installed, problems, disabled=True, place=place)
        return _checked(tree, problems)

    def explain(self) -> tuple[Setting, ...]:
        """Return every value that applies with its path and where it was said; secrets are hidden."""
        return deployment_text.explain(self.tree)

    def to_yaml(self) -> str:
        """Return the deployment as a file that can be loaded again, with a comment after each value that says
        where it is from.
        """
        return deployment_text.render(self.tree)


def user_config_file() -> Path:
    """Return the path of the user's config file, in the platform's config folder. It need not exist."""
    from platformdirs import user_config_path

    return user_config_path("dsh-time", appauthor=False) / "config.yaml"


def load_deployment(
    *,
    user_file: Path | None = None,
    project_file: Path | None = None,
    config_file: Path | None = None,
    patches: Sequence[Path] = (),
    model: str | None = None,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
    installed: Collection[str] = (),
) -> Deployment:
    """Return the effective deployment.

    A user or project file that does not exist is skipped; the others must exist. `model` is a name in `models`, or
    PROVIDER:MODEL. `installed` are the names of the installed plugins: `enable` may add one, and that of the model's
    provider is added. No plugin is imported, and no plugin's config is checked but for being a mapping.

    Raises DeploymentError with every problem of every file.
    """
    problems: list[Problem] = []
    layers: list[Node] = []
    for source, path in (("user", user_file), ("project", project_file), ("config", config_file)):
        layer = _read(path, str(path), problems, required=source == "config") if path is not None else None
        if layer is not None:
            check_layer(layer, problems, project=source == "project")
            layers.append(layer)
    patch_nodes = [_read(path, f"--patch {path}", problems, required=True) for path in patches]
    for patch in patch_nodes:
        if patch is not None:
            check_patch(patch, problems)
    problems.extend(
        Problem((), f"{word!r} is both enabled and disabled; give one of the two", place=f"--enable {word}")
        for word in sorted(set(enable) & set(disable))
    )
    if problems:
        raise DeploymentError(tuple(problems))

    tree = _built_in()
    for layer in layers:
        tree = apply_layer(tree, layer)
    for patch in patch_nodes:
        if patch is not None:
            tree = apply_patch(tree, patch, problems)
    tree = choose_model(tree, model, problems)
    if not problems:
        tree = enable_provider(tree, nearest(tree, ("model",)), installed)
    return _checked(_switch(tree, enable, disable, installed, problems), problems)


def _checked(tree: Node, problems: list[Problem]) -> Deployment:
    check_entries(tree, problems)
    if problems:
        raise DeploymentError(tuple(problems))
    return _deployment(tree)


def _switch(
    tree: Node, enable: Sequence[str], disable: Sequence[str], installed: Collection[str], problems: list[Problem]
) -> Node:
    for words, disabled in ((disable, True), (enable, False)):
        for word in words:
            tree = apply_switch(tree, word, installed, problems, disabled=disabled)
    return tree


def _read(path: Path, label: str, problems: list[Problem], *, required: bool) -> Node | None:
    try:
        node = read_yaml(path, Origin(label, path))
    except DeploymentError as error:
        problems.extend(error.problems)
        return None
    if node is None and required:
        problems.append(Problem((), "there is no such file", place=label))
    return node


def _built_in() -> Node:
    plugins = tuple(complete_entry(make_node(entry, BUILT_IN)) for entry in _BUILT_IN_PLUGINS)
    settings = {
        "model": {"provider": "demo"},
        "models": {"demo": {"provider": "demo"}},
        "limits": {camel_case(name): value for name, value in attrs.asdict(Limits()).items()},
        "sessions": {},
    }
    sections = {key: make_node(value, BUILT_IN) for key, value in settings.items()}
    return Node({"plugins": Node(plugins, BUILT_IN), **sections}, BUILT_IN)


def _deployment(tree: Node) -> Deployment:
    data = plain(tree)
    nodes = nearest(tree, ("plugins",)).value
    assert isinstance(nodes, tuple)
    plugins = tuple(
        PluginEntry(**entry, origin=node.origin, place=node.place)
        for entry, node in zip(data["plugins"], nodes, strict=True)
    )
    limits = _structured(tree, ("limits",), Limits, data["limits"])
    sessions = _structured(tree, ("sessions",), Sessions, data["sessions"])
    root = nearest(tree, ("sessions", "root"))
    if sessions.root is not None and root.origin.file is not None:  # a relative path starts at the file that says it
        sessions = Sessions(root.origin.file.absolute().parent / sessions.root)
        resolved = attrs.evolve(root, value=str(sessions.root))
        tree = merge(tree, Node({"sessions": Node({"root": resolved}, root.origin)}, root.origin))
    return Deployment(plugins, data["model"], data["models"], limits, sessions, tree)


def _structured(tree: Node, keys: Keys, cls: type[T], data: object) -> T:
    try:
        return structure(data, cls, where="")
    except StructureError as error:
        problems = [attrs.evolve(problem, keys=(*keys, *problem.keys)) for problem in error.problems]
    raise DeploymentError(tuple(attrs.evolve(found, place=nearest(tree, found.keys).place) for found in problems))
