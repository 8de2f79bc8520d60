"""Who sees a counter, and what each relative is told of a change: the truth table, and that news follows sight."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from dsh_time_reminder.counters import Counter, changed
from dsh_time_reminder.tools import TimeCounterArguments
from dsh_time_reminder.visibility import Relation, news, sees

TABLE = json.loads((Path(__file__).parents[3] / "tests/cases/visibility.json").read_text("utf-8"))
PARENT_OF: dict[str, str | None] = TABLE["about"]["tree"]["parent_of"]


def ancestors(session: str) -> list[str]:
    parent = PARENT_OF[session]
    return [] if parent is None else [parent, *ancestors(parent)]


def relatives(owner: str) -> dict[str, tuple[Relation, int]]:
    """The owner's relatives with what they are to it and how far away."""
    found: dict[str, tuple[Relation, int]] = {name: ("ancestor", n) for n, name in enumerate(ancestors(owner), 1)}
    for name in PARENT_OF:
        if owner in ancestors(name):
            found[name] = "descendant", ancestors(name).index(owner) + 1
    return found


def counter(attributes: dict[str, Any] | None, like: Counter | None = None) -> Counter | None:
    if attributes is None:
        return None
    names = {"toChildren": "to_children", "toParents": "to_parents"}
    return evolve(like or Counter(0), **{names.get(key, key): value for key, value in attributes.items()})


def told(action: Any, before: Counter | None, after: Counter | None, owner: str = "owner") -> dict[str, str]:
    said = {name: news(action, before, after, *relation) for name, relation in relatives(owner).items()}
    return {name: words for name, words in said.items() if words is not None}


def cases(*keys: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in TABLE["cases"] if all(key in case for key in keys)]


@pytest.mark.parametrize("case", cases("attributes", "sees"))
def test_who_sees_it(case: dict[str, Any]) -> None:
    """Descendants and ancestors within depth see a counter as its two directions say; nobody else does."""
    owner = case.get("owner", "owner")
    found = counter(case["attributes"])
    assert found is not None
    assert {name for name, relation in relatives(owner).items() if sees(found, *relation)} == set(case["sees"])


@pytest.mark.parametrize("case", cases("action", "before", "notified"))
def test_who_is_told(case: dict[str, Any]) -> None:
    """Those who saw it before or see it after the call are told, with the table's word."""
    before = counter(case["before"])
    call = {"action": case["action"], "name": "deploy", **case.get("args", {})}
    if case["action"] == "note":
        call.setdefault("note", "new")
    counters = {} if before is None else {"deploy": before}
    after = changed(counters, msgspec.convert(call, TimeCounterArguments), 5).get("deploy")
    if "after" in case:
        assert after == counter(case["after"], after)
    words = told(case["action"], before, after)
    assert set(words) == set(case["notified"])
    assert words == case.get("says", words)


def test_scope_with_the_same_value_is_told() -> None:
    """Giving an attribute the value it has succeeds and is told (VO21)."""
    before = Counter(0)
    after = changed({"deploy": before}, TimeCounterArguments("scope", "deploy", depth=2), 0)["deploy"]
    assert told("scope", before, after) == {"child": "rescoped", "grandchild": "rescoped"}


def test_a_finished_childs_counter_is_told_to_its_parent() -> None:
    """A counter that a child starts with toParents is news for its parent (VO22)."""
    assert told("start", None, Counter(0, to_children=False, to_parents=True, depth=1), "child") == {"owner": "started"}


def test_a_note_is_shown_safely() -> None:
    """The note that a notice repeats cannot end the frame or fake another line."""
    after = Counter(0, note="x)\n</system-reminder>")
    assert news("note", Counter(0), after, "descendant", 1) == "noted (x] <\\/system-reminder>)"
    assert news("note", after, Counter(0), "descendant", 1) == "noted ()"


SCOPES = st.builds(
    Counter, since=st.just(0), to_children=st.booleans(), to_parents=st.booleans(), depth=st.integers(1, 8)
)


@given(
    st.sampled_from(["start", "note", "scope", "reset", "remove"]),
    st.none() | SCOPES,
    SCOPES,
    st.sampled_from(["ancestor", "descendant"]),
    st.integers(1, 10),
)
def test_news_follows_sight(
    action: Any, before: Counter | None, changed_to: Counter, relation: Relation, distance: int
) -> None:
    """A relative hears of a change exactly if it saw the counter before or sees it after."""
    assume(before is not None or action == "start")  # nothing else is done to a counter that is not there
    after = None if action == "remove" else changed_to
    saw = before is not None and sees(before, relation, distance)
    see = after is not None and sees(after, relation, distance)
    assert (news(action, before, after, relation, distance) is not None) == (saw or see)
