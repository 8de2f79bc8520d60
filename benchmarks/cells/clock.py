"""The costs of knowing the time: `python -m cells.clock COUNT`. µs of a due check, a reading and a cron question.

The due check is the whole hook of time-reminder, of a session without relatives. croniter and cronsim are asked for the
next fire as their users would, with an aware instant; ours keeps to the rules at changes of the clock, theirs do not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import cast
from zoneinfo import ZoneInfo

from attrs import field, frozen
from croniter import croniter  # type: ignore[import-untyped]  # it ships no types

from driver import emit
from dsh_hookspecs import Event, FoldType, Scalar, Step, UserMessage
from dsh_hookspecs.timefmt import epoch_ms
from dsh_time_reminder import TimeReminder
from dsh_time_reminder.cron import parse_cron
from dsh_time_reminder.fires import newest_fire, next_fires
from dsh_time_reminder.fold import TimeState

START = datetime(2026, 7, 14, 8, 30, tzinfo=UTC)
ZONE = "Asia/Shanghai"
EXPRESSIONS = ("*/5 * * * *", "0 0 * * *", "30 6 * * 1-5", "0 3 1 * *")


@frozen
class View:
    """A session that has seen a reading and nothing else."""

    state: TimeState
    id: str = "bench"

    def fold(self, kind: type[FoldType], /) -> FoldType:
        """Return the one state."""
        return cast(FoldType, self.state)


def after_reading(at: datetime) -> View:
    """Return a session whose last reading was sampled at `at`, in turn 1."""
    source: dict[str, Scalar] = {
        "kind": "dsh-time-reminder",
        "form": "notice",
        "sampledAt": epoch_ms(at),
        "mode": "cron",
    }
    message = UserMessage(id="m0", role="user", content=(), source=source)
    return View(TimeState().apply(Event(0, epoch_ms(at), message)))


@frozen
class Due:
    """One case of the hook: the plugin, the number of the step, and how far the clock moves between two steps."""

    plugin: TimeReminder
    number: int = 1
    moves: timedelta = field(factory=timedelta)

    def times(self, repeats: int) -> list[float]:
        """µs of each call."""
        view = after_reading(START)
        steps = [Step(view, 0, self.number, START + self.moves * n, None) for n in range(1, repeats + 1)]
        return [microseconds(lambda: self.plugin.before_step(step)) for step in steps]  # noqa: B023 called at once


def microseconds(work: Callable[[], object]) -> float:
    """Time one call."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e6


def cases() -> dict[str, Due]:
    """The cases by name. Those after the colon are answers; without one, no reading is due."""
    minute, day = timedelta(milliseconds=1), timedelta(days=1)
    at = partial(TimeReminder, time_zone=ZONE)
    return {
        "off": Due(at(default_mode="off")),
        "turn": Due(at(default_mode="turn"), number=2),
        "fine": Due(at(default_mode="fine", fine_interval_ms=10**9)),
        "cron": Due(at(), moves=minute),
        "cron: reading due": Due(at(), moves=day),
        "turn: reading due": Due(at(default_mode="turn")),
        "fine: reading due": Due(at(default_mode="fine")),
    }


def cron(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Time the questions after the next and the previous fire, at another instant each time."""
    zone = ZoneInfo(ZONE)
    found: dict[str, dict[str, list[float]]] = {}
    for text in EXPRESSIONS:
        parsed = parse_cron(text)
        asked: dict[str, Callable[[datetime], object]] = {
            "ours next": lambda at: next_fires(parsed, zone, at, 1),  # noqa: B023 called before the next one
            "ours previous": lambda at: newest_fire(parsed, zone, at),  # noqa: B023 as above
            "croniter next": lambda at: croniter(text, at.astimezone(zone)).get_next(datetime),  # noqa: B023
            "croniter previous": lambda at: croniter(text, at.astimezone(zone)).get_prev(datetime),  # noqa: B023
        }
        if find_spec("cronsim") is not None:
            from cronsim import CronSim

            asked["cronsim next"] = lambda at: next(CronSim(text, at.astimezone(zone)))  # noqa: B023
            asked["cronsim previous"] = lambda at: next(CronSim(text, at.astimezone(zone), reverse=True))  # noqa: B023
        found[text] = {name: [microseconds(lambda: ask(at)) for at in instants(repeats)] for name, ask in asked.items()}  # noqa: B023
    return found


def instants(repeats: int) -> Iterator[datetime]:
    """Instants some days apart, so that no answer can be remembered."""
    return (START + timedelta(days=41 * n, seconds=n) for n, _ in zip(count(), range(repeats), strict=False))


if __name__ == "__main__":
    repeats = int(sys.argv[1])
    emit(due={name: case.times(repeats) for name, case in cases().items()}, cron=cron(max(20, repeats // 5)))
