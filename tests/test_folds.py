"""The host's folds."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import (
    TOOL_NOT_STARTED,
    TOOL_OUTCOME_UNKNOWN,
    ChatMessage,
    ContextMessage,
    Fold,
    Header,
    InboxEntry,
    InboxSpliced,
    LoadedPlugin,
    Payload,
    PromptSection,
    RequestHeader,
    RequestHeaderDelta,
    SteeringMessage,
    StepEnd,
    StepStart,
    SurfaceReplace,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from dsh_time.folds import HOST_FOLDS, MISSING_RESULT, Baseline, HeaderState, Inbox, Surface, Turns
from dsh_time.request import apply_delta, header_change

from .events import assistant, call, folded, result, user

DONE = TurnEndReason(kind="completed")


def texts(surface: Surface) -> list[str]:
    return [message.text or "+".join(_calls(message)) for message in surface.messages]


def _calls(message: ChatMessage) -> list[str]:
    return [block.id for block in message.content if isinstance(block, ToolCallBlock)]


def assert_a_strict_chat_api_accepts(messages: Sequence[ChatMessage]) -> None:
    """Each call is answered once, directly after the message that holds it; nothing is empty; ids are unique."""
    expected: list[str] = []
    for message in messages:
        assert message.content
        if message.role == "tool":
            block = message.content[0]
            assert isinstance(block, ToolResultBlock)
            assert block.id in expected
            expected.remove(block.id)
        else:
            assert not expected, "a call was not answered before the next message"
            expected = _calls(message)
            assert len(set(expected)) == len(expected)
    msgspec.json.encode(list(messages))


# The surface


def test_messages_stand_in_the_order_of_the_log() -> None:
    log = [user("a"), assistant("b"), user("c", cls=SteeringMessage), user("d", cls=ContextMessage)]
    assert texts(folded(Surface(), log)) == ["a", "b", "c", "d"]


def test_an_answer_without_content_is_not_sent_back() -> None:
    assert texts(folded(Surface(), [user("a"), assistant(), user("b")])) == ["a", "b"]


def test_a_call_without_result_gets_one_that_says_so_before_the_next_message() -> None:
    surface = folded(Surface(), [user("a"), assistant("", "c1", "c2"), result("c2"), user("b")])
    assert texts(surface) == ["a", "c1+c2", "done", MISSING_RESULT, "b"]


def test_the_first_real_result_takes_the_place_of_one_that_stood_in() -> None:
    log: list[Payload] = [
        assistant("", "c1"),
        result("c1", "?", code=TOOL_OUTCOME_UNKNOWN),
        user("next"),
        result("c1", "real"),
    ]
    assert texts(folded(Surface(), log)) == ["c1", "real", "next"]
    assert texts(folded(Surface(), [*log, result("c1", "late")])) == ["c1", "real", "next"]


def test_a_real_result_is_not_replaced_by_one_that_stands_in() -> None:
    log: list[Payload] = [assistant("", "c1"), result("c1", "real"), result("c1", "?", code=TOOL_NOT_STARTED)]
    assert texts(folded(Surface(), log)) == ["c1", "real"]


def test_results_without_a_call_and_results_for_the_user_do_not_reach_the_model() -> None:
    log = [user("a"), result("stray"), call("u1", by_user=True), result("u1", by_user=True)]
    assert texts(folded(Surface(), log)) == ["a"]


def test_a_replacement_takes_the_place_of_its_span() -> None:
    log = [user("a"), assistant("b"), user("c"), (user("summary"), SurfaceReplace(0, 1)), user("d")]
    surface = folded(Surface(), log)
    assert texts(surface) == ["summary", "c", "d"]
    again = folded(surface, [(user("shorter"), SurfaceReplace(3, 2))], start=5)
    assert texts(again) == ["shorter", "d"]


def test_a_replacement_of_messages_that_are_not_there_is_an_ordinary_message() -> None:
    assert texts(folded(Surface(), [user("a"), (user("b"), SurfaceReplace(7, 9))])) == ["a", "b"]
    assert texts(folded(Surface(), [user("a"), user("b"), (user("c"), SurfaceReplace(1, 0))])) == ["a", "b", "c"]


def test_a_replacement_that_parts_a_call_from_its_result_leaves_neither_alone() -> None:
    log = [user("a"), assistant("", "c1"), result("c1"), user("b")]
    without_call = folded(Surface(), [*log, (user("summary"), SurfaceReplace(0, 1))])
    assert texts(without_call) == ["summary", "b"]
    without_result = folded(Surface(), [*log, (user("summary"), SurfaceReplace(2, 3))])
    assert texts(without_result) == ["a", "c1", MISSING_RESULT, "summary"]


def test_a_replacement_without_content_takes_its_span_away() -> None:
    empty = UserMessage(id="m", role="user", content=(), source={"kind": "user"})
    assert texts(folded(Surface(), [user("a"), user("b"), (empty, SurfaceReplace(0, 0))])) == ["b"]


def test_a_replacement_in_the_middle_of_calls_leaves_them_open() -> None:
    surface = folded(Surface(), [user("a"), assistant("", "c1"), (user("summary"), SurfaceReplace(0, 0))])
    assert (texts(surface), surface.unanswered) == (["summary", "c1"], ("c1",))
    assert texts(folded(surface, [result("c1")], start=9)) == ["summary", "c1", "done"]


_ids = st.sampled_from([f"c{n}" for n in range(6)])


@st.composite
def _any_log(draw: st.DrawFn) -> list[Payload | tuple[Payload, SurfaceReplace]]:
    """Any order of messages and results, with unique call ids and replacements of any span."""
    log: list[Payload | tuple[Payload, SurfaceReplace]] = []
    unused = [f"c{n}" for n in range(12)]
    for number in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["user", "steer", "calls", "say", "result", "stand-in", "replace", "empty"]))
        match kind:
            case "user":
                log.append(user(f"u{number}"))
            case "steer":
                log.append(user(f"s{number}", cls=SteeringMessage))
            case "calls":
                take = min(draw(st.integers(1, 3)), len(unused))
                log.append(assistant("", *(unused.pop() for _ in range(take))))
            case "say":
                log.append(assistant(f"a{number}"))
            case "result":
                log.append(result(draw(st.sampled_from([f"c{n}" for n in range(12)])), f"r{number}"))
            case "stand-in":
                log.append(result(draw(st.sampled_from([f"c{n}" for n in range(12)])), code=TOOL_OUTCOME_UNKNOWN))
            case "replace":
                span = sorted(draw(st.tuples(st.integers(0, 25), st.integers(0, 25))))
                message = draw(st.sampled_from([user(f"x{number}"), assistant(), assistant("", f"x{number}")]))
                log.append((message, SurfaceReplace(*span)))
            case "empty":
                log.append(assistant())
    return log


@given(_any_log())
def test_whatever_the_log_holds_the_next_request_is_one_a_strict_api_accepts(
    log: list[Payload | tuple[Payload, SurfaceReplace]],
) -> None:
    surface = folded(Surface(), [*log, user("now")])
    assert_a_strict_chat_api_accepts(surface.messages)
    assert len(surface.seqs) == len(surface.messages)


# The header

SECTION = PromptSection(name="a", order=0, text="A")
CLOCK = PromptSection(name="clock", order=10, text="10:00")
TOOL = ToolSchema(name="t", description="d", parameters={"type": "object"})


def test_the_first_header_is_a_snapshot_and_an_equal_one_is_nothing() -> None:
    header = Header(config={"model": "m"}, system=(SECTION,))
    assert header_change(None, header) == RequestHeader(header=header, reason="initial")
    assert header_change(header, header) is None


def test_a_changed_section_is_logged_alone() -> None:
    old = Header(system=(SECTION, CLOCK), tools=(TOOL,))
    new = Header(system=(SECTION, PromptSection(name="clock", order=10, text="11:00")), tools=(TOOL,))
    change = header_change(old, new)
    assert msgspec.json.encode(change) == (b'{"system":{"changed":[{"name":"clock","order":10,"text":"11:00"}]}}')


@pytest.mark.parametrize(
    ("old", "new"), [({"a": 1}, {"a": True}), ({"a": 1}, {"a": 1.0}), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
def test_a_header_that_is_sent_otherwise_has_changed_even_where_python_says_it_is_equal(
    old: dict[str, object], new: dict[str, object]
) -> None:
    assert header_change(Header(config=old), Header(config=new)) == RequestHeaderDelta(config=new)
    tools = [ToolSchema(name="t", description="d", parameters=parameters) for parameters in (old, new)]
    change = header_change(Header(tools=(tools[0],)), Header(tools=(tools[1],)))
    assert isinstance(change, RequestHeaderDelta)
    assert change.tools is not None
    assert msgspec.json.encode(change.tools.changed) == msgspec.json.encode((tools[1],))


def test_a_header_that_is_sent_alike_has_not_changed_even_where_python_says_it_differs() -> None:
    assert header_change(Header(config={"stop": ["a"]}), Header(config={"stop": ("a",)})) is None


def test_a_change_that_a_delta_cannot_say_is_a_snapshot() -> None:
    old, new = Header(system=(SECTION, CLOCK)), Header(system=(CLOCK, SECTION))
    assert header_change(old, new) == RequestHeader(header=new, reason="change")


_names = st.sampled_from("abcd")
_sections = st.lists(
    st.builds(PromptSection, _names, st.integers(0, 2), st.sampled_from("xyz")), unique_by=lambda s: s.name
).map(lambda sections: tuple(sorted(sections, key=lambda s: (s.order, s.name))))
_tools = st.lists(st.builds(ToolSchema, _names, st.sampled_from("xyz"), st.just({})), unique_by=lambda t: t.name).map(
    lambda tools: tuple(sorted(tools, key=lambda t: t.name))
)
_headers = st.builds(
    Header,
    config=st.dictionaries(_names, st.integers(0, 3)),
    system=_sections,
    tools=_tools,
    loadout=st.lists(st.builds(LoadedPlugin, _names, _names, _names)).map(tuple),
)


@given(_headers, _headers)
def test_a_delta_leads_from_any_header_to_any_other(old: Header, new: Header) -> None:
    change = header_change(old, new)
    if old == new:
        assert change is None
    else:
        assert isinstance(change, RequestHeaderDelta)
        logged = msgspec.json.decode(msgspec.json.encode(change), type=RequestHeaderDelta)
        assert apply_delta(old, logged) == new


@given(st.lists(_headers, min_size=1))
def test_the_folded_header_is_the_last_one_sent(headers: list[Header]) -> None:
    state = HeaderState()
    for seq, header in enumerate(headers):
        if (change := header_change(state.header, header)) is not None:
            state = folded(state, [change], start=seq)
        assert state.header == header


def test_the_header_remembers_when_each_section_last_changed() -> None:
    later = PromptSection(name="clock", order=10, text="11:00")
    log: list[Payload] = [
        TurnStart(turn=1),
        RequestHeader(header=Header(system=(SECTION, CLOCK)), reason="initial"),
        TurnStart(turn=2),
        RequestHeader(header=Header(system=(SECTION, later)), reason="change"),
    ]
    state = folded(HeaderState(), log)
    first, clock = state.previous("a"), state.previous("clock")
    assert first is not None
    assert clock is not None
    assert (first.turn, first.changed_at.timestamp()) == (1, 1)
    assert (clock.text, clock.turn, clock.changed_at.timestamp()) == ("11:00", 2, 3)
    assert state.previous("other") is None


# The inbox


def entry(text: str, delivery: str = "followup") -> InboxEntry:
    message = ChatMessage(id=text, role="user", content=(TextBlock(text),), source={"kind": "user"})
    return msgspec.convert({"message": msgspec.to_builtins(message), "delivery": delivery}, InboxEntry)


def test_the_inbox_follows_its_splices() -> None:
    log = [
        InboxSpliced(target="next-turn", start=0, inserted=(entry("a"), entry("b"))),
        InboxSpliced(target="next-turn", start=0, removed_count=1),
        InboxSpliced(target="next-step", start=0, inserted=(entry("i", "inject"),)),
    ]
    inbox = folded(Inbox(), log)
    assert [e.message.text for e in inbox.next_turn] == ["b"]
    assert not inbox.steered
    assert folded(inbox, [InboxSpliced(target="next-step", start=1, inserted=(entry("s", "steer"),))]).steered


# Turns


def test_an_open_turn_knows_which_calls_started_and_which_have_no_result() -> None:
    log: list[Payload] = [TurnStart(turn=3), StepStart(turn=3, step=1), assistant("", "c1", "c2", "c3", turn=3)]
    log += [call("c1"), call("c2"), result("c1")]
    turns = folded(Turns(), log, start=10)
    assert (turns.open, turns.turn, turns.step, turns.step_open, turns.started_at) == (True, 3, 1, True, 10)
    assert [block.id for block in turns.unanswered] == ["c2", "c3"]
    assert turns.started == ("c1", "c2")


def test_calls_by_a_user_and_interrupted_answers_leave_nothing_unanswered() -> None:
    log: list[Payload] = [TurnStart(turn=1), StepStart(turn=1, step=1), assistant("x", "c9", interrupted=True)]
    log += [call("u1", by_user=True), result("u1", by_user=True)]
    turns = folded(Turns(), log)
    assert (turns.unanswered, turns.started) == ((), ())


def test_a_turn_that_ended_is_closed() -> None:
    log: list[Payload] = [
        TurnStart(turn=1),
        StepStart(turn=1, step=1),
        StepEnd(turn=1, step=1),
        TurnEnd(turn=1, reason=DONE),
    ]
    turns = folded(Turns(), log)
    assert (turns.open, turns.step_open, turns.turn) == (False, False, 1)


# The baseline


@pytest.mark.parametrize(
    "message",
    [user("a"), user("a", cls=SteeringMessage), user("a", cls=ContextMessage), assistant("a"), result("c1")],
    ids=lambda payload: payload.type,
)
def test_each_model_visible_message_before_the_turn_is_a_baseline(message: Payload) -> None:
    baseline = folded(Baseline(), [TurnStart(turn=1), message, TurnStart(turn=2), user("later")])
    assert (baseline.before_turn, baseline.newest) == (1000, 3000)


def test_replacements_and_results_for_the_user_are_no_baseline() -> None:
    log = [user("a"), (user("summary"), SurfaceReplace(0, 0)), result("u1", by_user=True), TurnStart(turn=1)]
    assert folded(Baseline(), log).before_turn == 0


def test_a_session_without_messages_has_no_baseline() -> None:
    assert folded(Baseline(), [TurnStart(turn=1), user("a")]).before_turn is None


# All of them


@given(_any_log(), st.integers(0, 25))
@pytest.mark.parametrize("kind", HOST_FOLDS, ids=lambda kind: kind.__name__)
def test_a_fold_of_a_prefix_and_then_the_rest_is_the_fold_of_all(
    kind: type[Fold], log: list[Payload | tuple[Payload, SurfaceReplace]], cut: int
) -> None:
    whole = folded(kind(), log)
    prefix = folded(kind(), log[:cut])
    assert folded(prefix, log[cut:], start=len(log[:cut])) == whole
