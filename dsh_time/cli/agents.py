"""What `run` and `chat` share: the options that choose session and plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .ids import find_session
from .progress import reading

if TYPE_CHECKING:
    from dsh_time.agent import Agent
    from dsh_time.harness import Harness

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--session", "session_id", metavar="ID", help="Go on with this session (an id or how it begins)."),
    click.option("--continue", "newest", is_flag=True, help="Go on with the session that was used last."),
    click.option("--model", "model_name", metavar="NAME", help="Ask this model: a name, or PROVIDER:MODEL."),
    click.option("--enable", metavar="PLUGIN", multiple=True, help="Enable a plugin. Repeatable."),
    click.option("--disable", metavar="PLUGIN", multiple=True, help="Disable a plugin. Repeatable."),
)


def agent_options(function: F) -> F:
    """Add the options to a command: arguments `session_id`, `newest`, `model_name`, `enable`, `disable`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def check_session_options(session_id: str | None, newest: bool) -> None:
    """Raise UsageError when both are given."""
    if session_id is not None and newest:
        raise click.UsageError("--session and --continue exclude each other.")


def open_agent(harness: Harness, session_id: str | None, newest: bool) -> Agent:
    """Open the session that the options name, or make a new one. Raises DshTimeError."""
    if newest:
        session_id = harness.store.newest()
    if session_id is None:
        return harness.create()
    session_id = find_session(harness.store, session_id)
    with reading(harness.store.directory(session_id), "Opening") as io:
        return harness.open(session_id, io=io)
