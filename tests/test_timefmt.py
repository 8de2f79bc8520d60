"""Stamps, durations and zone names: the truth tables of `cases/`, and what must hold for every input."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_hookspecs.timefmt import (
    BadZone,
    InstantOutOfRange,
    epoch_ms,
    format_duration,
    format_stamp,
    instant_at,
    load_zone,
    local_time,
    local_zone_name,
    suggest_zones,
    zone_names,
)

CASES = Path(__file__).parent / "cases"
FIRST_MS, LAST_MS = -62135596800000, 253402300799999  # years 0001 to 9999, UTC


def cases(table: str) -> list[Any]:
    return [pytest.param(c, id=c["id"]) for c in json.loads((CASES / table).read_text("utf-8"))["cases"]]


def zone_cases(*kinds: str) -> list[Any]:
    return [case for case in cases("zones.json") if case.values[0]["kind"] in kinds]


def stamp(milliseconds: int, zone: str) -> str:
    return format_stamp(instant_at(milliseconds), load_zone(zone))


def test_the_tables_are_the_owners() -> None:
    """The committed tables are byte for byte those that lie beside the checkout."""
    originals = Path(__file__).parents[2] / "shared" / "cases"
    if not originals.is_dir():
        pytest.skip("the original tables are not beside this checkout")
    expected = {path.name: path.read_bytes() for path in originals.glob("*.json")}
    assert {path.name: path.read_bytes() for path in CASES.glob("*.json")} == expected


@pytest.mark.parametrize("case", cases("timestamps.json"))
def test_stamp_table(case: dict[str, Any]) -> None:
    """An instant in a zone reads as the table says, or is refused with the typed error."""
    if case.get("refused"):
        with pytest.raises(InstantOutOfRange):
            stamp(case["epoch_ms"], case["zone"])
    else:
        assert stamp(case["epoch_ms"], case["zone"]) == case["text"]


@pytest.mark.parametrize("case", cases("durations.json"))
def test_duration_table(case: dict[str, Any]) -> None:
    """Two instants give the text of the table."""
    assert format_duration(case["to_ms"] - case["from_ms"]) == case["text"]


@pytest.mark.parametrize("case", [c for c in cases("durations.json") if "from_local" in c.values[0]])
def test_duration_of_local_times(case: dict[str, Any]) -> None:
    """Two local times are measured by their instants, whatever the clock did between them."""
    zones = case.get("from_zone", case.get("zone")), case.get("to_zone", case.get("zone"))
    start, end = (
        datetime.fromisoformat(case[key]).astimezone(load_zone(zone))
        for key, zone in zip(("from_local", "to_local"), zones, strict=True)
    )
    assert (epoch_ms(start), epoch_ms(end)) == (case["from_ms"], case["to_ms"])
    assert format_duration(epoch_ms(end) - epoch_ms(start)) == case["text"]


@pytest.mark.parametrize("case", zone_cases("refused"))
def test_zone_refused(case: dict[str, Any]) -> None:
    """Every bad name is one typed error, which prints, is short, and keeps the value."""
    value = case.get("name", case.get("value"))
    with pytest.raises(BadZone) as caught:
        load_zone(value)
    assert caught.value.value == value
    assert len(str(caught.value).encode("utf-8")) < 200


@pytest.mark.parametrize("case", zone_cases("accepted", "policy", "one-zone", "different-zones"))
def test_zone_shown_as_given(case: dict[str, Any]) -> None:
    """A name that is taken is shown as it was given, also where it is an alias."""
    for name in case.get("names", [case.get("name")]):
        assert load_zone(name).key == name
        assert stamp(0, name).endswith(f"[{name}]")


def offsets(name: str) -> list[timedelta | None]:
    weeks = range(1900 * 52, 2040 * 52)
    zone = load_zone(name)
    return [(datetime(1, 1, 1, tzinfo=UTC) + timedelta(weeks=week)).astimezone(zone).utcoffset() for week in weeks]


@pytest.mark.parametrize("case", zone_cases("one-zone"))
def test_names_of_one_zone_agree(case: dict[str, Any]) -> None:
    """All names of one zone show the same offset, week after week."""
    assert all(offsets(name) == offsets(case["canonical"]) for name in case["names"])


@pytest.mark.parametrize("case", zone_cases("different-zones"))
def test_names_of_different_zones_differ(case: dict[str, Any]) -> None:
    """Names of different zones differ in some week."""
    assert all(offsets(one) != offsets(other) for one, other in combinations(case["names"], 2))


def test_every_listed_zone_opens() -> None:
    """The package's list without `Factory` opens, name by name, and each name is kept once."""
    assert len(zone_names()) > 500
    assert "Factory" not in zone_names()
    assert all(load_zone(name) is load_zone(name) for name in zone_names())


