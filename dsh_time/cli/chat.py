"""`chat`: a conversation at the terminal. `chat_loop` has the loop itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .agents import agent_options, check_session_options, open_agent
from .invocation import Invocation, pass_invocation
from .output import note

if TYPE_CHECKING:
    from pathlib import Path

    from dsh_time.harness import Harness


@click.command()
@agent_options
@pass_invocation
def chat(
    invocation: Invocation,
    session_id: str | None,
    newest: bool,
    model_name: str | None,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
) -> None:
    """Talk with an agent.

    Lines can be typed while an answer is streamed. Ctrl-C cancels the turn, Ctrl-D leaves, /help lists the commands.
    """
    import asyncio

    check_session_options(session_id, newest)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("A chat needs a terminal; `dsh-time run PROMPT` does not.")
    harness = invocation.switched(model_name, enable, disable).harness()
    asyncio.run(_chat(harness, session_id, newest, invocation.history_file))


async def _chat(harness: Harness, session_id: str | None, newest: bool, history_file: Path) -> None:
    from dsh_hookspecs.timefmt import local_zone_name

    from .chat_loop import Chat, open_history

    async with harness:
        agent = open_agent(harness, session_id, newest)
        await Chat(harness, agent, local_zone_name(), open_history(history_file)).run()
        note(f"Session {agent.id}; to go on: --session {agent.id}")
