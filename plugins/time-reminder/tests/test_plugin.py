"""The plugin by itself: which settings it takes, and what its tools answer."""

from importlib.metadata import entry_points
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError

from dsh_hookspecs.timefmt import epoch_ms, instant_at
from dsh_time_reminder import TimeReminder, modes
from dsh_time_reminder.counters import MAX_COUNTERS
from dsh_time_reminder.fold import TimeState

from .family import START_MS, Family, user

SHANGHAI = TimeReminder(time_zone="Asia/Shanghai", default_mode="off")
NOW = "Current time: 2026-07-14T16:30:00+08:00[Asia/Shanghai]"


@pytest.fixture
def family() -> Family:
    made = Family(SHANGHAI)
    made.add("s")
    return made


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"default_mode": "daily"}, "default_mode"),
        ({"default_mode": False}, "default_mode"),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": "0 0 30 2 *", "default_mode": "off"}, "never fires"),
        ({"cron": None}, "must be a cron expression, not None"),
        ({"time_zone": "Asia/Shangai"}, "did you mean Asia/Shanghai"),
        ({"time_zone": "localtime"}, "not an IANA time zone name"),
        ({"time_zone": ""}, "not an IANA time zone name"),
        ({"time_zone": 8}, "not int"),
        ({"fine_interval_ms": -1}, "whole milliseconds from 0 to 9007199254740991, not -1"),
        ({"fine_interval_ms": True}, "not True"),
        ({"fine_interval_ms": 1.5}, "not 1.5"),
        ({"fine_interval_ms": 2**53}, "whole milliseconds"),
        ({"counter_notice": "wake"}, "counter_notice"),
    ],
)
def test_refused_settings(settings: dict[str, Any], said: str) -> None:
    """A setting it cannot work with is refused when it is made, the expression and the zone in every mode."""
    with pytest.raises(ValueError, match=said):
        TimeReminder(**settings)


def test_a_weekday_that_is_no_bool_is_refused() -> None:
    """Neither 1 nor text is true."""
    for value in (1, "true", None):
        with pytest.raises(TypeError, match="weekday"):
            TimeReminder(weekday=value)  # type: ignore[arg-type]  # what is tested


def test_the_plugin_holds_no_state() -> None:
    """It cannot be changed, and it has nothing but its settings."""
    plugin = TimeReminder()
    with pytest.raises(FrozenInstanceError):
        plugin.cron = "@daily"  # type: ignore[misc]  # what is tested
    assert not hasattr(plugin, "__dict__")


def test_it_is_found_by_its_entry_point() -> None:
    """The distribution offers the class under its own name."""
    (point,) = entry_points(group="dsh_time.plugins", name="dsh-time-reminder")
    assert point.load() is TimeReminder
    assert point.dist is not None
    assert point.dist.name == "dsh-time-reminder"


# time_mode


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, ["Time mode: off (no reading on its own; previous reading none)"]),
        (
            {"mode": "off"},
            ["Time mode: off (no reading on its own; previous reading none)", "Set, from the next step on."],
        ),
        (
            {"mode": "turn"},
            [
                "Time mode: turn (first step of each turn; previous reading none)",
                "Set, from step 1 of the next turn on.",
            ],
        ),
        (
            {"mode": "fine"},
            ["Time mode: fine (every step; previous reading none)", "Set, from the next step on."],
        ),
        (
            {"mode": "cron"},
            [
                "Time mode: cron (daily 00:00 Asia/Shanghai; previous reading none)",
                (
                    "Next fires: 2026-07-15T00:00:00+08:00[Asia/Shanghai], 2026-07-16T00:00:00+08:00[Asia/Shanghai], "
                    "2026-07-17T00:00:00+08:00[Asia/Shanghai]"
                ),
                "Set, from the next step on.",
            ],
        ),
        (
            {"mode": "cron", "cron": "0 9 1 * MON"},
            [
                "Time mode: cron (0 9 1 * MON Asia/Shanghai; previous reading none)",
                (
                    "Next fires: 2026-07-20T09:00:00+08:00[Asia/Shanghai], 2026-07-27T09:00:00+08:00[Asia/Shanghai], "
                    "2026-08-01T09:00:00+08:00[Asia/Shanghai]"
                ),
                "Day-of-month and day-of-week are both given: it fires on days that either of them names.",
                "Set, from the next step on.",
            ],
        ),
    ],
)
def test_answers_of_time_mode(family: Family, arguments: dict[str, Any], lines: list[str]) -> None:
    """The current time, the mode in force, in mode cron the next three fires, and from when on what was set holds."""
    assert family.call("s", "time_mode", **arguments).split("\n") == [NOW, *lines]


