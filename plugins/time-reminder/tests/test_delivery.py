"""Who finds a counter or news of it, by the truth table, and its rows that need a delivery."""

import json
from pathlib import Path
from typing import Any

import pytest

from dsh_time_reminder import TimeReminder

from .family import Family

TABLE = json.loads((Path(__file__).parents[3] / "tests/cases/visibility.json").read_text("utf-8"))
PARENT_OF: dict[str, str | None] = TABLE["about"]["tree"]["parent_of"]
CASES = {case["id"]: case for case in TABLE["cases"]}
OFF = TimeReminder(default_mode="off")


def family(plugin: TimeReminder = OFF) -> Family:
    """The table's tree."""
    made = Family(plugin)
    for name, parent in PARENT_OF.items():
        made.add(name, parent=parent)
    return made


def attributes(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key in ("inject", "toChildren", "toParents", "depth", "note")}


@pytest.mark.parametrize("case", [c for c in CASES.values() if {"action", "before", "notified"} <= c.keys()])
def test_delivery_of_the_table(case: dict[str, Any]) -> None:
    """Each session that the table names, and no other, is told at its next step, with the table's word, once."""
    tree = family()
    if case["before"] is not None:
        tree.call("owner", action="start", name="deploy", **attributes(case["before"]))
        for name in PARENT_OF:
            tree.step(name)
    arguments = case.get("args", {})
    if case["action"] == "note":
        arguments = {"note": "new", **arguments}
    assert not tree.call("owner", action=case["action"], name="deploy", **arguments).startswith("failed")
    heard = {name: lines for name in PARENT_OF if (lines := tree.news(name))}
    assert set(heard) == set(case["notified"])
    for name, lines in heard.items():
        assert len(lines) == 1
        if "says" in case:
            assert lines == [[f"[counters] owner: deploy {case['says'][name]}"]]
    assert {name for name in PARENT_OF if tree.news(name)} == set()


@pytest.mark.parametrize("case", [c for c in CASES.values() if {"attributes", "sees"} <= c.keys()])
def test_reading_of_the_table(case: dict[str, Any]) -> None:
    """Each session that the table names, and no other, finds the counter in its list; the owner has it as its own."""
    tree, owner = family(), case.get("owner", "owner")
    tree.call(owner, action="start", name="deploy", **attributes(case["attributes"]))
    seers = {name for name in PARENT_OF if f"deploy@{owner}=" in tree.call(name, action="list")}
    assert seers == set(case["sees"])
    assert "\ndeploy=0s" in tree.call(owner, action="list")


def test_vo06_a_relative_at_rest() -> None:
    """A finished child's counter is listed and read, marked so; it does not stand in readings."""
    tree = Family(TimeReminder(default_mode="turn"))
    tree.add("parent", "child")
    tree.call("child", action="start", name="deploy", toParents=True, inject=True)
    assert "deploy@child=0s" in tree.reading("parent")
    tree.members["child"].live = False
    assert "deploy@child" not in tree.reading("parent")
    assert tree.call("parent", action="list").endswith("\ndeploy@child=0s [at rest]")
    assert tree.call("parent", action="lapse", name="deploy").endswith("\ndeploy@child=0s [at rest]")


def test_vo07_one_that_sleeps_is_told_when_it_wakes() -> None:
    """A child at rest cuts nobody off below it, and hears what happened at its own next step."""
    tree = family()
    tree.call("owner", action="start", name="deploy")
    for name in ("child", "grandchild"):
        tree.step(name)
    tree.members["child"].live = False
    tree.call("owner", action="note", name="deploy", note="half")
    assert tree.news("grandchild") == [["[counters] owner: deploy noted (half)"]]
    tree.members["child"].live = True
    assert tree.news("child") == [["[counters] owner: deploy noted (half)"]]


def test_vo08_one_message_for_several_changes() -> None:
    """What happened since is one message with a line for each change, in order, up to the newest event."""
    tree = family()
    tree.call("owner", action="start", name="deploy")
    tree.step("child")
    tree.call("owner", action="note", name="deploy", note="half")
    tree.call("owner", action="reset", name="deploy")
    tree.step("owner")
    tree.call("owner", action="remove", name="deploy")
    (message,) = tree.step("child")
    assert message.text == (
        "<system-reminder>\n"
        "[counters] owner: deploy noted (half)\n"
        "[counters] owner: deploy reset\n"
        "[counters] owner: deploy removed\n"
        "</system-reminder>"
    )
    assert (message.form, message.summary) == ("relay", "")
    assert message.data == {"senderSessionId": "owner", "upTo": len(tree.members["owner"].events) - 1}


