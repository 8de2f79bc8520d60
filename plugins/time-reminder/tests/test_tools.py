"""What calls of the tools are taken, and what the actions do to counters."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs import ToolError
from dsh_time_reminder.counters import (
    MAX_COUNTERS,
    Counter,
    Counters,
    NoSuchCounter,
    changed,
    check_arguments,
    checked_name,
)
from dsh_time_reminder.tools import TimeCounterArguments, TimeModeArguments, checked_mode

FRAMES = json.loads((Path(__file__).parents[3] / "tests/cases/frames.json").read_text("utf-8"))["cases"]


def call(**arguments: Any) -> TimeCounterArguments:
    return msgspec.convert(arguments, TimeCounterArguments)


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in FRAMES if c["group"] == "name"])
def test_names_of_the_table(case: dict[str, Any]) -> None:
    """`start` takes and refuses the names that the table does; a name that is too long is told the bound."""
    start = call(action="start", name=case["name"])
    if case["verdict"] == "ok":
        assert len(changed({}, start, 0)) == 1
    else:
        with pytest.raises(ToolError, match="64" if "64" in case["why"] else "name"):
            changed({}, start, 0)


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in FRAMES if c["group"] == "name-pair"])
def test_name_pairs_of_the_table(case: dict[str, Any]) -> None:
    """Two spellings of one name in Unicode are one counter; capitals make another."""
    counters: Counters = {}
    for name in case["names"]:
        counters = changed(counters, call(action="start", name=name), 0)
    assert (len(counters) == 1) is case["one_counter"]


@pytest.mark.parametrize("character", "=,()@ \t\n\u00a0\u3000\u2028\u200b\u200d\u202e\u00ad\ufeff\x7f\ud800")
def test_a_name_cannot_hold(character: str) -> None:
    """Blanks, control and invisible characters and the line's own punctuation are refused by their code point."""
    with pytest.raises(ToolError, match=f"U\\+{ord(character):04X}"):
        checked_name(f"a{character}b")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"action": "start"}, "start needs name"),
        ({"action": "lapse"}, "lapse needs name"),
        ({"action": "list", "name": "a"}, "list does not use name"),
        ({"action": "reset", "name": "a", "note": "x"}, "reset does not use note"),
        ({"action": "reset", "name": "a", "toChildren": True, "depth": 1}, "does not use toChildren, depth"),
        ({"action": "note", "name": "a"}, r"note needs note \(an empty one clears it\)"),
        ({"action": "note", "name": "a", "note": "x", "inject": False}, "note does not use inject"),
        ({"action": "scope", "name": "a"}, "scope needs inject or toChildren or toParents or depth"),
        ({"action": "scope", "name": "a", "depth": 1, "note": ""}, "scope does not use note"),
        ({"action": "remove", "name": "a", "toParents": False}, "remove does not use toParents"),
        ({"action": "lapse", "name": "a", "inject": True}, "lapse does not use inject"),
    ],
)
def test_an_argument_the_action_does_not_use_fails(arguments: dict[str, Any], reason: str) -> None:
    """An action without an argument it needs, or with one it does not use, fails and names it."""
    with pytest.raises(ToolError, match=reason):
        changed({"a": Counter(0)}, call(**arguments), 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "stop", "name": "a"},
        {"action": "start", "name": "a", "depth": 0},
        {"action": "start", "name": "a", "depth": 9},
        {"action": "start", "name": "a", "depth": True},
        {"action": "start", "name": "a", "depth": 1.5},
        {"action": "start", "name": "a", "inject": "true"},
        {"action": "start", "name": "a", "inject": 1},
        {"action": "start", "name": 7},
        {"action": "start", "name": "a", "note": "x" * 513},
        {"action": "start", "name": "a", "tochildren": True},
        {"name": "a"},
    ],
)
def test_types_and_bounds(arguments: dict[str, Any]) -> None:
    """Wrong types, bounds passed and unknown arguments are refused before any action runs; nothing is coerced."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(arguments), type=TimeCounterArguments)


def test_bounds_are_in_the_message() -> None:
    """Past a bound the message says it; at the bound the call is taken."""
    assert call(action="start", name="a", note="x" * 512, depth=8).depth == 8
    with pytest.raises(msgspec.ValidationError, match="512"):
        call(action="start", name="a", note="x" * 513)
    with pytest.raises(msgspec.ValidationError, match="8"):
        call(action="start", name="a", depth=9)


def test_null_is_not_given() -> None:
    """A null argument counts as not given, so it cannot be one that the action does not use."""
    check_arguments(call(action="reset", name="a", note=None, inject=None, toChildren=None, toParents=None, depth=None))


def test_a_new_counter_has_the_defaults() -> None:
    """A counter starts at the call's instant, not injected, for children only, over two generations."""
    counter = changed({}, call(action="start", name="a"), 5)["a"]
    assert counter == Counter(since=5, note="", inject=False, to_children=True, to_parents=False, depth=2)


