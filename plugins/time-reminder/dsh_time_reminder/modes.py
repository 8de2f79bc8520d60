"""When a step owes the model a reading, and in which zone it is made. Everything here is a pure function."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from attrs import frozen

from dsh_hookspecs.timefmt import epoch_ms, load_zone, local_zone_name

from .cron import Cron, parse_cron
from .fires import newest_fire
from .fold import TimeState
from .tools import Mode

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: A clock that stands this much before what was read from it was set back; less is jitter. In ms.
_ROLLBACK_MS: Final = 1000

#: `first`: the session has no reading yet; `crossing`: a fire has passed; `compaction`: the model no longer sees the
#: last reading; `rollback`: the clock was set back; `cadence`: the mode asks for one here (`turn`, `fine`).
Reason = Literal["first", "crossing", "compaction", "rollback", "cadence"]


@frozen
class Cadence:
    """Mode and expression in force, and the least time between two readings in mode `fine` (ms, 0 = every step)."""

    mode: Mode
    cron: Cron
    fine_interval_ms: int = 0


@frozen
class Due:
    """A reading that is due. `fire` is the newest fire at or before now in mode `cron` (UTC; None: there was none yet).

    `previous` is the instant of the session's last reading, of any mode, hidden or not (epoch ms; None: there is none).
    """

    mode: Mode
    reason: Reason
    fire: datetime | None
    previous: int | None


def cadence(state: TimeState, default_mode: Mode, default_cron: str, fine_interval_ms: int) -> Cadence:
    """What is in force: what the session's calls set, else the deployment's defaults."""
    return Cadence(state.mode or default_mode, parse_cron(state.cron or default_cron), fine_interval_ms)


def zone_in_force(configured: str | None, state: TimeState, process: Callable[[], str]) -> ZoneInfo:
    """The session's zone: the configured one, else the newest one a message of the user carried, else the process's.

    All three are names that `load_zone` takes; it raises BadZone for another. `process` is asked only for want of the
    others.
    """
    return load_zone(configured or state.zone or process())


@cache
def process_zone() -> str:
    """The zone of this process (`TZ`, else the system's setting); UTC when it has no name that `load_zone` takes."""
    return local_zone_name() or "UTC"


def due(state: TimeState, cadence: Cadence, zone: ZoneInfo, step: int, now: datetime) -> Due | None:
    """The reading that step number `step` of a turn owes at the instant `now` (aware), None if it owes none.

    Raises InstantOutOfRange where `now` has no date in `zone`.
    """
    fire = newest_fire(cadence.cron, zone, now) if cadence.mode == "cron" else None
    reason = _reason(state, cadence, fire, step, epoch_ms(now))
    if reason is None:
        return None
    return Due(cadence.mode, reason, fire, None if state.reading is None else state.reading.sampled_at)


def _reason(state: TimeState, cadence: Cadence, fire: datetime | None, step: int, now: int) -> Reason | None:
    if cadence.mode == "off":
        return None
    if cadence.mode == "turn":
        return "cadence" if step == 1 else None
    reading, call = state.reading, state.mode_call
    if reading is None:
        return "first" if cadence.mode == "cron" else "cadence"
    every_step = cadence.fine_interval_ms == 0
    if cadence.mode == "fine" and (every_step or now - reading.sampled_at >= cadence.fine_interval_ms):
        return "cadence"
    # A call older than the reading says nothing any more: after a rollback the reading goes on from the new now.
    mark = call.time if call is not None and call.seq > reading.seq else reading.sampled_at
    if cadence.mode == "cron":
        if fire is not None and epoch_ms(fire) > mark:
            return "crossing"
        if reading.hidden:
            return "compaction"
    return "rollback" if now <= max(mark, reading.sampled_at) - _ROLLBACK_MS else None