def test_a_report_shows_what_was_set(family: Family) -> None:
    """A report after a change says the session's own mode and expression, and sets nothing."""
    family.call("s", "time_mode", mode="cron", cron="@hourly")
    state = family.members["s"].state
    text = family.call("s", "time_mode")
    assert "Time mode: cron (@hourly Asia/Shanghai; previous reading none)" in text
    assert "Set," not in text
    assert family.members["s"].state == state


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "cron", "cron": "0 0 * * * *"}, "has 6 fields"),
        ({"mode": "cron", "cron": "0 0 31 2 *"}, "never fires"),
        ({"mode": "off", "cron": "@daily"}, "cron with mode off means nothing"),
        ({"cron": "@daily"}, "cron without a mode means nothing"),
    ],
)
def test_a_failed_time_mode_changes_nothing(family: Family, arguments: dict[str, Any], said: str) -> None:
    """A bad expression, and one beside another mode or none, leaves mode and expression as they were."""
    family.call("s", "time_mode", mode="cron", cron="@hourly")
    before = family.members["s"].state
    failed = family.call("s", "time_mode", **arguments)
    assert failed.startswith("failed: ")
    assert said in failed
    after = family.members["s"].state
    assert (after.mode, after.cron, after.mode_call) == (before.mode, before.cron, before.mode_call)


def test_the_expression_comes_back_with_the_mode(family: Family) -> None:
    """`time_mode cron` without an expression takes the session's last one, else the deployment's."""
    assert "daily 00:00" in family.call("s", "time_mode", mode="cron")
    family.call("s", "time_mode", mode="cron", cron="@hourly")
    family.call("s", "time_mode", mode="off")
    assert "(@hourly Asia/Shanghai;" in family.call("s", "time_mode", mode="cron")


def test_the_last_fires_of_the_calendar(family: Family) -> None:
    """Where the calendar ends there are fewer fires to come, or none."""
    family.call("s", "time_mode", mode="cron")
    family.now = epoch_ms_of("9999-12-31T03:00:00+00:00")
    assert "Next fires: none before the year 10000" in family.call("s", "time_mode")


def epoch_ms_of(text: str) -> int:
    from datetime import datetime

    return epoch_ms(datetime.fromisoformat(text))


# time_counter


def test_answers_of_time_counter(family: Family) -> None:
    """The current time, what was done, and the counter as it stands, with who sees it; a removed one as it was."""
    at = "Current time: 2026-07-14T16:3{}:00+08:00[Asia/Shanghai]\n"
    assert family.call("s", action="start", name="deploy", note="开始部署", inject=True) == (
        f"{NOW}\nStarted: deploy=0s (开始部署) [inject, toChildren, depth 2]"
    )
    family.now += 60_000
    assert family.call("s", action="lapse", name="deploy") == (
        f"{at.format(1)}deploy=1m (开始部署) [inject, toChildren, depth 2]"
    )
    said = [
        family.call("s", action="note", name="deploy", note="half"),
        family.call("s", action="scope", name="deploy", inject=False, toParents=True, depth=1),
        family.call("s", action="scope", name="deploy", toChildren=False, toParents=False),
        family.call("s", action="reset", name="deploy"),
        family.call("s", action="start", name="deploy", note=""),
    ]
    assert [text.removeprefix(at.format(1)) for text in said] == [
        "Noted: deploy=1m (half) [inject, toChildren, depth 2]",
        "Rescoped: deploy=1m (half) [toChildren, toParents, depth 1]",
        "Rescoped: deploy=1m (half) [seen here only]",
        "Reset: deploy=0s (half) [seen here only]",
        "Restarted: deploy=0s [seen here only]",
    ]
    family.now += 60_000
    assert family.call("s", action="remove", name="deploy") == f"{at.format(2)}Removed: deploy=1m [seen here only]"