@pytest.mark.process
def test_system_zone_files_are_not_read(tmp_path: Path) -> None:
    """A zone is opened from the package even where the system has another file of that name."""
    (tmp_path / "Asia").mkdir()
    wrong = files("tzdata").joinpath("zoneinfo", "America", "New_York").read_bytes()
    (tmp_path / "Asia" / "Shanghai").write_bytes(wrong)
    code = "from dsh_hookspecs.timefmt import *; print(format_stamp(instant_at(0), load_zone('Asia/Shanghai')))"
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "1970-01-01T08:00:00+08:00[Asia/Shanghai]"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Asia/Shangai", "Asia/Shanghai"),
        ("asia/shanghai", "Asia/Shanghai"),
        ("utc", "UTC"),
        ("America/New York", "America/New_York"),
    ],
)
def test_near_names_are_suggested(given: str, meant: str) -> None:
    """The message of a bad name offers the name that was meant."""
    assert suggest_zones(given)[0] == meant
    assert f"did you mean {meant}" in str(BadZone(given))


def test_far_names_suggest_nothing() -> None:
    """A name like no other gets an example instead of a guess; a value of another type its type."""
    assert str(BadZone("+08:00")).endswith("like 'Asia/Shanghai' or 'UTC'")
    assert str(BadZone(True)).endswith("not bool")


def test_naive_datetime_is_no_instant() -> None:
    """A datetime without offset is refused, not taken for the machine's own zone."""
    with pytest.raises(ValueError, match="no offset"):
        format_stamp(datetime(2026, 1, 1), load_zone("UTC"))  # noqa: DTZ001 - the wrong input under test
    with pytest.raises(TypeError):
        epoch_ms(datetime(2026, 1, 1))  # noqa: DTZ001 - the wrong input under test


@pytest.mark.parametrize("milliseconds", [FIRST_MS - 1, LAST_MS + 1, 2**63 - 1, -(2**63)])
def test_instant_out_of_range(milliseconds: int) -> None:
    """An instant past the calendar is one typed error."""
    with pytest.raises(InstantOutOfRange, match="years 0001 to 9999"):
        instant_at(milliseconds)


def test_every_zone_at_the_ends_of_the_calendar() -> None:
    """At the first and the last instant each zone gives a stamp, or the typed error for another year."""
    for name in zone_names():
        zone = load_zone(name)
        for end in (FIRST_MS, LAST_MS):
            offset = instant_at(min(max(end, FIRST_MS + 10**9), LAST_MS - 10**9)).astimezone(zone).utcoffset()
            assert offset is not None
            outside = offset < timedelta(0) if end == FIRST_MS else offset > timedelta(0)
            if outside:
                with pytest.raises(InstantOutOfRange):
                    stamp(end, name)
            else:
                assert stamp(end, name).startswith("0001-01-01T" if end == FIRST_MS else "9999-12-31T")


