"""The hooks. A plugin implements any of them as methods marked with `hookimpl`.

Hooks are synchronous; only tool bodies and models are async. Hooks are called in the order of the deployment file. A
plugin is frozen: one instance serves every session of the process, so what differs per session, turn or step comes
from a fold or from the argument. When a hook raises or returns something else than stated, the host logs a warning and
a `plugin/error` event that name plugin, distribution and hook, and what "on failure" says below happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import pluggy

from ._contexts import Message, Prompt, Reject, Section, Step
from ._folds import Fold, SessionView
from ._models import ModelProvider
from ._tools import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    import click

#: The name of the project in pluggy's sense, and the group of entry points that plugins are found by.
PROJECT = "dsh_time"
ENTRY_POINT_GROUP = "dsh_time.plugins"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Hooks:
    """The hook specifications."""

    @hookspec
    def system_prompt_section(self, prompt: Prompt) -> Section | Iterable[Section] | None:
        """Give parts of the system prompt. Called once per step, when the request is assembled.

        `prompt.step` is None when no turn is open. Section names are unique over all plugins. None: no section.
        On failure the plugin's sections are left out and the turn goes on.
        """
        raise NotImplementedError

    @hookspec
    def before_step(self, step: Step) -> Message | Iterable[Message] | Reject | None:
        """Give messages that stand after everything else in the request, or reject the turn.

        Called once per step, only when a model request will follow. `step.now` is UTC. None: nothing to add.
        On failure the plugin contributes nothing and the turn goes on.
        """
        raise NotImplementedError

    @hookspec
    def register_tools(self) -> Iterable[Tool]:
        """Give tools. Called once, when the plugin is loaded.

        On failure, or when another plugin has a tool of the same name, the plugin is not loaded.
        """
        raise NotImplementedError

    @hookspec
    def on_tool_result(self, context: ToolContext, result: ToolOutput) -> ToolOutput | None:
        """Change a result's text before it is logged, or name sessions to wake. Called after each tool body.

        `context.now` is the call's logged time in UTC. Chains in the deployment's order; `is_error` cannot change.
        None: the result stays as it is. On failure the plugin's answer is ignored.
        """
        raise NotImplementedError

    @hookspec
    def register_folds(self) -> Iterable[type[Fold]]:
        """Give fold classes; the host keeps their states for each session. Called once, when the plugin is loaded.

        On failure the plugin is not loaded.
        """
        raise NotImplementedError

    @hookspec
    def register_models(self) -> Iterable[ModelProvider]:
        """Give model providers. Called once, when the plugin is loaded.

        On failure, or when another plugin has a provider of the same name, the plugin is not loaded.
        """
        raise NotImplementedError

    @hookspec
    def status_line(self, session: SessionView, now: datetime) -> str | None:
        """Give a few words on the session for a person who watches it, such as what runs for how long.

        Called about once a second while `chat` shows its bottom line. `now` is the wall clock in UTC. None: nothing.
        On failure the plugin is not asked again in this chat.
        """
        raise NotImplementedError

    @hookspec
    def register_commands(self, group: click.Group) -> None:
        """Add click commands to `group`. Called when the command line meets an unknown command or prints its help.

        On failure the plugin's commands are missing, with one warning.
        """
        raise NotImplementedError
