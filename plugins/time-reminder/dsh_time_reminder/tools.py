"""Arguments of the two tools: what the model is told of them, and what a call must satisfy.

An argument that is null counts as not given.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from dsh_hookspecs import ToolError

from .counters import MAX_DEPTH, MAX_NAME, MAX_NOTE
from .cron import MAX_CHARACTERS, BadCron, Cron, parse_cron

TIME_MODE: Final = "time_mode"
TIME_COUNTER: Final = "time_counter"

Mode = Literal["cron", "off", "turn", "fine"]
Action = Literal["start", "lapse", "list", "note", "scope", "reset", "remove"]


class TimeModeArguments(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of `time_mode`. Without `mode` the call is a report."""

    mode: Annotated[
        Mode | None,
        Meta(
            description="How often a time reading is added: cron (when a fire of the expression has passed), turn (at "
            "the first step of each turn), fine (at every step), off (never). Left out: report the mode in force."
        ),
    ] = None
    cron: Annotated[
        Annotated[str, Meta(max_length=MAX_CHARACTERS)] | None,
        Meta(
            description="Only with mode cron: five fields or a macro like @daily, read in the session's time zone. "
            "Left out: the session's last expression."
        ),
    ] = None


class TimeCounterArguments(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of `time_counter`."""

    action: Annotated[
        Action,
        Meta(
            description="start a counter (again: from now on, attributes left out keep their value), reset it to now, "
            "change its note, change its scope (inject, toChildren, toParents, depth), remove it; lapse reads one, "
            "list reads all that are visible."
        ),
    ]
    name: Annotated[
        str | None,
        Meta(
            description=f"At most {MAX_NAME} characters, no blanks and none of = , ( ) @. Needed by every action but "
            "list. lapse also takes name@session."
        ),
    ] = None
    note: Annotated[
        Annotated[str, Meta(max_length=MAX_NOTE)] | None,
        Meta(description="With start and note: shown beside the counter; an empty one clears it."),
    ] = None
    inject: Annotated[
        bool | None, Meta(description="With start and scope: show it in every time reading. Default false.")
    ] = None
    to_children: Annotated[
        bool | None, Meta(description="With start and scope: child agents can read it. Default true.")
    ] = None
    to_parents: Annotated[
        bool | None, Meta(description="With start and scope: parent agents can read it. Default false.")
    ] = None
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_DEPTH)] | None,
        Meta(description="With start and scope: over how many generations; 1 is a direct parent or child. Default 2."),
    ] = None


def checked_mode(arguments: TimeModeArguments) -> Cron | None:
    """The expression that the call gives, None if it gives none. Raises ToolError, with text for the model, on others.

    `cron` goes with mode `cron` only.
    """
    if arguments.cron is None:
        return None
    if arguments.mode != "cron":
        mode = "without a mode" if arguments.mode is None else f"with mode {arguments.mode}"
        raise ToolError(f"cron {mode} means nothing; give it with mode cron. Nothing was changed")
    try:
        return parse_cron(arguments.cron)
    except BadCron as error:
        raise ToolError(f"cron: {error}. Mode and expression stay as they were") from None
