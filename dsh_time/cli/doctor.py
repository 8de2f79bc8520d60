"""`dsh-time doctor`: look every session over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .exit_codes import ExitCode
from .ids import find_session
from .invocation import Invocation, pass_invocation
from .output import say, say_json
from .progress import reading

if TYPE_CHECKING:
    from dsh_time.doctor import Checkup, Finding


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option(
    "--fix", is_flag=True, help="Put right what can be without losing anything. Damaged logs stay as they are."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per session.")
@click.pass_context
@pass_invocation
def doctor(
    invocation: Invocation, context: click.Context, /, *, sessions: tuple[str, ...], fix: bool, as_json: bool
) -> None:
    """Look sessions over: logs, side files, tool calls, permissions, what crashes left, text that looks like a key.

    Without SESSION, all of them. Nothing is changed without --fix. Exits with 4 when something is damaged. SESSION is
    an id, the beginning of one, or `last`.
    """
    from dsh_time.doctor import examine

    store = invocation.store
    names = [find_session(store, word) for word in sessions] if sessions else store.ids()
    damaged = findings = 0
    for name in names:
        directory = store.directory(name)
        with reading(directory, "Examining", times=3) as io:
            found = examine(directory, fix=fix, io=io, force=invocation.force)
        damaged += found.damaged
        findings += len(found.findings)
        say_json(_plain(found)) if as_json else say(_report(found))
    if not as_json:
        say(f"{_count(len(names), 'session')}, {_count(findings, 'finding')}, {damaged} damaged.")
    context.exit(ExitCode.DAMAGED if damaged else ExitCode.OK)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _plain(found: Checkup) -> dict[str, object]:
    findings = [
        {"level": one.level, "kind": one.kind, "text": one.text, "next": one.next_step, "fixed": one.fixed}
        for one in found.findings
    ]
    return {"id": found.session, "damaged": found.damaged, "events": found.events, "findings": findings}


def _report(found: Checkup) -> str:
    if not found.findings:
        return f"ok  {found.session}: {found.events} events"
    return "\n  ".join([f"{found.session}: {found.events} events", *map(_sentence, found.findings)])


def _sentence(one: Finding) -> str:
    text = f"{'fixed' if one.fixed else one.level}  {one.text.removesuffix('.')}."
    if one.next_step:
        text += f" {one.next_step}" if one.fixed else f" Next: {one.next_step}."
    return text
