"""What is wrong with data that a person wrote: a Problem, and the words to say it with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import attrs

#: Where a value stands in plain data: mapping keys and list indices, outermost first.
Keys = tuple[str | int, ...]

_SHOWN_CHARACTERS = 60


@attrs.frozen
class Problem:
    """One thing that is wrong.

    `keys` lead to the value, below `where` (a path such as `plugins[0].config`, or empty). `value` is what
    was refused, None for one that may be a secret. `place` is `FILE:LINE:COLUMN`, as much of it as is known.
    """

    keys: Keys
    message: str
    value: object = None
    where: str = ""
    place: str = ""

    @property
    def path(self) -> str:
        """The place in the data as a person reads it: `plugins[0].config.refreshIntervalMs`."""
        return format_path(self.keys, self.where)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


def format_path(keys: Iterable[str | int], where: str = "") -> str:
    """Return keys as a path below `where`; a key that is not a plain word is quoted."""
    path = where
    for key in keys:
        if isinstance(key, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{,59}", key):
            path += f".{key}" if path else key
        else:
            path += f"[{describe(key)}]"
    return path


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean X?` for the choice closest to `word` (letter case, `-` and `_` aside), or an
    empty text.
    """
    by_plain = {_plain(choice): choice for choice in choices}
    close = get_close_matches(_plain(word[:_SHOWN_CHARACTERS]), by_plain, n=1)
    return f"; did you mean {by_plain[close[0]]}?" if close else ""


def is_secret(keys: Iterable[str | int]) -> bool:
    """Whether the value under `keys` may be a secret, which no error and no print may show."""
    endings = ("apikey", "token", "secret", "password")
    return any(isinstance(key, str) and _plain(key).endswith(endings) for key in keys)


def describe(value: object) -> str:
    """Return a short, printable account of a plain value, for error messages."""
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    shown = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
