"""The command line: `dsh-time [OPTIONS] COMMAND …`. `docs/cli.md` describes it.

Here is what all commands share. A command's module is imported when the command is asked for, and a plugin's commands
only when nothing else has the name, or for `--help`. So this file imports nothing but click.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

import dsh_time

#: Each command and the module here that has it, under the command's name. In the order of `--help`.
_COMMANDS: Mapping[str, str] = {
    "run": "run",
    "chat": "chat",
    "sessions": "sessions",
    "show": "show",
    "request": "show",
    "call": "call",
    "verify": "logs",
    "doctor": "doctor",
    "salvage": "logs",
    "fork": "logs",
    "plugins": "plugins",
    "models": "models",
    "config": "settings",
    "init": "settings",
}


class CommandLine(click.Group):
    """A group that imports its commands when they are needed, and ends the process with one of our exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names for `--help`, our own first."""
        return [*_COMMANDS, *sorted(_plugin_commands(ctx))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None when neither we nor a plugin has it."""
        if (module := _COMMANDS.get(cmd_name)) is None:
            return _plugin_commands(ctx).get(cmd_name)
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begins with. For one that does not exist, suggest the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            known = [*_COMMANDS, *_plugin_commands(ctx)]
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let `--no-plugins` stand alone: click would take the command after it for its value."""
        with_value = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count)
            for name in parameter.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-"):
            if args[at] == "--no-plugins":
                args[at] += "="
            at += 2 if args[at] in with_value else 1
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the command. What it returns is nobody's exit code: only `ctx.exit` sets one."""
        super().invoke(ctx)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit. Errors become one message and an exit code (see `failures`)."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.Abort:
            from .exit_codes import ExitCode

            code = ExitCode.CANCELLED
        except click.ClickException as error:
            from .failures import report_usage

            code = report_usage(error)
        except Exception as error:
            from .failures import report

            code = report(error)
        sys.exit(code)


def _plugin_commands(ctx: click.Context) -> Mapping[str, click.Command]:
    """The commands of the plugins that the files enable. When they cannot be had, that is one warning."""
    found: Mapping[str, click.Command] | None = ctx.meta.get(__name__)
    if found is not None:
        return found
    from attrs import evolve

    from dsh_time.errors import DshTimeError

    from .invocation import Invocation
    from .logging_setup import log_to_stderr
    from .output import note

    own = click.Group()
    for name in _COMMANDS:
        own.add_command(click.Command(name))  # a plugin cannot take their names
    end_logging = log_to_stderr(0)  # the group itself has not begun yet
    try:
        invocation = evolve(
            ctx.find_object(Invocation) or Invocation(),
            config=ctx.params.get("config"),
            patches=ctx.params.get("patches") or (),
            without=ctx.params.get("without") or (),
        )
        host = invocation.plugins(tolerant=True)
        for status in host.statuses():
            if status.state == "failed":
                note(f"Commands of plugin {status.name} are missing: {status.reason}")
        host.add_commands(own)
    except DshTimeError as error:
        note(f"Commands of plugins are missing: {error}")
    finally:
        end_logging()
    found = ctx.meta[__name__] = {name: command for name, command in own.commands.items() if name not in _COMMANDS}
    return found


_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=CommandLine, name="dsh-time", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DSH_TIME_HOME",
    show_envvar=True,
    help="Keep sessions in DIRECTORY/sessions and the chat's history in DIRECTORY/history.",
)
# What comes eagerly is known when `--help` asks plugins for their commands.
@click.option("--config", type=_FILE, is_eager=True, help="Read one more deployment file.")
@click.option("--patch", "patches", type=_FILE, multiple=True, is_eager=True, help="Apply a patch file. Repeatable.")
@click.option("--model", "model_name", metavar="NAME", help="Ask this model: a name in `models`, or PROVIDER:MODEL.")
@click.option("--enable", metavar="PLUGIN", multiple=True, help="Enable a plugin. Repeatable.")
@click.option("--disable", metavar="PLUGIN", multiple=True, help="Disable a plugin. Repeatable.")
@click.option(
    "--no-plugins",
    "without",
    metavar="[=PLUGIN]",
    multiple=True,
    is_eager=True,
    help="Use no plugin, or all but this one, whatever else is said. Repeatable.",
)
@click.option("--force", is_flag=True, help="Write sessions on a network file system, at the risk of their logs.")
@click.option("-v", "--verbose", count=True, help="Say more of what goes on; -vv says all.")
@click.version_option(dsh_time.__version__, prog_name="dsh-time")
@click.pass_context
def command_line(ctx: click.Context, /, verbose: int, **options: Any) -> None:
    """Agents that know what time it is, on one append-only log per session.

    The options here stand before the command.
    """
    from attrs import evolve

    from .invocation import Invocation
    from .logging_setup import log_to_stderr

    ctx.obj = evolve(ctx.ensure_object(Invocation), **options)
    ctx.call_on_close(log_to_stderr(verbose))


def main() -> None:
    """Run the command line of this process: the entry point of `dsh-time`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # whoever started us closed it
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif mode == "w" and isinstance(stream, TextIOWrapper):  # what the encoding lacks is shown as an escape
            stream.reconfigure(errors="backslashreplace")
    command_line.main(prog_name="dsh-time")
