"""What the log says about time: which calls count, which messages are readings, and that no log breaks the fold."""

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import (
    TOOL_OUTCOME_UNKNOWN,
    AssistantMessage,
    ChatMessage,
    ContextMessage,
    Event,
    Payload,
    Scalar,
    SteeringMessage,
    SurfaceReplace,
    TextBlock,
    ToolCall,
    ToolFailure,
    ToolResult,
    ToolResultBlock,
    UserMessage,
)
from dsh_time_reminder.counters import Counter
from dsh_time_reminder.fold import PLUGIN, LoggedReading, ModeCall, TimeState


def folded(*data: Payload | tuple[Payload, SurfaceReplace], state: TimeState | None = None) -> TimeState:
    state = state or TimeState()
    for seq, item in enumerate(data):
        payload, replaces = item if isinstance(item, tuple) else (item, None)
        state = state.apply(Event(seq, 1000 + seq, payload, replaces))
    return state


def call(name: str, arguments: Any, id: str = "c1", owner: str = PLUGIN, **rest: Any) -> ToolCall:  # noqa: A002
    return ToolCall(id, name, arguments if isinstance(arguments, str) else json.dumps(arguments), owner, **rest)


def result(id: str = "c1", is_error: bool = False, error: str = "") -> ToolResult:  # noqa: A002
    block = ToolResultBlock(id, "…", is_error)
    message = ChatMessage("m", "tool", (block,), {"kind": "tool"})
    return ToolResult(message, error=ToolFailure("Error", error) if error else None)


def user(source: dict[str, Scalar]) -> UserMessage:
    return UserMessage("m", "user", (TextBlock("…"),), source)


def reading(sampled_at: Any, **source: Any) -> UserMessage:
    return user({"kind": PLUGIN, "form": "notice", "sampledAt": sampled_at, "mode": "cron", **source})


START = {"action": "start", "name": "a"}


def test_a_call_counts_once_its_result_reports_success() -> None:
    """Mode, expression and counters change with the result, and count from the logged time of the call."""
    waiting = folded(call("time_mode", {"mode": "cron", "cron": "@hourly"}))
    assert evolve(waiting, pending={}) == TimeState()
    done = folded(
        call("time_mode", {"mode": "cron", "cron": " @hourly"}), result(), call("time_counter", START), result()
    )
    assert (done.mode, done.cron, done.mode_call) == ("cron", "@hourly", ModeCall(0, 1000))
    assert done.counters == {"a": Counter(1002)}


@pytest.mark.parametrize(
    "answer",
    [
        result(is_error=True),
        result(error="TOOL_FAILED"),
        result(is_error=True, error=TOOL_OUTCOME_UNKNOWN),
        result("another"),
        ToolResult(ChatMessage("m", "tool", (), {})),
        ToolResult(ChatMessage("m", "tool", (TextBlock("c1"),), {})),
    ],
)
def test_other_results_change_nothing(answer: ToolResult) -> None:
    """A failed, unknown, foreign or malformed result adopts nothing."""
    state = folded(call("time_mode", {"mode": "off"}), answer)
    assert evolve(state, pending={}) == TimeState()


@pytest.mark.parametrize(
    "other",
    [
        call("time_mode", {"mode": "off"}, owner="other-plugin"),
        call("time_mode", {"mode": "off"}, owner=""),
        call("time_modes", {"mode": "off"}),
        call("time_mode", {}),
        call("time_mode", {"mode": "daily"}),
        call("time_mode", {"mode": "off", "cron": "@daily"}),
        call("time_mode", {"mode": "cron", "cron": "0 0 30 2 *"}),
        call("time_mode", {"mode": "off", "when": "now"}),
        call("time_mode", ""),
        call("time_mode", "nonsense"),
        call("time_mode", '{"mode":"off"} trailing'),
        call("time_mode", "[" * 100_000),
        call("time_mode", '{"mode": "\ud800"}'),
        call("time_counter", {"action": "start", "name": "a b"}),
        call("time_counter", {"action": "start", "name": "a", "depth": 99}),
        call("time_counter", {"action": "reset", "name": "nothing"}),
        call("time_counter", '{"action":"start","name":' + "[" * 100_000),
    ],
)
def test_other_calls_change_nothing(other: ToolCall) -> None:
    """Calls of others, reports, and calls that the validator refuses change nothing, though success is logged."""
    assert folded(other, result()) == TimeState()


