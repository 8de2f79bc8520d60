"""`dsh-time verify`, `salvage` and `fork`: whether a log is sound, and new sessions from old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from attrs import evolve

from .exit_codes import ExitCode
from .ids import find_session
from .invocation import Invocation, pass_invocation
from .output import say, say_json
from .progress import reading

if TYPE_CHECKING:
    from dsh_time.log import Report

#: The states of a log in which all that was promised to be safe is there.
_SOUND: Final = ("ok", "pending", "torn")

_NEW_ID = click.option("--as", "new_id", metavar="ID", help="The new session's id (default: made from the time).")


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Check all sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per session.")
@click.pass_context
@pass_invocation
def verify(
    invocation: Invocation, context: click.Context, /, *, sessions: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Check every byte of the logs and side files of sessions. Nothing is changed.

    Exits with 4 when one is damaged. SESSION is an id, the beginning of one, or `last`.
    """
    from dsh_time.errors import LogError
    from dsh_time.log import verify as check

    if everything == bool(sessions):
        raise click.UsageError("Name the sessions to check, or say --all.", context)
    store = invocation.store
    code = ExitCode.OK
    for name in store.ids() if everything else [find_session(store, word) for word in sessions]:
        directory = store.directory(name)
        try:
            with reading(directory, "Checking") as io:
                report = check(directory, io=io)
        except LogError as error:  # this one cannot be read; the others can
            code = max(code, ExitCode.ERROR)
            say_json({"id": name, "state": "unreadable", "reason": str(error)}) if as_json else say(
                f"unreadable  {name}: {error}"
            )
            continue
        if report.state not in _SOUND or report.damaged_side_files:
            code = ExitCode.DAMAGED
        say_json(_plain(name, report)) if as_json else say(_sentence(name, report))
    context.exit(code)


@click.command()
@click.argument("session")
@_NEW_ID
@pass_invocation
def salvage(invocation: Invocation, *, session: str, new_id: str | None) -> None:
    """Make a new session from what can be trusted of a damaged SESSION, which is not changed.

    SESSION is an id, the beginning of one, or `last`.
    """
    from dsh_time.fold_set import decode_event
    from dsh_time.harness import WRITER, wall_clock_ms
    from dsh_time.log import salvage as copy
    from dsh_time.store import new_session_id

    store = invocation.store
    source = store.directory(find_session(store, session))
    now = (invocation.now_ms or wall_clock_ms)()
    saved = copy(
        source,
        store.directory(new_id or new_session_id(now)),
        created_at=now,
        writer=WRITER,
        check=lambda record: decode_event(record, source),
        force=invocation.force,
    )
    left = f"line {saved.line} and what follows ({saved.reason})" if saved.reason else "nothing"
    say(f"{saved.records} events of {source.name} are in the new session {saved.header.id}. Left behind: {left}.")
    say(f"To go on: dsh-time run --session {saved.header.id} PROMPT")


@click.command()
@click.argument("session")
@_NEW_ID
@pass_invocation
def fork(invocation: Invocation, *, session: str, new_id: str | None) -> None:
    """Copy a SESSION into a new one, also while it is written. A turn that is open is not copied.

    SESSION is an id, the beginning of one, or `last`.
    """
    harness = evolve(invocation, without=("",)).harness()  # a plugin that cannot be loaded has no say in this
    made = harness.fork(find_session(harness.store, session), new_id)
    say(f"Made session {made}. To go on: dsh-time run --session {made} PROMPT")


def _plain(name: str, report: Report) -> dict[str, object]:
    return {
        "id": name,
        "state": report.state,
        "file": str(report.path),
        "events": report.records,
        "offset": report.offset,
        "line": report.line,
        "reason": report.reason,
        "next": report.next_step,
        "damagedSideFiles": report.damaged_side_files,
    }


def _sentence(name: str, report: Report) -> str:
    state = {"torn": "torn tail"}.get(report.state, report.state)
    text = f"{state}  {name}: {report.records} events"
    if report.state != "ok":
        text += f"; {report.path}, byte {report.offset}, line {report.line}: {report.reason}. Next: {report.next_step}"
    for file in report.damaged_side_files:
        text += f"\n  {report.path.with_name(file)}: the side file is not what was stored; the log is not affected"
    return text