def test_the_list(family: Family) -> None:
    """The list says time and mode, then own counters in the order they were started."""
    empty = "Time mode: off (no reading on its own; previous reading none)\nNo counters are visible here."
    assert family.call("s", action="list") == f"{NOW}\n{empty}"
    for name in ("b", "a"):
        family.call("s", action="start", name=name)
    assert family.call("s", action="list").split("\n")[2:] == [
        "b=0s [toChildren, depth 2]",
        "a=0s [toChildren, depth 2]",
    ]


def test_the_bound_of_counters(family: Family) -> None:
    """The 64th counter is taken; the 65th fails, saying the bound, and changes nothing; a restart still works."""
    for number in range(MAX_COUNTERS):
        assert family.call("s", action="start", name=f"c{number}").startswith("Current time")
    before = family.members["s"].state.counters
    assert "at most 64 are kept" in family.call("s", action="start", name="more")
    assert family.members["s"].state.counters == before
    assert "Restarted" in family.call("s", action="start", name="c7")


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "x" * 100_000, "a@", "@b", "@"])
@pytest.mark.parametrize("action", ["start", "lapse", "reset"])
def test_bad_names_fail_with_a_short_reason(family: Family, given: str, action: str) -> None:
    """A name that cannot be is an error of the call, however long it is."""
    failed = family.call("s", action=action, name=given)
    assert failed.startswith("failed: ")
    assert len(failed) < 300


def test_tool_and_fold_agree(family: Family) -> None:
    """What the tool answers is what the fold holds once the result is logged."""
    family.call("s", action="start", name="deploy", note="n")
    family.now += 5_000
    answered = family.call("s", action="reset", name="deploy")
    counter = family.members["s"].state.counters["deploy"]
    assert answered.endswith("Reset: deploy=0s (n) [toChildren, depth 2]")
    assert counter.since == START_MS + 5_000


# The zone of a session


def test_the_zone_is_the_configured_one_then_the_users_then_the_process_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is asked only for want of the one before it."""
    monkeypatch.setattr("dsh_time_reminder.plugin.process_zone", lambda: "America/New_York")
    plain = Family(TimeReminder(default_mode="off"))
    plain.add("s")
    assert "[America/New_York]" in plain.call("s", "time_mode")
    plain.members["s"].log(user(clientTimeZone="Asia/Tokyo"))
    assert "[Asia/Tokyo]" in plain.call("s", "time_mode")
    configured = Family(SHANGHAI)
    configured.add("s").log(user(clientTimeZone="Asia/Tokyo"))
    assert "[Asia/Shanghai]" in configured.call("s", "time_mode")


def test_a_process_zone_without_a_known_name_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose user and deployment name no zone reads in UTC where the machine's zone has no known name."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "localtime")
    assert modes.process_zone.__wrapped__() == "UTC"


def test_the_fold_is_registered() -> None:
    """One fold, which reads everything from the log."""
    assert TimeReminder().register_folds() == [TimeState]


def test_a_person_who_watches_sees_the_sessions_own_counters_run(family: Family) -> None:
    """`chat` shows them in its bottom line; nothing is shown while there are none."""
    session, at = family.members["s"], instant_at(family.now + 61_000)
    assert family.plugin.status_line(session, at) is None
    family.call("s", action="start", name="deploy", note="to (prod)")
    family.call("s", action="start", name="build")
    assert family.plugin.status_line(session, at) == "deploy=1m1s (to [prod]), build=1m1s"
