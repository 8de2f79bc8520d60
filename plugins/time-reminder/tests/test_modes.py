"""Which step owes a reading: the truth table, played event by event into the fold."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import define, field

from dsh_hookspecs import (
    TOOL_OUTCOME_UNKNOWN,
    AssistantMessage,
    ChatMessage,
    Event,
    Payload,
    Scalar,
    SteeringMessage,
    SurfaceReplace,
    TextBlock,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolResult,
    ToolResultBlock,
    UserMessage,
)
from dsh_hookspecs.timefmt import epoch_ms, instant_at, load_zone
from dsh_time_reminder.cron import parse_cron
from dsh_time_reminder.fold import PLUGIN, LoggedReading, ModeCall, TimeState
from dsh_time_reminder.modes import Cadence, cadence, due, zone_in_force
from dsh_time_reminder.tools import Mode, TimeModeArguments, checked_mode

CASES = json.loads((Path(__file__).parents[3] / "tests/cases/modes.json").read_text("utf-8"))["cases"]


@define
class Session:
    """A session that is played: its fold, and whether the plugin is loaded."""

    config: dict[str, Any]
    process_zone: str
    state: TimeState = field(factory=TimeState)
    seq: int = 0
    time: int = 0
    loaded: bool = True
    calls: int = 0

    def log(self, data: Payload, at: int | None = None, replaces: SurfaceReplace | None = None) -> None:
        self.time = self.time if at is None else at
        as_logged = msgspec.json.decode(msgspec.json.encode(data), type=type(data))
        self.state = self.state.apply(Event(self.seq, self.time, as_logged, replaces))
        self.seq += 1

    def message(
        self, source: dict[str, Scalar], at: int, kind: type[UserMessage] | type[SteeringMessage] = UserMessage
    ) -> None:
        self.log(kind(id=f"m{self.seq}", role="user", content=(TextBlock("…"),), source=source), at)

    def prompt(self, event: dict[str, Any]) -> None:
        zone = {"clientTimeZone": event["zone"]} if "zone" in event else {}
        kind = SteeringMessage if event.get("steer") else UserMessage
        self.message({"kind": "user", **zone}, millis(event["at"]), kind)

    def time_mode(self, event: dict[str, Any]) -> None:
        owner = event.get("owner", PLUGIN if self.loaded else "")
        call, text, issuer = f"c{self.calls}", json.dumps(event["args"]), event.get("issuer", "model")
        self.calls += 1
        self.log(ToolCall(id=call, name="time_mode", arguments=text, owner=owner, issuer=issuer), millis(event["at"]))
        unknown = "TOOL_OUTCOME_UNKNOWN" in event.get("because", "")
        if owner == PLUGIN and not unknown:
            assert taken(text) == event["ok"]
        failure = None if event["ok"] else ToolFailure("Error", TOOL_OUTCOME_UNKNOWN if unknown else "TOOL_FAILED")
        block = ToolResultBlock(call, "…", is_error=not event["ok"])
        message = ChatMessage(id=f"m{self.seq}", role="tool", content=(block,), source={"kind": "tool"})
        self.log(ToolResult(message, issuer=issuer, error=failure), millis(event.get("result_at", event["at"])))

    def compaction(self, event: dict[str, Any]) -> None:
        reading = self.state.reading
        last = self.seq - 1 if event["hides_last_reading"] else (reading.seq - 1 if reading else -1)
        summary = UserMessage(id=f"m{self.seq}", role="user", content=(TextBlock("…"),), source={"kind": "compaction"})
        self.log(summary, replaces=SurfaceReplace(0, last))

    def step(self, event: dict[str, Any]) -> dict[str, Any] | None:
        now = instant_at(millis(event["at"]))
        zone = zone_in_force(self.config.get("timeZone"), self.state, lambda: self.process_zone)
        in_force = cadence(
            self.state,
            self.config.get("defaultMode", "cron"),
            self.config.get("cron", "0 0 * * *"),
            self.config.get("fineIntervalMs", 0),
        )
        reading = due(self.state, in_force, zone, event["step"], now) if self.loaded else None
        if reading is None or event.get("rejected"):
            return None
        source: dict[str, Scalar] = {"kind": PLUGIN, "form": "notice", "sampledAt": epoch_ms(now), "mode": reading.mode}
        self.message(source, epoch_ms(now))
        found = {
            "turn": event["turn"],
            "step": event["step"],
            "at": epoch_ms(now),
            "mode": reading.mode,
            "previous": reading.previous,
            "zone": zone.key,
        }
        if reading.mode == "cron":
            found |= {"because": reading.reason, "fire": reading.fire and epoch_ms(reading.fire)}
        return found


def millis(text: str) -> int:
    return epoch_ms(datetime.fromisoformat(text))


def taken(arguments: str) -> bool:
    try:
        checked_mode(msgspec.json.decode(arguments, type=TimeModeArguments))
    except (ToolError, msgspec.ValidationError):
        return False
    return True


def played(case: dict[str, Any]) -> list[dict[str, Any]]:
    sessions: dict[str, Session] = {}
    readings = []
    for event in case["events"]:
        name = event.get("session", "main")
        if name not in sessions:
            sessions[name] = Session(dict(case["config"]), case["process_zone"])
        session = sessions[name]
        match event["do"]:
            case "prompt":
                session.prompt(event)
            case "step":
                reading = session.step(event)
                if reading is not None:
                    readings.append(reading | ({"session": name} if "session" in event else {}))
            case "time_mode":
                session.time_mode(event)
            case "restart":
                session.config = event.get("config", session.config)
            case "compaction":
                session.compaction(event)
            case "swap_out" | "swap_in":
                session.loaded = event["do"] == "swap_in"
            case "message":
                session.message(event["source"], millis(event["at"]))
            case "assistant":
                reply = ChatMessage(id=f"m{session.seq}", role="assistant", content=(), source={"kind": "assistant"})
                session.log(AssistantMessage(1, 1, reply), millis(event["at"]))
            case "fork":
                origin = sessions[event["of"]]
                session.state, session.seq, session.time = origin.state, origin.seq, origin.time
            case "spawn" | "crash" | "clock" | "retry" | "turn_end":
                pass
            case other:
                pytest.fail(f"the table has an event that nothing plays: {other}")
    return readings


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES])
def test_table(case: dict[str, Any]) -> None:
    """Readings are due at the steps of the table and no others, for its reason, with its fire and previous reading."""
    expected = []
    for reading in case["readings"]:
        moments = {key: reading[key] and millis(reading[key]) for key in ("at", "fire", "previous") if key in reading}
        expected.append(reading | moments)
    assert played(case) == expected


NOON = 1_790_000_000_000
UTC_ZONE = load_zone("UTC")


def reason(state: TimeState, now: int, mode: Mode = "cron", step: int = 2, interval: int = 0) -> str | None:
    found = due(state, Cadence(mode, parse_cron("0 0 * * *"), interval), UTC_ZONE, step, instant_at(now))
    return None if found is None else found.reason


def test_a_rollback_gives_one_reading() -> None:
    """After a reading at the new now, a mode call from the old future asks for no more: no burst."""
    before = TimeState(reading=LoggedReading(1, NOON), mode_call=ModeCall(2, NOON + 60_000))
    assert reason(before, NOON - 3_600_000) == "rollback"
    after = TimeState(reading=LoggedReading(3, NOON - 3_600_000), mode_call=ModeCall(2, NOON + 60_000))
    assert [reason(after, NOON - 3_600_000 + minute * 60_000) for minute in range(60)] == [None] * 60


def test_a_rollback_behind_a_mode_call_counts() -> None:
    """The clock may have gone back behind the last mode call only, or behind the last reading only."""
    call_after = TimeState(reading=LoggedReading(1, NOON), mode_call=ModeCall(2, NOON + 60_000))
    assert reason(call_after, NOON + 59_001) is None
    assert reason(call_after, NOON + 59_000) == "rollback"
    read_in_the_future = TimeState(reading=LoggedReading(1, NOON + 60_000), mode_call=ModeCall(2, NOON))
    assert reason(read_in_the_future, NOON + 5_000) == "rollback"


@pytest.mark.parametrize(
    ("interval", "ago", "expected"), [(0, 0, "cadence"), (1000, 999, None), (1000, 1000, "cadence")]
)
def test_fine_interval(interval: int, ago: int, expected: str | None) -> None:
    """`fine` reads when the interval has passed to the millisecond; 0 is every step."""
    assert reason(TimeState(reading=LoggedReading(1, NOON)), NOON + ago, "fine", interval=interval) == expected


def test_fine_after_a_rollback_behind_the_switch() -> None:
    """The rollback rule holds in `fine` too, also for the call that switched to it."""
    state = TimeState(reading=LoggedReading(1, NOON), mode_call=ModeCall(2, NOON + 600_000))
    assert reason(state, NOON + 300_000, "fine", interval=3_600_000) == "rollback"


def test_the_calendar_may_begin_before_the_first_fire() -> None:
    """In the first days of the calendar there is no fire yet: the first reading is due all the same, and names none."""
    leap_day = Cadence("cron", parse_cron("0 0 29 2 *"))
    found = due(TimeState(), leap_day, UTC_ZONE, 1, datetime.fromisoformat("0001-01-02T00:00:00+00:00"))
    assert found is not None
    assert (found.reason, found.fire) == ("first", None)


def test_the_table_covers_each_reason() -> None:
    """The table holds cases for every reason of mode cron."""
    reasons = Counter(reading.get("because") for case in CASES for reading in case["readings"])
    assert {"first", "crossing", "compaction", "rollback"} <= set(reasons)
