"""`dsh-time sessions`: what sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dsh_time.text import safe_line

from .invocation import Invocation, pass_invocation
from .output import say, say_json, say_table

if TYPE_CHECKING:
    from dsh_time.listing import SessionSummary


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per session.")
@pass_invocation
def sessions(invocation: Invocation, *, as_json: bool) -> None:
    """List the sessions, the one that was used last first.

    Only the two ends of each log are looked at; `verify` checks all of it.
    """
    from dsh_time.listing import summarize

    store = invocation.store
    found = [summarize(store.directory(session_id)) for session_id in store.ids()]
    found.sort(key=lambda one: (one.last_time or 0, one.created_at or 0, one.id), reverse=True)
    if as_json:
        for one in found:
            say_json(one.as_json())
    elif found:
        say_table(("ID", "CREATED", "LAST ACTIVITY", "TURNS", "STATE", "TITLE"), map(_row, found))
    else:
        say(f"There are no sessions in {store.root}. `dsh-time run PROMPT` makes one.")


def _row(one: SessionSummary) -> tuple[str, ...]:
    from .transcript import stamp

    created, last = ("?" if moment is None else stamp(moment)[:16] for moment in (one.created_at, one.last_time))
    notes = [safe_line(one.title, 60)]
    if one.parent_session is not None:
        notes.append(f"(child of {one.parent_session})")
    if one.forked_from is not None:
        notes.append(f"(copy of {one.forked_from})")
    if one.reason:
        notes.append(f"[{safe_line(one.reason, 200)}]")
    turns = "?" if one.turns is None else str(one.turns)
    return (one.id, created, last, turns, one.state, " ".join(filter(None, notes)))
