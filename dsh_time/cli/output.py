"""How commands print. Whatever may come from a log, a model or a plugin goes through `safe_text` here or before.

Everything is printed with `click.echo`, which flushes, drops colours where the output is no terminal, and follows a
stream that a test or the chat has replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from dsh_time.text import safe_line, safe_text


def say(text: str = "", *, newline: bool = True) -> None:
    """Print text that may hold anything to standard output."""
    click.echo(safe_text(text), nl=newline)


def note(text: str) -> None:
    """Print one dim line to standard error: what goes on beside the result."""
    click.echo(click.style(safe_line(text), dim=True), err=True)


def complain(text: str) -> None:
    """Print an error to standard error."""
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {safe_text(text)}", err=True)


def say_json(value: object) -> None:
    """Print a value as one line of JSON, ASCII only, so that no terminal and no encoding can change it."""
    import json

    click.echo(json.dumps(value, ensure_ascii=True))


def say_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns that are as wide as their widest cell."""
    from rich.cells import cell_len

    lines = [[safe_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