def test_vo09_one_message_for_each_relative_before_the_reading() -> None:
    """News of two relatives are two messages, the nearer one's first, and both stand before the reading."""
    tree = family(TimeReminder(default_mode="turn"))
    tree.call("owner", action="start", name="a")
    tree.call("parent", action="start", name="b")
    messages = tree.step("child")
    assert [(message.form, message.data.get("senderSessionId")) for message in messages] == [
        ("relay", "owner"),
        ("relay", "parent"),
        ("notice", None),
    ]


def test_vo15_a_child_hears_what_comes_after_its_birth() -> None:
    """A child reads its parent's counters from before, has none itself, and is told only of later changes."""
    tree = Family(OFF)
    tree.add("owner")
    tree.call("owner", action="start", name="deploy")
    child = tree.add("child", parent="owner")
    assert tree.news("child") == []
    assert child.state.counters == {}
    assert "deploy@owner=0s" in tree.call("child", action="list")
    tree.call("owner", action="reset", name="deploy")
    assert tree.news("child") == [["[counters] owner: deploy reset"]]


def test_vo16_line_4() -> None:
    """Counters with inject stand in readings: own ones by name, those of live relatives with their session."""
    tree = family(TimeReminder(default_mode="turn"))
    tree.call("owner", action="start", name="deploy", inject=True)
    assert tree.reading("owner").splitlines()[4] == "[counters] deploy=0s"
    assert tree.reading("child").splitlines()[4] == "[counters] deploy@owner=0s"
    assert "[counters]" not in tree.reading("great-grandchild")
    tree.call("child", action="start", name="z", inject=True)
    tree.call("child", action="start", name="a", inject=True)
    tree.call("parent", action="start", name="b", inject=True, note="n")
    tree.call("owner", action="start", name="c", inject=True)
    assert tree.reading("child").splitlines()[4] == (
        "[counters] z=0s, a=0s, c@owner=0s, deploy@owner=0s, b@parent=0s (n)"
    )


def test_vo17_an_ambiguous_name() -> None:
    """A name that two relatives have is refused with both references, and each is then taken."""
    tree = family()
    tree.call("owner", action="start", name="deploy", note="near")
    tree.call("grandparent", action="start", name="deploy", depth=3, note="far")
    failed = tree.call("child", action="lapse", name="deploy")
    assert failed == (
        "failed: several sessions have a counter 'deploy'; give one of these as name: deploy@owner, deploy@grandparent"
    )
    assert "\ndeploy@owner=0s (near)" in tree.call("child", action="lapse", name="deploy@owner")
    assert "\ndeploy@grandparent=0s (far)" in tree.call("child", action="lapse", name="deploy@grandparent")


def test_vo18_the_own_one_wins() -> None:
    """A session's own counter is read before a relative's of that name; with a reference each is."""
    tree = family()
    tree.call("owner", action="start", name="deploy", note="theirs")
    tree.call("child", action="start", name="deploy", note="mine")
    assert "(mine)" in tree.call("child", action="lapse", name="deploy")
    assert "(mine)" in tree.call("child", action="lapse", name="deploy@child")
    assert "(theirs)" in tree.call("child", action="lapse", name="deploy@owner")


def test_vo19_a_crash_before_the_message_is_logged() -> None:
    """News that was prepared but not logged is prepared again; once logged, never again."""
    tree = family()
    tree.call("owner", action="start", name="deploy")
    assert tree.news("child", logged=False) == tree.news("child") == [["[counters] owner: deploy started"]]
    assert tree.news("child") == []


def test_vo20_old_news_is_no_news() -> None:
    """What any ancestor did before a session was made is not told to it."""
    tree = Family(OFF)
    tree.add("owner", "child")
    tree.call("owner", action="start", name="deploy", depth=3)
    tree.add("grandchild", parent="child")
    assert tree.news("grandchild") == []
    tree.call("owner", action="reset", name="deploy")
    assert tree.news("grandchild") == [["[counters] owner: deploy reset"]]


def test_a_descendant_is_heard_from_its_beginning() -> None:
    """What a child did with toParents before its parent's next step is told, also when it has ended (VO22)."""
    tree = Family(OFF)
    tree.add("parent", "child")
    tree.call("child", action="start", name="build", toParents=True)
    tree.members["child"].live = False
    assert tree.news("parent") == [["[counters] child: build started"]]
