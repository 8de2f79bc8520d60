"""No text inside a frame can end it or start one; harmless text comes through."""

import json
import time
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time_reminder.frames import framed, plain_line, plain_note

CASES = json.loads((Path(__file__).parents[3] / "tests/cases/frames.json").read_text("utf-8"))["cases"]


def group(*names: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["group"] in names]


@pytest.mark.parametrize("case", [case for case in group("hostile", "harmless") if "text" in case.values[0]])
def test_notes_of_the_table(case: dict[str, Any]) -> None:
    """A note reads in the frame as the table says, filtered once or twice, and the frame begins and ends once."""
    if case.get("where") == "elsewhere":
        return  # prompts and tool results, which this plugin never touches
    allowed = case.get("note_any", [case.get("note")])
    assert plain_note(case["text"]) in allowed
    assert plain_note(plain_note(case["text"])) == plain_note(case["text"])
    text = framed([f"[counters] deploy=20m43s ({plain_note(case['text'])})"])
    assert text.count("<system-reminder>") == text.count("</system-reminder>") == 1
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("case", [case for case in group("hostile") if "parts" in case.values[0]])
def test_split_over_two_fields(case: dict[str, Any]) -> None:
    """Two fields that make a tag together are each filtered, and once more as a finished line."""
    name, note = plain_line(case["parts"]["name"]), plain_note(case["parts"]["note"])
    assert {"name": name, "note": note} == case["parts_expected"]
    for line in (f"[counters] {name}=20m43s ({note})", f"[counters] s_parent: {name} started"):
        text = framed([line])
        assert text.count("<system-reminder>") == text.count("</system-reminder>") == 1


@pytest.mark.parametrize("case", group("load"))
def test_hostile_load_is_linear(case: dict[str, Any]) -> None:
    """100 KB of hostile text take less than 50 ms (the bound of the design)."""
    text = "".join(piece * times for piece, times in case["repeat"])
    best = float("inf")
    for _ in range(3):  # the best of three: the machine may be busy
        start = time.perf_counter()
        plain_note(text)
        best = min(best, time.perf_counter() - start)
    assert best < 0.05


@pytest.mark.parametrize("case", group("name"))
def test_names_of_the_table(case: dict[str, Any]) -> None:
    """A name that is taken is shown as the table says."""
    if case["verdict"] == "ok":
        assert plain_line(unicodedata.normalize("NFC", case["name"])) == case["shown"]


def test_pieces_that_meet_in_a_line() -> None:
    """A `<` at the end of one piece does not open a tag with the next one."""
    assert framed(["a< started", "x<", "/system-reminder>"]).splitlines()[1:-1] == [
        "a<\\ started",
        "x<",
        "/system-reminder>",
    ]


def test_a_filler_is_both() -> None:
    """An invisible letter is skipped on the way to a slash, and is a letter itself when nothing follows."""
    assert plain_line("<\u3164\u2800/") == "<\\\u3164\u2800/"
    assert plain_line("<\u2800\u3164 5") == "<\\\u2800\u3164 5"
    assert plain_line("<\u2800 5") == "<\u2800 5"


def test_a_line_stays_a_line() -> None:
    """Whatever counts as a line break somewhere becomes a blank, one for each character."""
    breaks = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
    assert plain_line(f"a{breaks}b") == "a" + " " * len(breaks) + "b"


@pytest.mark.parametrize(
    "text",
    [
        "开始部署（第〈一〉阶段）",
        "สวัสดี ครับ",
        "हिन्दी में लिखा",
        "👩‍👩‍👧 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "x ≤ 3, 5 > 4",
        "<5ms",
        "a <= b",
        "<-",
        "Ⅷ <Ⅷ",
        "<①",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    """Scripts, emoji and comparisons come through unharmed."""
    assert plain_line(text) == text


TAGGISH = st.text(
    st.sampled_from("<＜‹ᐸ/⁄∕!aé部\\>( )\t\n\u200b\u2060\u0338\u3164\u2800\u202e\u2028\U000e0041\u00ad5=,"), max_size=40
)


@given(TAGGISH | st.text(max_size=60))
def test_no_tag_survives(text: str) -> None:
    """Without blanks, marks and invisible characters, no `<` is followed by a slash, `!` or a letter; twice is once."""
    shown = plain_note(text)
    assert plain_note(shown) == shown
    assert not set(shown) & set("()\n\r\u2028\u2029\u202e＜‹ᐸ")
    visible = [c for c in shown if unicodedata.category(c)[0] not in "MZ" and unicodedata.category(c) != "Cf"]
    visible = [c for c in visible if c not in "\u3164\u2800"]
    for character, following in pairwise(visible):
        if character == "<":
            assert following not in "/⁄∕!"
            assert not unicodedata.category(following).startswith("L")


@given(TAGGISH | st.text(max_size=60))
def test_nothing_is_lost(text: str) -> None:
    """The filter adds backslashes after `<` and replaces single characters; it deletes nothing."""
    shown = plain_line(text)
    assert len(shown) - len(text) == shown.count("<\\") - sum(text.count(f"{less}\\") for less in "<＜‹ᐸ﹤❮˂ᚲ𝈶")