@given(st.integers(FIRST_MS, LAST_MS))
def test_milliseconds_survive_the_round_trip(milliseconds: int) -> None:
    """Milliseconds to datetime and back is exact; microseconds are floored."""
    instant = instant_at(milliseconds)
    assert epoch_ms(instant) == milliseconds
    assert instant.microsecond % 1000 == 0
    if milliseconds < LAST_MS:
        assert epoch_ms(instant + timedelta(microseconds=999)) == milliseconds


@given(st.integers(FIRST_MS + 10**9, LAST_MS - 10**9), st.sampled_from(sorted(zone_names())))
def test_a_stamp_says_its_instant(milliseconds: int, name: str) -> None:
    """Local time and offset of a stamp give back the instant, floored to the second; it is ASCII."""
    text = stamp(milliseconds, name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d(:\d\d)?\[[A-Za-z0-9/_+-]+\]", text, re.ASCII)
    shown, _, label = text.removesuffix("]").partition("[")
    assert label == name
    assert epoch_ms(datetime.fromisoformat(shown)) == milliseconds // 1000 * 1000


@given(st.integers(FIRST_MS + 10**9, LAST_MS - 10**9), st.sampled_from(sorted(zone_names())))
def test_the_instant_is_what_counts(milliseconds: int, name: str) -> None:
    """The zone that a datetime comes in changes nothing."""
    elsewhere = local_time(instant_at(milliseconds), load_zone(name))
    assert epoch_ms(elsewhere) == milliseconds
    assert format_stamp(elsewhere, load_zone("Asia/Tokyo")) == stamp(milliseconds, "Asia/Tokyo")


@given(st.integers(-(10**15), 10**15))
def test_a_duration_says_its_seconds(milliseconds: int) -> None:
    """Units stand in order, none is zero or past its size, and they add up to the floored seconds."""
    text = format_duration(milliseconds)
    match = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text, re.ASCII)
    assert match
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    assert (hours < 24, minutes < 60, seconds < 60) == (True, True, True)
    assert ((days * 24 + hours) * 60 + minutes) * 60 + seconds == max(milliseconds, 0) // 1000
    assert text == "0s" or "0" not in [number for number in match.groups() if number]


@pytest.mark.parametrize("prefix", ["", ":"])
def test_tz_names_the_zone_of_the_process(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Every zone name is taken from TZ, with the colon that POSIX allows too, whatever the system's setting."""
    found = {}
    for name in zone_names():
        monkeypatch.setenv("TZ", prefix + name)
        found[name] = local_zone_name()
    assert found == {name: name for name in zone_names()}


@pytest.mark.parametrize("tz", [None, "", "Asia/Shangai", "EST5EDT,M3.2.0,M11.1.0", "posix/UTC", "Factory"])
def test_without_a_name_in_tz_the_system_names_the_zone(monkeypatch: pytest.MonkeyPatch, tz: str | None) -> None:
    """A TZ that is no name, or none at all: what tzlocal finds."""
    if tz is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", tz)
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Asia/Tokyo")
    assert local_zone_name() == "Asia/Tokyo"


@pytest.mark.parametrize("found", [None, "localtime", "posix/UTC", "GMT Standard Time", OSError("two settings")])
def test_a_machine_whose_zone_has_no_known_name(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    """What tzlocal cannot tell, or names otherwise than the zone data does, is None."""

    def name() -> object:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr("tzlocal.get_localzone_name", name)
    assert local_zone_name() is None


@given(st.text(max_size=400))
def test_any_text_is_a_zone_or_the_typed_error(name: str) -> None:
    """No text makes `load_zone` raise anything but BadZone, whose message always prints."""
    try:
        assert load_zone(name).key in zone_names()
    except BadZone as error:
        assert len(str(error).encode("utf-8")) < 600  # noqa: PT017 - only where it was raised


@pytest.mark.process
def test_import_reads_no_zone_data() -> None:
    """Importing the module loads neither zoneinfo nor the zone data."""
    code = "import sys, dsh_hookspecs.timefmt; print('zoneinfo' in sys.modules or 'tzdata' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
