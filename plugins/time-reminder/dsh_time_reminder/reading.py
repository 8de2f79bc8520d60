"""The exact text of a reading and of a notice, from plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from attrs import frozen

from dsh_hookspecs.timefmt import epoch_ms, format_duration, format_stamp, instant_at, local_time

from .counters import Counter
from .frames import framed, plain_line, plain_note
from .modes import Cadence

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: Bounds: bytes (UTF-8) of the counters' line and of a notice's lines together; characters of a summary.
MAX_BYTES: Final = 2048
MAX_SUMMARY: Final = 120

_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LABEL: Final = "[counters] "


@frozen
class ShownCounter:
    """A counter that is shown; `session` is the id of the relative that owns it, empty for an own one.

    `at_rest`: that relative is not open in this process.
    """

    name: str
    counter: Counter
    session: str = ""
    at_rest: bool = False


@frozen
class Reading:
    """What a reading says.

    `previous` is the instant of the session's last reading (epoch ms), `previous_message` that of its last
    model-visible message before this turn; None: there is none.
    """

    turn: int
    step: int
    now: datetime
    zone: ZoneInfo
    cadence: Cadence
    previous: int | None
    previous_message: datetime | None
    counters: Sequence[ShownCounter] = ()
    weekday: bool = False

    @property
    def text(self) -> str:
        """The whole framed text. Raises InstantOutOfRange where an instant has no date in the zone."""
        lines = [self._sampled, mode_line(self.cadence, self.zone, self.previous), self._elapsed]
        if self.counters:
            entries = [counter_entry(shown, epoch_ms(self.now)) for shown in self.counters]
            lines.append(_LABEL + capped(entries, ", ", MAX_BYTES - len(_LABEL)))
        return framed(lines)

    @property
    def summary(self) -> str:
        """The one line that a person sees of it: mode and stamp without the zone's name."""
        stamp, _, _ = format_stamp(self.now, self.zone).partition("[")
        return f"{self.cadence.mode} reading · {stamp}"[:MAX_SUMMARY]

    @property
    def _sampled(self) -> str:
        weekday = f" {_WEEKDAYS[local_time(self.now, self.zone).weekday()]}" if self.weekday else ""
        stamp = format_stamp(self.now, self.zone)
        return f"Time sampled while preparing turn {self.turn}, step {self.step}: {stamp}{weekday}"

    @property
    def _elapsed(self) -> str:
        if self.step == 1:
            what, kind = "model-visible message", "message"
            since = None if self.previous_message is None else epoch_ms(self.previous_message)
        else:
            what, kind, since = "reading", "reading", self.previous
        elapsed = f"unavailable (no earlier {kind} in this session)"
        if since is not None:
            elapsed = format_duration(epoch_ms(self.now) - since)
        return f"Elapsed since the preceding {what}: {elapsed}"


def mode_line(cadence: Cadence, zone: ZoneInfo, previous: int | None) -> str:
    """`Time mode: cron (daily 00:00 UTC; previous reading …)`; `previous` is the last reading's instant in epoch ms."""
    shown = "none" if previous is None else format_stamp(instant_at(previous), zone)
    return f"Time mode: {cadence.mode} ({cadence_text(cadence, zone)}; previous reading {shown})"


def cadence_text(cadence: Cadence, zone: ZoneInfo) -> str:
    """When a mode reads: `daily 00:00 Asia/Shanghai`, `first step of each turn`, `at least 30s apart`, …"""
    if cadence.mode == "cron":
        return f"{cadence.cron.description} {zone.key}"
    if cadence.mode == "turn":
        return "first step of each turn"
    if cadence.mode == "off":
        return "no reading on its own"
    interval = cadence.fine_interval_ms
    if interval == 0:
        return "every step"
    return f"at least {f'{interval}ms' if interval % 1000 else format_duration(interval)} apart"


def counter_entry(shown: ShownCounter, now: int) -> str:
    """`name=20m43s (note)`, a relative's `name@session=20m43s (note)`; safe in a frame. `now` is epoch ms."""
    owner = f"@{shown.session}" if shown.session else ""
    note = f" ({plain_note(shown.counter.note)})" if shown.counter.note else ""
    return plain_line(f"{shown.name}{owner}={format_duration(now - shown.counter.since)}{note}")


def notice_text(session: str, changes: Iterable[tuple[str, str]]) -> str:
    """The framed text that tells of changes in `session`, in order: names with what `visibility.news` says of each."""
    lines = [plain_line(f"{_LABEL}{session}: {name} {words}") for name, words in changes]
    return framed(capped(lines, "\n", MAX_BYTES).split("\n"))


def capped(pieces: Sequence[str], separator: str, most: int) -> str:
    """`pieces` joined, in at most `most` bytes (UTF-8); where they do not all fit, the first ones and `+N more`."""
    sizes = [len(piece.encode("utf-8", "replace")) + len(separator) for piece in pieces]
    if sum(sizes) - len(separator) <= most:
        return separator.join(pieces)
    room, kept = most - len(f"+{len(pieces)} more"), 0
    while sizes[kept] <= room:
        room -= sizes[kept]
        kept += 1
    return separator.join([*pieces[:kept], f"+{len(pieces) - kept} more"])