def test_a_restart_keeps_what_is_not_given() -> None:
    """Starting an existing counter counts from now on; attributes and place in the order stay unless given."""
    before = {"a": Counter(1, "n", inject=True, to_children=False, to_parents=True, depth=3), "b": Counter(2)}
    after = changed(before, call(action="start", name="a", depth=1), 9)
    assert after == {**before, "a": evolve(before["a"], since=9, depth=1)}
    assert list(after) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ({"action": "reset"}, {"since": 9}),
        ({"action": "note", "note": "new"}, {"note": "new"}),
        ({"action": "note", "note": ""}, {"note": ""}),
        ({"action": "scope", "inject": True}, {"inject": True}),
        (
            {"action": "scope", "toChildren": False, "toParents": True, "depth": 8},
            {"to_children": False, "to_parents": True, "depth": 8},
        ),
    ],
)
def test_an_action_changes_what_it_says(arguments: dict[str, Any], changes: dict[str, Any]) -> None:
    """Each action changes its own part of one counter; the name is compared in its normal form."""
    before = {"Café": Counter(1, "old"), "b": Counter(2)}
    after = changed(before, call(name="Cafe\u0301", **arguments), 9)
    assert after == {**before, "Café": evolve(before["Café"], **changes)}


def test_remove() -> None:
    """A removed counter is gone; started again it stands at the end."""
    before = {"a": Counter(1), "b": Counter(2)}
    after = changed(before, call(action="remove", name="a"), 9)
    assert list(after) == ["b"]
    assert list(changed(after, call(action="start", name="a"), 9)) == ["b", "a"]


@pytest.mark.parametrize("action", ["reset", "note", "scope", "remove"])
def test_no_such_counter(action: str) -> None:
    """Changing a counter that is not there fails, naming it."""
    needed: dict[str, dict[str, Any]] = {"note": {"note": "x"}, "scope": {"depth": 1}}
    with pytest.raises(NoSuchCounter, match="'b'") as caught:
        changed({"a": Counter(0)}, call(action=action, name="b", **needed.get(action, {})), 0)
    assert caught.value.name == "b"


@pytest.mark.parametrize("arguments", [{"action": "list"}, {"action": "lapse", "name": "b@s_child"}])
def test_reading_changes_nothing(arguments: dict[str, Any]) -> None:
    """`list` and `lapse` leave the counters alone, whatever name is asked for."""
    counters = {"a": Counter(0)}
    assert changed(counters, call(**arguments), 9) is counters


def test_counters_are_bounded() -> None:
    """The 64th counter starts, the 65th fails saying the bound, and a restart still works."""
    counters: Counters = {}
    for number in range(MAX_COUNTERS):
        counters = changed(counters, call(action="start", name=f"c{number}"), 0)
    assert len(counters) == 64
    with pytest.raises(ToolError, match="at most 64"):
        changed(counters, call(action="start", name="more"), 0)
    assert changed(counters, call(action="start", name="c0"), 7)["c0"].since == 7


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"cron": "0 0 * * *"}, "without a mode"),
        ({"mode": "off", "cron": "0 0 * * *"}, "with mode off"),
        ({"mode": "fine", "cron": "0 0 * * *"}, "with mode fine"),
        ({"mode": "cron", "cron": "0 0 30 2 *"}, "never fires.*stay as they were"),
        ({"mode": "cron", "cron": ""}, "has 0 fields"),
    ],
)
def test_mode_calls_that_fail(arguments: dict[str, Any], reason: str) -> None:
    """An expression goes with mode cron only, and must be one."""
    with pytest.raises(ToolError, match=reason):
        checked_mode(msgspec.convert(arguments, TimeModeArguments))


@pytest.mark.parametrize("arguments", [{}, {"mode": "off"}, {"mode": "cron"}, {"mode": "turn", "cron": None}])
def test_mode_calls_without_expression(arguments: dict[str, Any]) -> None:
    """Without an expression there is nothing to check."""
    assert checked_mode(msgspec.convert(arguments, TimeModeArguments)) is None


def test_the_expression_of_a_call() -> None:
    """The expression is kept as it was written; one of 129 characters is refused saying the bound."""
    cron = checked_mode(TimeModeArguments("cron", " @hourly "))
    assert cron is not None
    assert cron.text == "@hourly"
    with pytest.raises(msgspec.ValidationError, match="128"):
        msgspec.convert({"mode": "cron", "cron": " " * 129}, TimeModeArguments)


@pytest.mark.parametrize("arguments", [TimeModeArguments, TimeCounterArguments])
def test_the_schema_describes_every_argument(arguments: type[msgspec.Struct]) -> None:
    """The model is told of each argument in words; the schema admits no others."""
    schema = msgspec.json.schema(arguments)
    body = schema["$defs"][arguments.__name__]
    assert body["additionalProperties"] is False
    assert all("description" in argument for argument in body["properties"].values())


ARGUMENTS = st.fixed_dictionaries(
    {"action": st.sampled_from(["start", "lapse", "list", "note", "scope", "reset", "remove"])},
    optional={
        "name": st.sampled_from(["a", "b", "c", "", "x y", "a@s"]),
        "note": st.sampled_from(["", "n"]),
        "inject": st.booleans(),
        "toChildren": st.booleans(),
        "toParents": st.booleans(),
        "depth": st.integers(1, 8),
    },
)


@given(st.lists(ARGUMENTS, max_size=30))
def test_a_failed_call_changes_nothing(calls: list[dict[str, Any]]) -> None:
    """A call fails with the typed error or changes at most the counter it names; earlier states stay as they were."""
    counters: Counters = {}
    for at, arguments in enumerate(calls):
        before = dict(counters)
        try:
            after = changed(counters, call(**arguments), at)
        except ToolError:
            assert counters == before
            continue
        assert counters == before
        names = set(before) | set(after)
        assert {name for name in names if before.get(name) != after.get(name)} <= {arguments.get("name")}
        counters = after
