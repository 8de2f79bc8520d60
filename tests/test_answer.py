"""Collecting a model's stream."""

from typing import Any, cast

import pytest

from dsh_hookspecs import (
    Finished,
    ModelDelta,
    ModelError,
    ReasoningBlock,
    ReasoningDelta,
    Retrying,
    TextBlock,
    TextDelta,
    Timing,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
)
from dsh_time.answer import MAX_CHARACTERS, Answer


def collected(*deltas: ModelDelta) -> Answer:
    answer = Answer(lambda: 0.0)
    for delta in deltas:
        answer.add(delta)
    return answer


def test_pieces_of_one_kind_are_joined_and_blocks_stand_in_the_order_they_began() -> None:
    answer = collected(
        ReasoningDelta("I "),
        ReasoningDelta("think", replay="sig"),
        TextDelta("Let "),
        TextDelta("me."),
        ToolCallDelta(0, "a", "{"),
        ToolCallDelta(1, "b"),
        ToolCallDelta(0, "", "}"),
        TextDelta("More."),
    )
    assert answer.content(lambda n: f"c{n}") == (
        ReasoningBlock("I think", "sig"),
        TextBlock("Let me."),
        ToolCallBlock("c1", "a", "{}"),
        ToolCallBlock("c2", "b", ""),
        TextBlock("More."),
    )


def test_a_prefix_keeps_text_and_reasoning_but_no_call_that_may_lack_a_part() -> None:
    answer = collected(TextDelta("half"), ToolCallDelta(0, "a", '{"x'))
    assert answer.prefix() == (TextBlock("half"),)


def test_empty_pieces_make_no_block() -> None:
    assert collected(TextDelta(""), ReasoningDelta(""), Retrying(2, 0.5, "busy")).content(str) == ()


def test_the_end_of_the_stream_says_why_it_stopped_and_what_it_used() -> None:
    answer = collected(Finished("max-tokens", Usage(input_tokens=3)))
    assert (answer.stop_reason, answer.usage) == ("max-tokens", Usage(input_tokens=3))
    assert collected(TextDelta("x")).stop_reason is None


@pytest.mark.parametrize("delta", [TextDelta("y"), ReasoningDelta("", "y"), ToolCallDelta(0, "y")])
def test_an_answer_that_would_not_fit_a_line_of_the_log_is_cut_off_with_an_error(delta: ModelDelta) -> None:
    answer = collected(ReasoningDelta("", "r" * 1000), TextDelta("x" * (MAX_CHARACTERS - 1002)))
    with pytest.raises(ModelError, match="output token limit"):
        answer.add(delta)


def test_what_is_no_piece_of_an_answer_is_an_error_of_the_model() -> None:
    nonsense: Any = "text"
    with pytest.raises(ModelError, match="gave str, which is no piece of an answer"):
        collected(nonsense)


@pytest.mark.parametrize(
    "delta",
    [
        TextDelta(cast(Any, None)),
        TextDelta(cast(Any, b"bytes")),
        ReasoningDelta("a", cast(Any, 5)),
        ToolCallDelta(0, cast(Any, None), "{}"),
        ToolCallDelta(0, "a", cast(Any, {})),
        TextDelta("x" * (MAX_CHARACTERS + 1)),
    ],
)
def test_a_piece_that_is_refused_leaves_what_was_said_before_it(delta: ModelDelta) -> None:
    answer = collected(TextDelta("before"))
    with pytest.raises(ModelError):
        answer.add(delta)
    assert answer.prefix() == (TextBlock("before"),)
    assert answer.content(str) == (TextBlock("before"),)


@pytest.mark.parametrize(
    "end",
    [
        Finished(cast(Any, "weird")),
        Finished(cast(Any, None)),
        Finished(cast(Any, ["end"])),
        Finished("end", cast(Any, "many")),
        Finished("end", Usage(cast(Any, 1.0))),
        Finished("end", Usage(cast(Any, None))),
        Finished("end", Usage(2**63)),
    ],
)
def test_an_end_that_a_log_could_not_give_back_is_an_error_of_the_model(end: Finished) -> None:
    answer = collected(TextDelta("said"))
    with pytest.raises(ModelError, match="The model's stream"):
        answer.add(end)
    assert answer.stop_reason is None
    assert answer.prefix() == (TextBlock("said"),)


def test_times_are_measured_from_the_start_to_the_first_piece_and_to_the_end() -> None:
    seconds = iter([10.0, 10.25, 11.5, 11.5])
    answer = Answer(lambda: next(seconds))
    answer.add(TextDelta("x"))
    answer.add(TextDelta("y"))
    assert answer.timing == Timing(first_output_ms=250, total_ms=1500)
