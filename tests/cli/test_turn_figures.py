"""What a turn took, as `run`, `chat` and `show` say it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dsh_hookspecs import (
    AssistantMessage,
    ChatMessage,
    Event,
    Payload,
    Timing,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    Usage,
)
from dsh_time.cli.turn_figures import TurnFigures


def answer(usage: Usage | None = None, timing: Timing | None = None) -> AssistantMessage:
    message = ChatMessage("m", "assistant", (), {"kind": "model"})
    return AssistantMessage(turn=1, step=1, message=message, usage=usage, timing=timing)


def figures(*timed: tuple[int, Payload]) -> TurnFigures:
    result = TurnFigures()
    for seq, (time, data) in enumerate(timed):
        result.take(Event(seq, time, data))
    return result


START, END = TurnStart(turn=1), TurnEnd(turn=1, reason=TurnEndReason(kind="completed"))


def test_tokens_are_summed_the_first_output_is_that_of_the_first_request_and_the_time_that_of_the_turn() -> None:
    shown = figures(
        (1_000, START),
        (1_500, answer(Usage(100, 50, 3), Timing(420, 500))),
        (2_000, answer()),
        (4_250, answer(Usage(300, 250, 4), Timing(9_000, 9_100))),
        (4_500, END),
    )
    assert str(shown) == "tokens: 400 input (300 cached, 75%), 7 output · first output after 0.4 s · 3.5 s"
    assert shown.to_json() == {
        "usage": {"inputTokens": 400, "cachedTokens": 300, "outputTokens": 7},
        "firstOutputSeconds": 0.42,
        "seconds": 3.5,
    }


@pytest.mark.parametrize(
    ("timed", "said"),
    [
        ([(5, START), (5, END)], "tokens not counted · 0.0 s"),
        (
            [(5_000, START), (5_000, answer(Usage(0, 0, 2))), (1_000, END)],
            "tokens: 0 input (0 cached), 2 output · 0.0 s",
        ),
    ],
)
def test_what_is_not_known_is_left_out_and_no_time_is_negative(timed: Sequence[tuple[int, Payload]], said: str) -> None:
    assert str(figures(*timed)) == said


def test_without_a_request_json_has_nulls() -> None:
    assert figures((5, START), (5, END)).to_json() == {"usage": None, "firstOutputSeconds": None, "seconds": 0.0}
