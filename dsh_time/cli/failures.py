"""What a person is told when a command fails: one message that says what to do, and never a traceback."""

from __future__ import annotations

import os
import sys

import click

from dsh_time.errors import DamagedLog, DshTimeError
from dsh_time.text import safe_text

from .exit_codes import ExitCode
from .output import complain


def report_usage(error: click.ClickException) -> ExitCode:
    """Say what is wrong with the command line, and where its help is."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return ExitCode.USAGE
    context = getattr(error, "ctx", None)
    message = error.format_message()
    end = "" if message.endswith((".", "?", "!")) else "."
    hint = f" See `{context.command_path} --help`." if context is not None else ""
    if isinstance(error, click.NoSuchOption) and _stands_before(error.option_name, context):
        hint = f" It stands before the command: `dsh-time {error.option_name} …`."
    complain(message + end + hint)
    return ExitCode(error.exit_code)


def _stands_before(option: str, context: click.Context | None) -> bool:
    """Whether an option that a command lacks is one of those before the command."""
    group = None if context is None or context.parent is None else context.parent.command
    return group is not None and any(option in parameter.opts for parameter in group.params)


def report(error: Exception) -> ExitCode:
    """Say what went wrong. With DSH_TIME_DEBUG in the environment the traceback comes first."""
    if os.environ.get("DSH_TIME_DEBUG"):
        import traceback

        click.echo(safe_text("".join(traceback.format_exception(error))), file=sys.stderr)
    if isinstance(error, DshTimeError):
        complain(str(error))
        return ExitCode.DAMAGED if isinstance(error, DamagedLog) else ExitCode.ERROR
    if isinstance(error, OSError):  # the system refused something, and the file's name is the best we know
        complain(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        return ExitCode.ERROR
    name = type(error).__name__
    complain(f"a bug in dsh-time or a plugin: {name}: {error}. To see where, set DSH_TIME_DEBUG=1 and do it again.")
    return ExitCode.BUG
