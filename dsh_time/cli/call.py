"""`dsh-time call`: run a tool by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .exit_codes import ExitCode
from .ids import find_session
from .invocation import Invocation, pass_invocation
from .output import say

if TYPE_CHECKING:
    from msgspec import Struct

    from dsh_hookspecs import ToolResult


@click.command()
@click.argument("session")
@click.argument("tool")
@click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--json", "written", metavar="OBJECT", help="The arguments as one JSON object, passed on as it is.")
@click.pass_context
@pass_invocation
def call(
    invocation: Invocation,
    context: click.Context,
    /,
    *,
    session: str,
    tool: str,
    arguments: tuple[str, ...],
    written: str | None,
) -> None:
    """Run a TOOL of an enabled plugin in a SESSION. It is logged; the model does not see it.

    What a VALUE is (a text, a number, a list in JSON) is decided by the tool. Exits with 1 when the tool failed.
    SESSION is an id, the beginning of one, or `last`.
    """
    harness = invocation.harness()
    session_id = find_session(harness.store, session)
    tools = harness.plugins.loadout.tools
    if tool not in tools:
        raise click.UsageError(f"There is no tool {tool!r}. Tools: {', '.join(tools) or 'none'}.", context)
    if written is None:
        written = encode_arguments(tools[tool].tool.arguments, arguments)
    elif arguments:
        raise click.UsageError("Give the arguments as KEY=VALUE or with --json, not both.", context)

    async def run() -> ToolResult:
        async with harness:
            return await harness.open(session_id).call_tool(tool, written)

    result = asyncio.run(run()).result
    say(result.text)
    context.exit(ExitCode.ERROR if result.is_error else ExitCode.OK)


def encode_arguments(cls: type[Struct], words: Sequence[str]) -> str:
    """Return `KEY=VALUE` words as the JSON of a tool's arguments.

    A value is a text where the argument takes that text, else JSON (`2`, `true`, a list), else a text all the same:
    then the tool says what is wrong with it. Raises UsageError for a word without `=`, an unknown key, and a key that
    is given twice.
    """
    import msgspec

    from dsh_time.log import clean_text

    types = {info.encode_name: info.type for info in msgspec.structs.fields(cls)}
    values: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(f"{word!r} is no argument of a tool: write KEY=VALUE.")
        if key not in types:
            raise click.UsageError(f"The tool has no argument {key!r}. It has: {', '.join(types) or 'none'}.")
        if key in values:
            raise click.UsageError(f"The argument {key!r} is given twice.")
        values[key] = _typed(clean_text(value)[0], types[key])
    return msgspec.json.encode(values).decode()


def _typed(text: str, wanted: object) -> object:
    import msgspec

    try:
        return msgspec.to_builtins(msgspec.convert(text, wanted))
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