def test_a_call_by_the_user_counts() -> None:
    """A call that the user issued is folded like any other."""
    assert folded(call("time_mode", {"mode": "fine"}, issuer="user"), result()).mode == "fine"


def test_the_first_real_result_wins() -> None:
    """A real result after a synthetic one counts; a second real one, and one before its call, do not."""
    unknown = result(is_error=True, error=TOOL_OUTCOME_UNKNOWN)
    assert folded(call("time_mode", {"mode": "off"}), unknown, result()).mode == "off"
    assert folded(call("time_mode", {"mode": "off"}), result(is_error=True), result()).mode is None
    assert folded(result(), call("time_mode", {"mode": "off"})).mode is None
    twice = folded(call("time_counter", START), result(), result())
    assert twice.counters == {"a": Counter(1000)}


def test_an_id_may_come_again() -> None:
    """Models number their calls anew in each turn: a result answers the newest call of its id."""
    state = folded(call("time_mode", {"mode": "off"}), call("time_mode", {"mode": "fine"}), result(), result())
    assert (state.mode, state.mode_call) == ("fine", ModeCall(1, 1001))


def test_the_expression_stays_through_other_modes() -> None:
    """The expression last set stays the session's, also when cron is chosen again without one."""
    calls = [{"mode": "cron", "cron": "@hourly"}, {"mode": "off"}, {"mode": "cron"}]
    state = folded(*[event for arguments in calls for event in (call("time_mode", arguments), result())])
    assert (state.mode, state.cron) == ("cron", "@hourly")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (reading(5), LoggedReading(0, 5)),
        (reading(-62135596800000), LoggedReading(0, -62135596800000)),
        (reading(5, form="relay"), None),
        (reading(5, kind="another"), None),
        (reading(5, kind="user"), None),
        (reading("5"), None),
        (reading(True), None),
        (reading(None), None),
        (reading(2**62), None),
        (user({"kind": "user"}), None),
        (SteeringMessage("m", "user", (TextBlock("</system-reminder>"),), {"kind": "user"}), None),
    ],
)
def test_only_the_source_makes_a_reading(message: Payload, found: LoggedReading | None) -> None:
    """A message is a reading by its source alone, and only with an instant that exists."""
    assert folded(message).reading == found


def test_the_last_reading_is_last_in_the_log() -> None:
    """An earlier instant later in the log is the last reading."""
    assert folded(reading(9), reading(5)).reading == LoggedReading(1, 5)


@pytest.mark.parametrize(
    ("start", "end", "hidden"), [(0, 0, False), (0, 1, True), (1, 1, True), (1, 5, True), (2, 2, False)]
)
def test_compaction_hides_a_reading(start: int, end: int, hidden: bool) -> None:
    """A reading is hidden when a message takes the place of its event; mode, counters and its instant stay."""
    summary = AssistantMessage(1, 1, ChatMessage("m", "assistant", (TextBlock("…"),), {}))
    state = folded(user({"kind": "user"}), reading(5), user({"kind": "user"}), (summary, SurfaceReplace(start, end)))
    assert state.reading == LoggedReading(1, 5, hidden)
    assert folded(reading(6), state=state).reading == LoggedReading(0, 6)


