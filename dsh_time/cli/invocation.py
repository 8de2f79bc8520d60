"""What the options before the command said, and what a command can make of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve, frozen

if TYPE_CHECKING:
    from dsh_hookspecs import Model
    from dsh_time.deployment import Deployment
    from dsh_time.harness import Harness
    from dsh_time.plugin_host import PluginHost
    from dsh_time.plugin_loading import PluginSource
    from dsh_time.store import Store


@frozen
class Invocation:
    """One call of the command line. Nothing is read before it is asked for, and everything at most once.

    `without` are the values of `--no-plugins`; an empty one means all. `model_name` is that of `--model`. `model`,
    `now_ms` (epoch ms) and `sources` (the installed plugins) replace the real ones, for tests: pass an Invocation as
    `obj` to `command_line.main`.
    """

    home: Path | None = None
    config: Path | None = None
    patches: tuple[Path, ...] = ()
    model_name: str | None = None
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    force: bool = False
    model: Model | None = None
    now_ms: Callable[[], int] | None = None
    given_sources: dict[str, PluginSource] | None = None

    def switched(self, model_name: str | None, enable: Sequence[str], disable: Sequence[str]) -> Invocation:
        """Return this invocation with another `--model`, if any, and more `--enable` and `--disable`."""
        model_name = self.model_name if model_name is None else model_name
        enable, disable = (*self.enable, *enable), (*self.disable, *disable)
        return evolve(self, model_name=model_name, enable=enable, disable=disable)

    @cached_property
    def sources(self) -> dict[str, PluginSource]:
        """The installed plugins by name. Imports none."""
        if self.given_sources is not None:
            return self.given_sources
        from dsh_time.plugin_loading import scan_plugins

        return dict(scan_plugins())

    @cached_property
    def deployment(self) -> Deployment:
        """The effective deployment. Raises DeploymentError."""
        from dsh_time.deployment import PROJECT_FILE, load_deployment, user_config_file

        deployment = load_deployment(
            user_file=user_config_file(),
            project_file=Path(PROJECT_FILE),
            config_file=self.config,
            patches=self.patches,
            model=self.model_name,
            enable=self.enable,
            disable=self.disable,
            installed=self.sources,
        )
        return deployment.without(self.without, installed=self.sources)

    @property
    def store(self) -> Store:
        """The sessions. The deployment is only read where `--home` does not say where they are."""
        from dsh_time.store import Store, default_root

        if self.home is not None:
            return Store(self.home / "sessions")
        return Store(self.deployment.sessions.root or default_root())

    @property
    def history_file(self) -> Path:
        """Where the chat keeps what was typed."""
        from dsh_time.store import default_root

        return (default_root().parent if self.home is None else self.home) / "history"

    def plugins(self, *, tolerant: bool = False) -> PluginHost:
        """Return a plugin host with what is enabled; see PluginHost. Raises PluginLoadError, DeploymentError."""
        from dsh_time.plugin_host import PluginHost

        return PluginHost(self.deployment, sources=self.sources, tolerant=tolerant)

    def harness(self) -> Harness:
        """Return a harness on the store. Nothing is written yet. Raises PluginLoadError, DeploymentError."""
        from dsh_time.harness import Harness, wall_clock_ms

        return Harness(
            self.deployment,
            root=self.store.root,
            plugins=self.plugins(),
            model=self.model,
            now_ms=self.now_ms or wall_clock_ms,
            monotonic=time.monotonic,
            force=self.force,
        )


#: Gives a command its Invocation as the first argument.
pass_invocation = click.make_pass_decorator(Invocation)
