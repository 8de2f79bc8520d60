"""What a terminal must not act on is made visible; what people write is left alone."""

import unicodedata
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.text import safe_line, safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("bell\x07 back\x08 return\r nul\0 delete\x7f", "bell\\x07 back\\x08 return\\x0d nul\\x00 delete\\x7f"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),  # C1: some terminals take it for ESC [
        ("abc\u202edcba\u2066", "abc\\u202edcba\\u2066"),  # bidi
        ("a\u200bb\ufeffc\u2028d\u00ade\u3164f", "a\\u200bb\\ufeffc\\u2028d\\xade\\u3164f"),  # looks like nothing
        ("\U000e0041\U000e0100", "\\U000e0041\\U000e0100"),  # tags and their like
        ("\ud800", "\\ud800"),
        ("line\n\tnext", "line\n\tnext"),
        ("Zürich 上海　日本 ☀️ [red]x[/red] a\xa0b", "Zürich 上海　日本 ☀️ [red]x[/red] a\xa0b"),
    ],
)
def test_what_a_terminal_could_act_on_or_hide_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert safe_text(text) == shown


def test_a_line_has_neither_line_feeds_nor_tabs_and_no_more_than_the_limit() -> None:
    assert safe_line("one\ntwo\tthree\x1b") == "one two three\\x1b"
    assert safe_line("12345", 5) == "12345"
    assert safe_line("123456", 5) == "1234…"


@given(st.text())
def test_nothing_is_left_that_is_control_format_or_separator(text: str) -> None:
    for character in safe_text(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@given(st.text(), st.text())
def test_a_text_may_come_in_pieces(one: str, other: str) -> None:
    assert safe_text(one) + safe_text(other) == safe_text(one + other)


def test_100_kb_of_hostile_text_take_less_than_50_ms() -> None:
    text = "\x1b[\u202e\U000e0041" * 25_000
    started = perf_counter()
    safe_text(text)
    assert perf_counter() - started < 0.05
