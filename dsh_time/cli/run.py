"""`run`: one prompt, one turn, and its answer on standard output."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .agents import agent_options, check_session_options, open_agent
from .exit_codes import ExitCode
from .invocation import Invocation, pass_invocation
from .output import note, say_json

if TYPE_CHECKING:
    from dsh_time.agent import Agent, TurnResult
    from dsh_time.harness import Harness
    from dsh_time.recorder import AgentEvent

    from .turn_view import TurnView


@click.command()
@click.argument("prompt")
@agent_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the turn has ended.")
@pass_invocation
@click.pass_context
def run(
    ctx: click.Context,
    /,
    invocation: Invocation,
    prompt: str,
    session_id: str | None,
    newest: bool,
    model_name: str | None,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give PROMPT to an agent and print its answer.

    Without --session and --continue a new session is made. Ctrl-C cancels the turn and keeps what was answered; a
    second one leaves at once.
    """
    import asyncio

    import msgspec

    from .turn_view import TurnView

    check_session_options(session_id, newest)
    if not prompt.strip():
        raise click.UsageError("The prompt is empty.")
    view = TurnView(quiet=as_json)
    harness = invocation.switched(model_name, enable, disable).harness()
    session, result = asyncio.run(_run(harness, session_id, newest, prompt, view))
    if as_json:
        say_json(
            {
                "session": session,
                "turn": result.turn,
                "reason": msgspec.to_builtins(result.reason),
                "text": result.text,
                **view.figures[result.turn].to_json(),
            }
        )
    else:
        note(f"Session {session}; to go on: --session {session}")
    ctx.exit(_exit_code(result))


async def _run(
    harness: Harness, session_id: str | None, newest: bool, prompt: str, view: TurnView
) -> tuple[str, TurnResult]:
    from dsh_hookspecs.timefmt import local_zone_name

    from .waiting import waiting_line

    async with harness:
        agent = open_agent(harness, session_id, newest)
        failures: list[OSError] = []

        def listen(event: AgentEvent) -> None:
            if failures:
                return
            try:
                with waiting.broken_off(event):
                    view(event)
            except OSError as error:  # whoever read our output went away: the turn is of no more use
                failures.append(error)
                agent.cancel("output closed")

        agent.subscribe(listen)
        with waiting_line() as waiting, _interrupts(agent):
            result = await agent.prompt(prompt, client_time_zone=local_zone_name())
    if failures:
        raise failures[0]
    return agent.id, result


@contextmanager
def _interrupts(agent: Agent) -> Iterator[None]:
    """Let Ctrl-C cancel the agent's turn, and a second one end the process."""
    import asyncio

    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.add_signal_handler(signal.SIGINT, _leave)
        note("Cancelling the turn; Ctrl-C again to leave at once.")
        agent.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _leave() -> None:
    # A tool that hangs in its thread would keep an orderly end waiting. The next one who opens the session closes the
    # turn, as after a crash.
    os._exit(ExitCode.CANCELLED)


def _exit_code(result: TurnResult) -> ExitCode:
    if result.reason.kind == "completed":
        return ExitCode.OK
    return ExitCode.CANCELLED if result.reason.kind == "aborted" else ExitCode.INCOMPLETE
