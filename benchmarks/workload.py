"""What every benchmark runs: the same texts, the same turn, for this project and for its peers.

A turn is a user's message, a model request that answers with one tool call, the call, and a request that answers with
text: two requests, four stored messages of about 300 characters each. Nothing here imports anything but the standard
library, because the peers' environments run it too.
"""

from __future__ import annotations

MESSAGES_PER_TURN = 4

_WORDS = "the quick survey of harbour lights showed that seven lamps need new lenses before winter sets in; "


def text(number: int, role: str) -> str:
    """Return a text of 300 characters, different for each number and role."""
    start = f"{role} {number}: "
    return (start + _WORDS * 4)[:300]


def question(turn: int) -> str:
    """What the user says."""
    return text(turn, "user")


def query(turn: int) -> str:
    """What the model passes to the tool; with its JSON around it, the call has 300 characters."""
    return text(turn, "query")[:288]


def found(turn: int) -> str:
    """What the tool gives back."""
    return text(turn, "found")


def answer(turn: int) -> str:
    """What the model says in the end."""
    return text(turn, "answer")
