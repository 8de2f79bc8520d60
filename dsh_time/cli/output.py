"""How commands print. Whatever may come from a log, a model or a plugin goes through `safe_text` here or before.

Output is flushed at once, has colours only where it is a terminal (and NO_COLOR is not set), and follows a stream that
a test or the chat has replaced. The encoding is the stream's own: `main` makes it show what it lacks as escapes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

from dsh_time.text import safe_line, safe_text


def say(text: str = "", *, newline: bool = True) -> None:
    """Print text that may hold anything to standard output."""
    _print(safe_text(text), newline=newline)


def say_styled(text: str) -> None:
    """Print text that is safe already, with `click.style` in it."""
    _print(text)


def note(text: str) -> None:
    """Print one dim line to standard error: what goes on beside the result."""
    _print(click.style(safe_line(text), dim=True), to_stderr=True)


def complain(text: str) -> None:
    """Print an error to standard error."""
    _print(f"{click.style('Error:', fg='red', bold=True)} {safe_text(text)}", to_stderr=True)


def say_json(value: object) -> None:
    """Print a value as one line of JSON, ASCII only, so that no terminal and no encoding can change it."""
    import json

    _print(json.dumps(value, ensure_ascii=True))


def say_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns that are as wide as their widest cell."""
    from rich.cells import cell_len

    lines = [[safe_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        _print("  ".join(cells).rstrip())


def _print(text: str, *, newline: bool = True, to_stderr: bool = False) -> None:
    # The stream is named because click would write UTF-8 to one that is ASCII.
    color = False if os.environ.get("NO_COLOR") else None
    click.echo(text, file=sys.stderr if to_stderr else sys.stdout, nl=newline, color=color)
