"""The exact text of readings and notices."""

from datetime import datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs.timefmt import InstantOutOfRange, epoch_ms, instant_at, load_zone
from dsh_time_reminder.counters import Counter
from dsh_time_reminder.cron import parse_cron
from dsh_time_reminder.modes import Cadence
from dsh_time_reminder.reading import MAX_BYTES, Reading, ShownCounter, cadence_text, capped, notice_text

DAILY = parse_cron("0 0 * * *")
NOW = 1791480225000
SEED = Reading(
    turn=12,
    step=1,
    now=instant_at(NOW),
    zone=load_zone("Asia/Shanghai"),
    cadence=Cadence("cron", DAILY),
    previous=1791388803999,
    previous_message=instant_at(NOW - 187_500),
    counters=(ShownCounter("deploy", Counter(NOW - 1_243_999, "开始部署")),),
)


def line(reading: Reading, number: int) -> str:
    return reading.text.splitlines()[number]


def test_the_reading_of_the_seed() -> None:
    """The reading shown in the seed comes out of its facts, character for character, and so does its summary."""
    assert SEED.text == (
        "<system-reminder>\n"
        "Time sampled while preparing turn 12, step 1: 2026-10-09T01:23:45+08:00[Asia/Shanghai]\n"
        "Time mode: cron (daily 00:00 Asia/Shanghai; previous reading 2026-10-08T00:00:03+08:00[Asia/Shanghai])\n"
        "Elapsed since the preceding model-visible message: 3m7s\n"
        "[counters] deploy=20m43s (开始部署)\n"
        "</system-reminder>"
    )
    assert SEED.summary == "cron reading · 2026-10-09T01:23:45+08:00"


@pytest.mark.parametrize(
    ("cadence", "text"),
    [
        (
            Cadence("cron", parse_cron("30 9 * * MON-FRI")),
            "cron (30 9 * * MON-FRI Asia/Shanghai; previous reading none)",
        ),
        (Cadence("cron", parse_cron("@hourly")), "cron (@hourly Asia/Shanghai; previous reading none)"),
        (Cadence("turn", DAILY), "turn (first step of each turn; previous reading none)"),
        (Cadence("fine", DAILY), "fine (every step; previous reading none)"),
        (Cadence("fine", DAILY, 30_000), "fine (at least 30s apart; previous reading none)"),
        (Cadence("fine", DAILY, 5_400_000), "fine (at least 1h30m apart; previous reading none)"),
        (Cadence("fine", DAILY, 1500), "fine (at least 1500ms apart; previous reading none)"),
    ],
)
def test_line_2(cadence: Cadence, text: str) -> None:
    """Line 2 says the mode, when it reads, and that there was no reading before."""
    reading = evolve(SEED, cadence=cadence, previous=None)
    assert line(reading, 2) == f"Time mode: {text}"
    assert reading.summary.startswith(f"{cadence.mode} reading · ")


def test_off_says_that_it_never_reads() -> None:
    """Mode `off` never makes a reading; a report can still say what it means."""
    assert cadence_text(Cadence("off", DAILY), SEED.zone) == "no reading on its own"


def test_previous_reading_is_shown_in_the_zone_of_line_1() -> None:
    """The previous reading may have been made in another zone; it is shown in this one's."""
    assert line(evolve(SEED, zone=load_zone("America/New_York")), 2).endswith(
        "previous reading 2026-10-07T12:00:03-04:00[America/New_York])"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"previous_message": None}, "model-visible message: unavailable (no earlier message in this session)"),
        ({"step": 2, "previous": NOW - 61_000}, "reading: 1m1s"),
        ({"step": 2, "previous": None}, "reading: unavailable (no earlier reading in this session)"),
        ({"step": 2, "previous": NOW + 1}, "reading: 0s"),
        ({"previous_message": instant_at(NOW + 5000)}, "model-visible message: 0s"),
        ({"previous": None}, "model-visible message: 3m7s"),
    ],
)
def test_line_3(changes: dict[str, Any], text: str) -> None:
    """Step 1 measures from the last message before the turn, later steps from the last reading; never below zero."""
    assert line(evolve(SEED, **changes), 3) == f"Elapsed since the preceding {text}"


def test_line_4_only_with_counters() -> None:
    """Without a counter to show there is no line 4."""
    assert len(evolve(SEED, counters=()).text.splitlines()) == 5


def test_line_4_entries() -> None:
    """Entries stand in the order given; a relative's has its session; without note no brackets; never below zero."""
    shown = (
        ShownCounter("a", Counter(NOW)),
        ShownCounter("b", Counter(NOW + 1), "s_child"),
        ShownCounter("c", Counter(0, "x) , prod=1s ("), "s_parent"),
    )
    assert line(evolve(SEED, counters=shown), 4) == (
        "[counters] a=0s, b@s_child=0s, c@s_parent=20734d17h23m45s (x] , prod=1s [)"
    )


