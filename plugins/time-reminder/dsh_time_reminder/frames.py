"""The `<system-reminder>` frame, and why no text inside it can end it, start one, or look like another line.

One rule instead of a list of tag spellings: in what goes into a frame, whatever could be read as the beginning of a tag
is broken by a backslash. `</system-reminder>` becomes `<\\/system-reminder>`; `<5ms` and every script stay as they are.
The frame's own two lines are the only ones that are not filtered.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_OPEN: Final = "<system-reminder>"
_CLOSE: Final = "</system-reminder>"

_BIDI: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROLS: Final = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) + "\u2028\u2029"
#: Full-width and small less-than sign, and what Unicode lists as confusable with `<`.
_LESS_THAN: Final = "\uff1c\ufe64\u2039\u276e\u02c2\u1438\u16b2\U0001d236"
_SLASHES: Final = "/\uff0f\u2215\u2044\u29f8\u2571\u27cb"
#: Drawn as nothing though they are letters; the braille blank is a symbol.
_FILLERS: Final = "\u115f\u1160\u3164\uffa0"
_BRAILLE_BLANK: Final = "\u2800"
#: Unassigned, and to be drawn as nothing (Unicode's Default_Ignorable_Code_Point).
_IGNORABLE: Final = re.compile("[\u2065\ufff0-\ufff8\U000e0000-\U000e0fff]")

_PLAIN: Final = {ord(c): " " for c in _CONTROLS + _BIDI} | {ord(c): "<" for c in _LESS_THAN}
_ROUND_TO_SQUARE: Final = str.maketrans("()", "[]")


class _Kinds(dict[int, str]):
    """For `str.translate`: what a character is to the rule. Filled as characters come, never past all of Unicode.

    `<` is itself; `/` can follow it in a tag; a blank is skipped between the two; `f` can be both; `.` is the rest.
    """

    def __missing__(self, code: int) -> str:
        self[code] = kind = self._kind(chr(code))
        return kind

    @staticmethod
    def _kind(character: str) -> str:
        category = unicodedata.category(character)
        if character == "<":
            return "<"
        if character in _FILLERS:
            return "f"
        if character in _SLASHES or character == "!" or category[0] == "L":
            return "/"
        skipped = category[0] in "MZ" or category in ("Cc", "Cf") or character == _BRAILLE_BLANK
        return " " if skipped or _IGNORABLE.match(character) else "."


_KINDS: Final = _Kinds()
_TAG: Final = re.compile("<(?=[ f]*[/f])")


def plain_line(text: str) -> str:
    """`text` as one line that holds no beginning of a tag. Filtering twice changes nothing more.

    Each line break, control or bidi character becomes one blank, each look-alike of `<` becomes `<`. A `<` gets a
    backslash where, skipping blanks, combining marks and invisible characters, a slash, `!` or a letter comes next.
    """
    text = text.translate(_PLAIN)
    pieces, done = [], 0
    for tag in _TAG.finditer(text.translate(_KINDS)):
        pieces.append(text[done : tag.end()])
        done = tag.end()
    return "\\".join([*pieces, text[done:]])


def plain_note(text: str) -> str:
    """A note as it is shown inside a frame: like `plain_line`, with square brackets for round ones.

    A note stands in round brackets, so it cannot close them and go on as another counter.
    """
    return plain_line(text).translate(_ROUND_TO_SQUARE)


def framed(lines: Iterable[str]) -> str:
    """The frame around finished body lines, each filtered once more: harmless pieces may make a tag side by side."""
    return "\n".join([_OPEN, *map(plain_line, lines), _CLOSE])
