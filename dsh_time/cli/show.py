"""`dsh-time show` and `dsh-time request`: what happened in a session, and what its model was sent."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dsh_time.text import safe_line

from .ids import find_session
from .invocation import Invocation, pass_invocation
from .output import note, say_styled

if TYPE_CHECKING:
    from dsh_hookspecs import ModelRequest
    from dsh_time.log import Verdict

    from .transcript import Line, Style

_STYLES: Final[Mapping[Style, Mapping[str, Any]]] = {
    "": {},
    "rule": {"bold": True},
    "user": {"fg": "green", "bold": True},
    "assistant": {"fg": "blue", "bold": True},
    "tool": {"fg": "cyan"},
    "aside": {"dim": True},
    "warning": {"fg": "yellow"},
    "error": {"fg": "red"},
}


@click.command()
@click.argument("session")
@click.option("--full", is_flag=True, help="Show everything: injected context, long tool results, system sections.")
@click.option("--raw", is_flag=True, help="Show the events as they stand in the log, one line of JSON each.")
@pass_invocation
def show(invocation: Invocation, session: str, *, full: bool, raw: bool) -> None:
    """Show what happened in a SESSION, also while it is written.

    A damaged log is shown as far as it can be trusted. SESSION is an id, the beginning of one, or `last`.
    """
    from dsh_time.errors import ConvertedLog
    from dsh_time.log import scan

    store = invocation.store
    directory = store.directory(find_session(store, session))
    if raw:
        verdict = scan(directory, lambda _: None, lambda line: say_styled(safe_json(line.decode())))
    else:
        verdict = _show(directory, full=full)
    error = verdict.error()
    if isinstance(error, ConvertedLog):
        note(str(error))
    elif error is not None:
        raise error
    elif verdict.state == "torn":
        note(f"What follows, from line {verdict.end.line} on, was never promised to be safe: {verdict.reason}.")


def _show(directory: Path, *, full: bool) -> Verdict:
    from dsh_time.log import read_header, scan

    from .transcript import Transcript

    transcript = Transcript(directory, full)
    _say(transcript.heading(read_header(directory)))
    verdict = scan(directory, lambda record: _say(transcript.lines(record)))
    _say(transcript.end())
    return verdict


@click.command()
@click.argument("session")
@click.option("--turn", type=click.IntRange(1), help="Number of the turn.  [default: the newest]")
@click.option("--step", type=click.IntRange(1), default=1, show_default=True, help="Number of the step in the turn.")
@click.option("--pretty", is_flag=True, help="For reading: no JSON.")
@pass_invocation
def request(invocation: Invocation, session: str, *, turn: int | None, step: int, pretty: bool) -> None:
    """Print the exact request that the model was sent, rebuilt from the log.

    It is lines of JSON: the header, then one line per message. A terminal gets characters that it must not see as
    JSON escapes; a file or a pipe gets the very bytes. SESSION is an id, the beginning of one, or `last`.
    """
    from dsh_time.replay import newest_turn, rebuild_request

    store = invocation.store
    directory = store.directory(find_session(store, session))
    rebuilt = rebuild_request(directory, newest_turn(directory) if turn is None else turn, step)
    if pretty:
        _say(_readable(rebuilt))
    elif _to_terminal():
        say_styled(safe_json(rebuilt.encode().decode()).removesuffix("\n"))
    else:
        click.echo(rebuilt.encode(), nl=False)


def safe_json(text: str) -> str:
    r"""Return JSON that means the same, with `\u` escapes for what a terminal must not get or the output cannot hold.

    Such characters stand inside strings only, since JSON has none elsewhere.
    """
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        return character if safe_line(character) == character and not ascii_only else json.dumps(character)[1:-1]

    return re.sub("[^\n\x20-\x7e]", escape, text)


def _readable(asked: ModelRequest) -> Iterable[Line]:
    from dsh_hookspecs import ReasoningBlock, TextBlock, ToolCallBlock

    from .transcript import Line, header_lines, text_lines

    header = asked.header
    yield Line(f"settings: {safe_line(json.dumps(header.config, ensure_ascii=False))}", "rule")
    plugins = ", ".join(f"{plugin.name} {plugin.version}" for plugin in header.loadout)
    yield Line(f"plugins: {safe_line(plugins) or 'none'}", "rule")
    yield from header_lines(header.system, header.tools)
    for number, message in enumerate(asked.messages, start=1):
        yield Line(f"message {number}: {message.role}, from {safe_line(str(message.source.get('kind')))}", message.role)
        for block in message.content:
            if isinstance(block, TextBlock):
                yield from text_lines(block.text)
            elif isinstance(block, ReasoningBlock):
                yield Line("  reasoning:", "aside")
                yield from text_lines(block.text, "aside")
            elif isinstance(block, ToolCallBlock):
                yield Line("  " + safe_line(f"call {block.id}: {block.name} {block.arguments}"), "tool")
            else:
                yield Line(f"  {'error' if block.is_error else 'result'} of {safe_line(block.id)}:", "tool")
                yield from text_lines(block.text)


def _to_terminal() -> bool:
    return sys.stdout.isatty()


def _say(lines: Iterable[Line]) -> None:
    """Print lines in one write."""
    if text := "\n".join(click.style(line.text, **_STYLES[line.style]) for line in lines):
        say_styled(text)