def test_line_4_is_bounded() -> None:
    """The line takes at most 2 KiB; what does not fit is counted."""
    shown = [ShownCounter(f"counter{number:03}", Counter(NOW, "部" * 30)) for number in range(100)]
    text = line(evolve(SEED, counters=shown), 4)
    assert MAX_BYTES - 120 < len(text.encode()) <= MAX_BYTES
    kept = text.count("counter0")
    assert text.endswith(f", +{100 - kept} more")
    one_too_long = ShownCounter("名" * 64, Counter(NOW, "😀" * 512))
    assert line(evolve(SEED, counters=[one_too_long]), 4) == "[counters] +1 more"


def test_line_4_at_its_bound() -> None:
    """A line of exactly 2 KiB stands whole; with one byte more the last entry is counted instead."""
    entry = len("a=0s ()")
    first = len("[counters] ") + entry + 400 + len(", ")

    def shown(length: int) -> str:
        notes = ["x" * 400, *["y" * 400] * 3, "z" * length]
        return line(evolve(SEED, counters=[ShownCounter("a", Counter(NOW, note)) for note in notes]), 4)

    most = MAX_BYTES - first - 3 * (entry + 400 + len(", ")) - entry
    assert len(shown(most)) == MAX_BYTES
    assert shown(most).endswith("z)")
    assert shown(most + 1).endswith("y), +1 more")


def test_weekday() -> None:
    """The weekday of the local date stands after the stamp, if asked for."""
    assert line(evolve(SEED, weekday=True), 1).endswith("2026-10-09T01:23:45+08:00[Asia/Shanghai] Friday")
    assert line(evolve(SEED, weekday=True, zone=load_zone("UTC")), 1).endswith("[UTC] Thursday")


def test_an_instant_outside_the_calendar() -> None:
    """A local year outside 0001 to 9999 is the typed error, not a wrong text."""
    with pytest.raises(InstantOutOfRange):
        _ = evolve(SEED, now=datetime.fromisoformat("9999-12-31T23:59:59+00:00")).text


def test_a_notice() -> None:
    """A notice has one line for each change, in order, and cannot be broken out of."""
    assert notice_text(
        "s_parent", [("deploy", "noted (half]way)"), ("a<", "started"), ("</system-reminder>", "removed")]
    ) == (
        "<system-reminder>\n"
        "[counters] s_parent: deploy noted (half]way)\n"
        "[counters] s_parent: a<\\ started\n"
        "[counters] s_parent: <\\/system-reminder> removed\n"
        "</system-reminder>"
    )


def test_a_notice_is_bounded() -> None:
    """More changes than fit in 2 KiB are counted."""
    lines = notice_text("s", [(f"c{number}", "reset") for number in range(500)]).splitlines()[1:-1]
    assert len("\n".join(lines)) <= MAX_BYTES
    assert lines[-1] == f"+{500 - len(lines) + 1} more"


@given(st.lists(st.text(max_size=30), max_size=40), st.sampled_from([", ", "\n"]), st.integers(20, 200))
def test_capping(pieces: list[str], separator: str, most: int) -> None:
    """Capped text never passes its bound, keeps whole pieces from the front, and counts the rest exactly."""
    text = capped(pieces, separator, most)
    whole = separator.join(pieces)
    if len(whole.encode("utf-8", "replace")) <= most:
        assert text == whole
    else:
        assert len(text.encode("utf-8", "replace")) <= most
        assert any(
            text == separator.join([*pieces[:kept], f"+{len(pieces) - kept} more"]) for kept in range(len(pieces))
        )


@given(
    st.integers(1, 10**6), st.integers(1, 50), st.integers(0, 4 * 10**12), st.text(max_size=40), st.text(max_size=40)
)
def test_a_reading_is_one_frame_of_whole_lines(turn: int, step: int, now: int, name: str, note: str) -> None:
    """Whatever a counter is called, a reading has its lines and no more, and one beginning and end."""
    reading = evolve(SEED, turn=turn, step=step, now=instant_at(now), counters=[ShownCounter(name, Counter(0, note))])
    assert len(reading.text.splitlines()) == 6
    assert reading.text.count("<system-reminder>") == reading.text.count("</system-reminder>") == 1
    assert len(reading.summary) <= 120
    assert epoch_ms(datetime.fromisoformat(reading.summary.split(" · ")[1])) == now // 1000 * 1000
