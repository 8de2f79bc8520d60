"""What an expression means, what is refused, and that a refusal says what to write instead."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time_reminder.cron import MACROS, MAX_CHARACTERS, BadCron, parse_cron

CASES = json.loads((Path(__file__).parents[3] / "tests/cases/cron.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES if c.get("refused")])
def test_refused_by_the_table(case: dict[str, Any]) -> None:
    """Every expression that the table refuses is the typed error with a reason of some length."""
    with pytest.raises(BadCron) as caught:
        parse_cron(case["expr"])
    assert 20 < len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 0 1 * * * *", "has 7 fields, not five .* seconds and years are not taken"),
        ("", "has 0 fields"),
        ("@reboot", "there are @hourly"),
        ("@Daily", "there are @hourly"),
        ("0 0 1W * *", r"extension \(L W # \? R H ~\)"),
        ("H * * * *", "extension"),
        ("R/5 * * * *", "extension"),
        ("5/15 * * * *", "not 5/15 but 5-59/15"),
        ("0 0 * JAN/2 *", "not JAN/2 but JAN-12/2"),
        ("0 22-2 * * *", "write two ranges: 22-23,0-2"),
        ("0 0 * * fri-sun", "runs backwards"),
        ("*/0 * * * *", "step of zero"),
        ("0-9/00 * * * *", "step of zero"),
        ("60 * * * *", "60 is not in 0-59"),
        ("0 0 0 * *", "0 is not in 1-31"),
        ("0 0 * * Monday", "it knows sun, mon"),
        ("0 0 * mon *", "it knows jan, feb"),
        ("jan * * * *", "it takes numbers only"),
        ("1,,2 * * * *", "an element of the list is empty"),
        ("1, * * * *", "an element of the list is empty"),
        ("*-5 * * * *", "none of"),
        ("0 0 * * *\n", "none of"),
        ("0\u00a00 * * *", "has 4 fields"),
        ("٣ * * * *", "none of"),
        ("0 0 30 2 *", "no month that it names has a day 30"),
        ("0 0 31 2,4 *", "no month that it names has a day 31"),
        ("0 0 31 9-9/3 */2", "no month that it names has a day 31"),
        ("9" * 100 + " * * * *", "is not in 0-59"),
    ],
)
def test_a_refusal_says_what_is_wrong(expression: str, reason: str) -> None:
    with pytest.raises(BadCron, match=reason):
        parse_cron(expression)


def test_length_is_bounded() -> None:
    """128 characters are taken, 129 are not, and the message says the bound."""
    expression = "0 0 * * *".ljust(MAX_CHARACTERS)
    assert parse_cron(expression).text == "0 0 * * *"
    with pytest.raises(BadCron, match="at most 128"):
        parse_cron(expression + " ")


@pytest.mark.parametrize(
    ("expression", "description"),
    [
        ("0 0 * * *", "daily 00:00"),
        ("@daily", "daily 00:00"),
        ("@midnight", "daily 00:00"),
        (" 05  7\t* * * ", "daily 07:05"),
        ("*/90 9 * * *", "daily 09:00"),
        ("59 23 1-31 * 0-7", "daily 23:59"),
        ("0 0 1-31 * 1", "daily 00:00"),
        ("0 0 * 1-12 *", "daily 00:00"),
        ("0 0 */1 * */1", "daily 00:00"),
        ("0 0 * * 1", "0 0 * * 1"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 * 1-11 *", "0 0 * 1-11 *"),
        ("0 0,12 * * *", "0 0,12 * * *"),
        ("0,30 0 * * *", "0,30 0 * * *"),
        ("@hourly", "@hourly"),
        ("@weekly", "@weekly"),
        ("30 9 * * MON-FRI", "30 9 * * MON-FRI"),
    ],
)
def test_description(expression: str, description: str) -> None:
    """One minute of every day reads `daily HH:MM`, any other expression as it was written."""
    assert parse_cron(expression).description == description


@pytest.mark.parametrize(
    ("expression", "either_day"),
    [
        ("0 0 13 * 5", True),
        ("0 0 13 * *", False),
        ("0 0 */2 * 5", False),
        ("0 0 */2,1 * 5", False),
        ("0 0 1,*/2 * 5", True),
        ("0 0 13 * */2", False),
    ],
)
def test_day_fields_combine(expression: str, either_day: bool) -> None:
    """The two day fields combine as OR when neither starts with `*`."""
    assert parse_cron(expression).either_day is either_day


@pytest.mark.parametrize(
    ("expression", "fixed"),
    [
        ("5 4 * * *", True),
        ("5 */4 * * *", False),
        ("*/5 4 * * *", False),
        ("0-59 0-23 * * *", True),
        ("@hourly", False),
    ],
)
def test_fixed_time(expression: str, fixed: bool) -> None:
    """A job is fixed-time when neither its minute nor its hour field starts with `*`."""
    assert parse_cron(expression).fixed_time is fixed


@pytest.mark.parametrize("macro", MACROS)
def test_a_macro_means_its_fields(macro: str) -> None:
    """A macro fires like the five fields it stands for and is shown as written."""
    written, spelled_out = parse_cron(macro), parse_cron(MACROS[macro])
    assert written.text == macro
    assert (written.minutes, written.hours, written.days, written.months, written.weekdays) == (
        spelled_out.minutes,
        spelled_out.hours,
        spelled_out.days,
        spelled_out.months,
        spelled_out.weekdays,
    )
    assert (written.fixed_time, written.either_day) == (spelled_out.fixed_time, spelled_out.either_day)


@st.composite
def fields(draw: st.DrawFn, first: int, last: int) -> tuple[str, frozenset[int]]:
    """Text of a field with the values it names."""
    elements, values = [], set()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(first, last))
        end = draw(st.integers(start, last))
        step = draw(st.sampled_from([1, 2, 3, 7, 90]))
        kind = draw(st.sampled_from(["*", "*/n", "a", "a-b", "a-b/n"]))
        whole = kind.startswith("*")
        text = {
            "*": "*",
            "*/n": f"*/{step}",
            "a": f"{start:02}",
            "a-b": f"{start}-{end}",
            "a-b/n": f"{start}-{end}/{step}",
        }
        low, high = (first, last) if whole else (start, start if kind == "a" else end)
        values |= {value for value in range(low, high + 1) if (value - low) % (step if "/n" in kind else 1) == 0}
        elements.append(text[kind])
    return ",".join(elements), frozenset(values)


@given(fields(0, 59), fields(0, 23), fields(1, 12), fields(0, 7))
def test_fields_name_their_values(
    minute: tuple[str, frozenset[int]],
    hour: tuple[str, frozenset[int]],
    month: tuple[str, frozenset[int]],
    weekday: tuple[str, frozenset[int]],
) -> None:
    """Lists, ranges and steps name the values that counting names; 7 is Sunday like 0."""
    cron = parse_cron(f"{minute[0]} {hour[0]} * {month[0]} {weekday[0]}"[:MAX_CHARACTERS])
    assert (cron.minutes, cron.hours, cron.months) == (minute[1], hour[1], month[1])
    assert cron.weekdays == {0 if day == 7 else day for day in weekday[1]}
    assert cron.days == set(range(1, 32))


@given(st.text(st.sampled_from("0123456789*/-,@LW#?~ abcjnmo\t\n٣é"), max_size=140) | st.text(max_size=140))
def test_any_text_is_an_expression_or_the_typed_error(text: str) -> None:
    """No text makes the parser raise anything but BadCron."""
    try:
        cron = parse_cron(text)
    except BadCron:
        return
    assert all((cron.minutes, cron.hours, cron.days, cron.months, cron.weekdays))
