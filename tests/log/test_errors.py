"""What a user is told when a log cannot be used."""

from pathlib import Path

import pytest

from dsh_time import errors
from dsh_time.errors import BadPayload, DshTimeError, LogError, SessionNotFound, UnknownEventType


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (UnknownEventType(Path("/r/s1/log.jsonl"), "plan/made", 7), ["event 7", "'plan/made'", "dsh-time salvage s1"]),
        (
            BadPayload(Path("/r/s1/log.jsonl"), "turn/end", 9, "Expected `int`"),
            ["event 9", "turn/end", "Expected `int`"],
        ),
        (SessionNotFound(Path("/r/s1")), ["/r/s1", "dsh-time sessions"]),
    ],
)
def test_an_error_names_the_thing_and_the_next_step(error: LogError, parts: list[str]) -> None:
    """R22, R26."""
    assert all(part in str(error) for part in parts)


def test_one_root_catches_all_and_the_tree_in_the_docstring_is_whole() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DshTimeError)]
    tree = errors.__doc__ or ""
    assert all(f"{kind.__name__} " in tree or f"{kind.__name__}\n" in tree for kind in kinds)
