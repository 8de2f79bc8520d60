"""Plain data becomes attrs classes strictly: nothing is coerced, all that is wrong is said at once, with its path."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs import validators
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.errors import DshTimeError, StructureError
from dsh_time.problems import describe, did_you_mean, format_path, is_secret
from dsh_time.structure import camel_case, structure


def _known_zone(_: object, __: object, value: str) -> None:
    if value not in ("UTC", "Asia/Shanghai"):
        raise ValueError(f"{value!r} is no zone name")


@attrs.frozen(eq=False)
class Clock:
    refresh_interval_ms: int = attrs.field(default=60_000, validator=validators.ge(0))
    time_zone: str = attrs.field(default="UTC", validator=_known_zone)


@attrs.frozen
class Point:
    x: int
    y: int = 0


@attrs.frozen
class Everything:
    flag: bool = False
    count: int = 0
    share: float = 0.5
    text: str = ""
    mode: Literal["off", "cron"] = "cron"
    level: Literal[1, 2] = 1
    maybe: int | None = None
    either: int | str = 0
    either_point: Point | str | None = None
    numbers: list[int] = attrs.Factory(list)
    names: tuple[str, ...] = ()
    some: Sequence[str] = ()
    unique: frozenset[str] = frozenset()
    point: Point = Point(1)
    points: tuple[Point, ...] = ()
    by_name: Mapping[str, Point] = attrs.Factory(dict)
    free: dict[str, Any] = attrs.Factory(dict)
    file: Path = Path("here")


def problems(data: object, cls: type = Everything, where: str = "") -> dict[str, str]:
    """Return the message of each problem by its path."""
    with pytest.raises(StructureError) as caught:
        structure(data, cls, where=where)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_defaults_fill_what_is_not_given() -> None:
    clock = structure({}, Clock, where="")
    assert (clock.refresh_interval_ms, clock.time_zone) == (60_000, "UTC")


def test_keys_are_the_camel_case_of_field_names() -> None:
    clock = structure({"refreshIntervalMs": 5, "timeZone": "Asia/Shanghai"}, Clock, where="")
    assert (clock.refresh_interval_ms, clock.time_zone) == (5, "Asia/Shanghai")
    assert [camel_case(name) for name in ("tool_timeout_s", "x", "_private", "from_")] == [
        "toolTimeoutS",
        "x",
        "private",
        "from",
    ]


def test_every_type_that_a_file_can_give_is_taken() -> None:
    data = {
        "flag": True,
        "count": 3,
        "share": 2,
        "text": "off",
        "mode": "off",
        "level": 2,
        "maybe": None,
        "either": "x",
        "eitherPoint": {"x": 9},
        "numbers": [1, 2],
        "names": ["a", "b"],
        "some": ["c"],
        "unique": ["d", "d"],
        "point": {"x": 1, "y": 2},
        "points": [{"x": 3}],
        "byName": {"a b": {"x": 4}},
        "free": {"deep": [1, {"x": None}]},
        "file": "/tmp/x",
    }
    assert structure(data, Everything, where="") == Everything(
        True, 3, 2.0, "off", "off", 2, None, "x", Point(9), [1, 2], ("a", "b"), ("c",), frozenset({"d"}),
        Point(1, 2), (Point(3),), {"a b": Point(4)}, {"deep": [1, {"x": None}]}, Path("/tmp/x"),
    )  # fmt: skip
    assert type(structure({"share": 2}, Everything, where="").share) is float


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("flag", "false", "must be true or false, not 'false'"),
        ("flag", 1, "must be true or false, not 1"),
        ("count", True, "must be a whole number, not true"),
        ("count", 1.0, "must be a whole number, not 1.0"),
        ("count", "1", "must be a whole number, not '1'"),
        ("count", None, "must be a whole number, not empty"),
        ("share", True, "must be a number, not true"),
        ("share", math.nan, "must be a number, not nan"),
        ("share", math.inf, "must be a number, not inf"),
        ("text", False, "must be text, not false"),
        ("text", 8, "must be text, not 8"),
        ("mode", "offf", "must be one of off, cron, not 'offf'"),
        ("mode", False, "must be one of off, cron, not false"),
        ("mode", ["off"], "must be one of off, cron, not a list"),
        ("level", True, "must be one of 1, 2, not true"),
        ("maybe", "x", "must be a whole number, not 'x'"),
        ("either", True, "must be a whole number or text, not true"),
        ("either", None, "must be a whole number or text, not empty"),
        ("eitherPoint", 5, "must be a mapping like {x: …} or text, not 5"),
        ("numbers", "12", "must be a list, not '12'"),
        ("numbers", {"1": 2}, "must be a list, not a mapping"),
        ("names", "ab", "must be a list, not 'ab'"),
        ("unique", "ab", "must be a list, not 'ab'"),
        ("point", [1, 2], "must be a mapping like {x: …}, not a list"),
        ("byName", ["a"], "must be a mapping, not a list"),
        ("free", "x", "must be a mapping, not 'x'"),
        ("file", 5, "must be a path, not 5"),
        ("file", "", "must be a path, not ''"),
        ("file", "~no-such-user-here/x", "must be a path below a home folder that exists"),
    ],
)
def test_nothing_is_coerced(key: str, value: object, message: str) -> None:
    found = problems({key: value})
    assert list(found) == [key]
    assert found[key].startswith(message)


def test_all_problems_are_reported_at_once_each_with_its_path() -> None:
    data = {
        "count": "x",
        "point": {"y": "z"},
        "points": [{"x": 1}, {"x": None}],
        "byName": {"a b": {"x": 1, "z": 2}},
        "numbers": [1, "2", True],
        "eitherPoint": {"x": "q"},
    }
    assert set(problems(data, where="plugins[0].config")) == {
        "plugins[0].config.count",
        "plugins[0].config.point",  # the key x is missing
        "plugins[0].config.point.y",
        "plugins[0].config.points[1].x",
        "plugins[0].config.byName['a b'].z",
        "plugins[0].config.numbers[1]",
        "plugins[0].config.numbers[2]",
        "plugins[0].config.eitherPoint.x",
    }


def test_every_refusing_validator_is_reported_with_its_key() -> None:
    assert problems({"refreshIntervalMs": -1, "timeZone": "Mars"}, Clock) == {
        "refreshIntervalMs": "must be >= 0: -1",
        "timeZone": "'Mars' is no zone name",
    }


def test_validators_run_even_where_another_key_does_not_fit() -> None:
    assert set(problems({"refreshIntervalMs": "x", "timeZone": "Mars", "zone": 1}, Clock)) == {
        "refreshIntervalMs",
        "timeZone",
        "zone",
    }


@pytest.mark.parametrize("wrong", ["refresh_interval_ms", "refreshIntervalMS", "refreshInterval", "RefreshIntervalMs"])
def test_an_unknown_key_gets_a_suggestion(wrong: str) -> None:
    assert problems({wrong: 5}, Clock) == {wrong: "unknown key; did you mean refreshIntervalMs?"}


def test_an_unknown_key_like_no_other_gets_the_list_of_keys() -> None:
    assert problems({"qqq": 5}, Clock) == {"qqq": "unknown key; known keys: refreshIntervalMs, timeZone"}


def test_a_class_without_fields_says_so() -> None:
    @attrs.frozen
    class Nothing:
        pass

    assert problems({"a": 1}, Nothing) == {"a": "unknown key; there are no keys here"}


def test_a_missing_key_is_named() -> None:
    assert problems({}, Point) == {"": "the key x is missing"}
    assert problems({}, Point, where="plugins[1].config") == {"plugins[1].config": "the key x is missing"}


def _upper(text: str) -> str:
    return text.upper()


def _not_thirteen(value: int) -> int:
    if value == 13:
        raise ValueError("13 brings bad luck")
    return value


@attrs.frozen
class Range:
    low: int = 0
    high: int = attrs.field(default=10)
    name: str = attrs.field(default="x", converter=_upper)
    label: str = attrs.field(init=False, default="made")
    luck: int = attrs.field(default=1, converter=_not_thirteen)
    both: list[int] = attrs.Factory(lambda self: [self.low], takes_self=True)

    @high.validator
    def _above_low(self, _: object, value: int) -> None:
        if value < self.low:
            raise ValueError("must not be below low")

    def __attrs_post_init__(self) -> None:
        if self.name == "BAD":
            raise ValueError("the name BAD does not go with a range")


def test_a_validator_may_look_at_other_fields() -> None:
    assert problems({"low": 5, "high": 2}, Range) == {"high": "must not be below low"}
    assert structure({"low": 5, "high": 7, "name": "n"}, Range, where="") == Range(5, 7, "N")


def test_a_validator_that_misses_a_broken_field_adds_no_second_problem() -> None:
    @attrs.frozen
    class Needs:
        low: int
        high: int = attrs.field(validator=lambda self, _, value: self.low < value)

    assert set(problems({"low": "x", "high": 2}, Needs)) == {"low"}


def test_what_the_whole_instance_refuses_is_reported_at_its_path() -> None:
    assert problems({"name": "bad"}, Range, where="w") == {"w": "the name BAD does not go with a range"}


def test_a_converter_that_refuses_is_reported_with_its_key() -> None:
    assert problems({"luck": 13, "low": 5, "high": 2}, Range) == {
        "luck": "13 brings bad luck",
        "high": "must not be below low",
    }


def test_a_union_with_null_takes_null() -> None:
    assert structure({"eitherPoint": None}, Everything, where="").either_point is None


def test_fields_that_init_does_not_take_are_no_keys() -> None:
    assert list(problems({"label": "x"}, Range)) == ["label"]


def test_a_validator_that_raises_something_else_is_reported_with_its_type() -> None:
    def broken(_: object, __: object, value: str) -> None:
        raise LookupError("no table")

    @attrs.frozen
    class Broken:
        zone: str = attrs.field(default="", validator=broken)

    assert problems({"zone": "x"}, Broken) == {"zone": "LookupError: no table"}


def test_messages_of_attrs_validators_lose_the_field_name_and_their_other_arguments() -> None:
    @attrs.frozen
    class Choice:
        some_size: int = attrs.field(default=1, validator=validators.in_([1, 2]))

    assert problems({"someSize": 3}, Choice) == {"someSize": "must be in [1, 2] (got 3)"}


def test_a_field_type_that_no_file_can_give_is_called_a_fault_of_the_class() -> None:
    @attrs.frozen
    class Odd:
        when: datetime | None = None
        pair: tuple[int, str] = (1, "")

    found = problems({"when": "2026-01-01", "pair": [1, "x"]}, Odd)
    assert set(found) == {"when", "pair"}
    assert all("a fault of the class" in message for message in found.values())


@pytest.mark.parametrize("key", ["apiKey", "api_key", "authToken", "password", "clientSecret"])
def test_a_value_that_may_be_a_secret_is_in_no_problem(key: str) -> None:
    def refuse(_: object, __: object, value: object) -> None:
        raise ValueError(f"{value} is bad")

    cls = attrs.make_class(
        "Provider", {key: attrs.field(type=str, validator=refuse), "n": attrs.field(type=int, default=1)}, frozen=True
    )
    for value in (["hunter2"], {"hunter2": 1}, "hunter2"):
        with pytest.raises(StructureError) as caught:
            structure({camel_case(key): value, "n": "x"}, cls, where="model")
        text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert "hunter2" not in text
        assert "model.n: must be a whole number, not 'x'" in text


def test_a_secret_key_is_recognised_and_similar_words_are_not() -> None:
    assert is_secret(("model", "apiKey"))
    assert is_secret(("model", "apiKey", "x"))
    assert not any(is_secret((key,)) for key in ("maxTokens", "apiKeyEnv", "key", "tokens", 5))


def test_the_error_is_typed_holds_data_and_lists_at_most_twenty() -> None:
    with pytest.raises(DshTimeError) as caught:
        structure({f"k{n}": n for n in range(30)}, Clock, where="model")
    assert isinstance(caught.value, StructureError)
    assert len(caught.value.problems) == 30
    assert caught.value.problems[0].keys == ("k0",)
    assert "and 10 more" in str(caught.value)


def test_a_problem_holds_the_refused_value() -> None:
    with pytest.raises(StructureError) as caught:
        structure({"refreshIntervalMs": [1]}, Clock, where="")
    assert caught.value.problems[0].value == [1]


def test_paths_quote_keys_that_are_not_plain_words() -> None:
    assert format_path(("a", 0, "b c", "d-e", "\x1b"), "w") == r"w.a[0]['b c'].d-e['\x1b']"
    assert format_path((), "w") == "w"


def test_descriptions_are_short_and_printable() -> None:
    assert describe("\x1b[31m\u202e") == r"'\x1b[31m\u202e'"
    assert describe("中文") == "'中文'"
    assert len(describe("x" * 1000)) < 70


def test_no_suggestion_is_made_for_a_word_like_no_other() -> None:
    assert did_you_mean("zebra", ["cron", "mode"]) == ""
    assert did_you_mean("corn", ["cron", "mode"]) == "; did you mean cron?"


_plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["flag", "point", "x", "byName"]), inner)
    ),
    max_leaves=15,
)


@given(_plain_data)
def test_any_plain_data_gives_an_instance_or_the_one_typed_error(data: object) -> None:
    result: Any
    try:
        result = structure(data, Everything, where="w")
    except StructureError as error:
        result = error.problems and str(error)
    assert isinstance(result, Everything) or result.startswith("invalid settings:\n  w")


@given(
    st.builds(Clock, refresh_interval_ms=st.integers(min_value=0), time_zone=st.sampled_from(["UTC", "Asia/Shanghai"]))
)
def test_what_a_class_takes_is_taken_unchanged(clock: Clock) -> None:
    data = {camel_case(name): value for name, value in attrs.asdict(clock).items()}
    assert attrs.asdict(structure(data, Clock, where="")) == attrs.asdict(clock)
