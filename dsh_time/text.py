"""Text on its way to a terminal: what could move the cursor, reorder a line or hide is made visible."""

from __future__ import annotations

import unicodedata

#: Characters that show as nothing although Unicode calls them marks or letters. (The sixteen plain variation
#: selectors are left alone: they only choose how the character before them looks.)
_BLANK = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, 0xFFA0, *range(0xE0000, 0xE1000)}


class _Shown(dict[int, str | int]):
    """A table for `str.translate` that decides about a character when it first meets it."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        is_space = unicodedata.category(character) == "Zs"  # such as U+3000, which no `isprintable` accepts
        shown: str | int = code if (character.isprintable() or is_space) and code not in _BLANK else _escape(code)
        self[code] = shown
        return shown


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_TEXT = _Shown({ord("\n"): "\n", ord("\t"): "\t"})
_LINE = _Shown({ord("\n"): " ", ord("\t"): " "})


def safe_text(text: str) -> str:
    r"""Return `text` with control, bidirectional and invisible characters as escapes like `\x1b`.

    Line feeds and tabs stay. Each character is treated by itself, so a text may come in pieces.
    """
    return text.translate(_TEXT)


def safe_line(text: str, limit: int | None = None) -> str:
    """Return `text` as one safe line: line feeds and tabs are blanks, and after `limit` characters stands `…`."""
    cut = text if limit is None or len(text) <= limit else text[: max(limit - 1, 0)] + "…"
    return cut.translate(_LINE)