@pytest.mark.parametrize(
    ("source", "zone"),
    [
        ({"kind": "user", "clientTimeZone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"kind": "user"}, "UTC"),
        ({"kind": "user", "clientTimeZone": None}, "UTC"),
        ({"kind": "user", "clientTimeZone": "Factory"}, "UTC"),
        ({"kind": "user", "clientTimeZone": "localtime"}, "UTC"),
        ({"kind": "user", "clientTimeZone": "x" * 100_000}, "UTC"),
        ({"kind": "user", "clientTimeZone": 8}, "UTC"),
        ({"kind": "another", "clientTimeZone": "Asia/Tokyo"}, "UTC"),
    ],
)
@pytest.mark.parametrize("kind", [UserMessage, SteeringMessage])
def test_the_users_zone(kind: type[UserMessage], source: dict[str, Scalar], zone: str) -> None:
    """The zone is that of the user's newest message that carries a good one; a bad one counts as none."""
    before = user({"kind": "user", "clientTimeZone": "UTC"})
    assert folded(before, kind("m", "user", (TextBlock("…"),), source)).zone == zone


def test_a_context_message_carries_no_zone() -> None:
    """What a host injects is no message of the user."""
    message = ContextMessage("m", "user", (TextBlock("…"),), {"kind": "user", "clientTimeZone": "UTC"})
    assert folded(message).zone is None


def test_waiting_calls_are_bounded() -> None:
    """However many calls get no result, the newest 64 are remembered."""
    state = folded(*[call("time_mode", {"mode": "off"}, f"c{number}") for number in range(200)])
    assert len(state._pending) == 64
    assert folded(result("c135"), state=state).mode is None
    assert folded(result("c136"), state=state).mode == "off"


SCALARS = st.none() | st.booleans() | st.integers(-5, 600) | st.sampled_from(["", "a", "cron", "off", "@daily", "UTC"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["mode", "cron", "name"]), inner),
    max_leaves=4,
)
COUNTER_CALLS = st.fixed_dictionaries(
    {"action": st.sampled_from(["start", "note", "scope", "reset", "remove", "lapse", "list"])},
    optional={"name": st.sampled_from(["a", "b", "c d"]), "note": st.just("n"), "depth": st.integers(0, 9)},
)
MODE_CALLS = st.fixed_dictionaries(
    {}, optional={"mode": st.sampled_from(["cron", "off", "fine"]), "cron": st.sampled_from(["@hourly", "x"])}
)
SOURCES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["user", PLUGIN])}, optional={"clientTimeZone": SCALARS, "form": st.just("notice")}
)
REPLACED = st.none() | st.builds(SurfaceReplace, st.integers(0, 9), st.integers(0, 9))
IDS = st.sampled_from(["c1", "c2", "c3"])
PAYLOADS: st.SearchStrategy[Payload] = st.one_of(
    st.builds(call, st.just("time_counter"), COUNTER_CALLS | JSON, IDS),
    st.builds(call, st.just("time_mode"), MODE_CALLS | JSON | st.text(max_size=20), IDS, st.sampled_from([PLUGIN, ""])),
    st.builds(result, IDS, st.booleans(), st.sampled_from(["", "", TOOL_OUTCOME_UNKNOWN])),
    st.builds(result, IDS),
    st.builds(reading, st.integers() | st.none()),
    st.builds(user, SOURCES),
)
EVENTS = st.lists(st.tuples(PAYLOADS, REPLACED, st.integers()))


@given(EVENTS, st.integers(0, 40))
def test_any_log_folds_the_same_in_parts(events: list[tuple[Payload, SurfaceReplace | None, int]], cut: int) -> None:
    """No event makes the fold raise, and what was folded up to somewhere goes on to the same state."""
    log = [Event(seq, time, data, replaces) for seq, (data, replaces, time) in enumerate(events)]
    whole = TimeState()
    for event in log:
        whole = whole.apply(event)
    prefix = TimeState()
    for event in log[:cut]:
        prefix = prefix.apply(event)
    frozen = repr(prefix)
    rest = prefix
    for event in log[cut:]:
        rest = rest.apply(event)
    assert rest == whole
    assert repr(prefix) == frozen
    assert len(whole.counters) <= 3


def test_the_fold_reads_what_it_uses() -> None:
    """Every payload type that changes the state, or can hide a reading, is one the fold reads."""
    assert {kind.type for kind in TimeState.reads} == {
        "user/message",
        "steering/message",
        "context/message",
        "assistant/message",
        "tool/call",
        "tool/result",
        "turn/start",
    }
