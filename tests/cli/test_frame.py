"""What all commands share: how they start, where they look, and how they fail."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest
from attrs import frozen
from click.testing import CliRunner

from dsh_hookspecs import hookimpl
from dsh_time.__main__ import main as entry_point
from dsh_time.cli import command_line
from dsh_time.cli.invocation import Invocation
from dsh_time.cli.logging_setup import log_to_stderr
from dsh_time.log import LOG_NAME

from ..kit import source_of
from .conftest import SCRIPT, CommandLine

HEAVY = {"asyncio", "pydantic", "httpx", "openai", "anthropic", "prompt_toolkit"}
Start = Callable[..., "subprocess.Popen[bytes]"]


# How it starts


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "also"),
    [(["--version"], {"attrs", "rich", "cattrs", "ruamel"}), (["--enable", "time-context", "plugins"], {"ruamel"})],
)
def test_version_and_plugins_import_nothing_heavy(arguments: list[str], also: set[str]) -> None:
    code = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"from dsh_time.cli import main; sys.argv[1:] = {arguments!r}; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "0.1.0" in done.stdout
    assert not (HEAVY | also) & set(done.stderr.split())


def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "dsh_time.cli", Interrupted("dsh_time.cli"))
    with pytest.raises(SystemExit) as ended:
        entry_point()
    assert ended.value.code == 130


def test_without_arguments_the_help_is_shown() -> None:
    result = CliRunner().invoke(command_line, [])
    assert result.exit_code == 2
    assert "[OPTIONS] COMMAND [ARGS]" in result.stderr


def test_home_can_come_from_the_environment(tmp_path: Path, dsh_time: CommandLine) -> None:
    done = CliRunner().invoke(command_line, ["run", "hi"], env={"DSH_TIME_HOME": str(tmp_path / "elsewhere")})
    assert done.exit_code == 0, done.stderr
    assert len(list((tmp_path / "elsewhere" / "sessions").iterdir())) == 1


def test_without_home_sessions_lie_where_the_deployment_or_else_the_platform_says(tmp_path: Path) -> None:
    assert Invocation().store.root == tmp_path / "user/data/dsh-time/sessions"
    assert Invocation().history_file == tmp_path / "user/data/dsh-time/history"
    Path("dsh-time.yaml").write_text("sessions: {root: mine}\n")
    assert Invocation().store.root == tmp_path / "cwd/mine"
    assert Invocation(home=tmp_path / "home").store.root == tmp_path / "home/sessions"


# How it fails


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shwo"], "No such command 'shwo'. Did you mean 'show'? See `dsh-time --help`."),
        (["--nonsense", "run", "hi"], "No such option '--nonsense'. See `dsh-time --help`."),
        (["run"], "Missing argument 'PROMPT'. See `dsh-time run --help`."),
        (["run", "one", "two"], "Got unexpected extra argument (two). See `dsh-time run --help`."),
        (["run", " "], "The prompt is empty. See `dsh-time run --help`."),
        (["run", "--continue", "--session", "x", "hi"], "--session and --continue exclude each other."),
        (["chat"], "A chat needs a terminal; `dsh-time run PROMPT` does not."),
        (["run", "--\x1b[31m"], "No such option '--\\x1b[31m'."),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    dsh_time: CommandLine, arguments: list[str], message: str
) -> None:
    result = dsh_time(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not dsh_time.home.exists()


WRONG = {
    "1 MB": ("# " + "x" * 1_000_000, "larger than"),
    "unknown key": ("limits: {maxStep: 3}", "limits.maxStep: unknown key; did you mean maxSteps?"),
    "wrong type": ('limits: {maxSteps: "3"}', "limits.maxSteps"),
    "duplicate key": ("model: {}\nmodel: {}", "model"),
    "alias": ("a: &x 1\nb: *x", "anchor"),
    "unquoted cron": ("plugins: [{name: a, config: {cron: * * * * *}}]", "quote"),
    "bad zone": ("plugins: [{name: dsh-time-context, config: {timeZone: Mars/Olympus}}]", "Mars/Olympus"),
    "no such provider": ("model: {provider: opnai}", "there is no model provider 'opnai'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_deployment_file_is_one_message_with_its_place_and_nothing_is_created(
    dsh_time: CommandLine, case: str
) -> None:
    text, said = WRONG[case]
    Path("wrong.yaml").write_text(text, encoding="utf-8")
    result = dsh_time("--config", "wrong.yaml", "run", "What time is it?")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("Error: ") == 1
    assert said in result.stderr
    assert "wrong.yaml" in result.stderr or case == "no such provider"
    assert "Traceback" not in result.output
    assert not dsh_time.home.exists()


def test_an_unknown_id_in_a_patch_and_an_unknown_plugin_are_errors_with_suggestions(dsh_time: CommandLine) -> None:
    Path("patch.yaml").write_text("- {id: time-contxt, disabled: false}\n")
    result = dsh_time("--patch", "patch.yaml", "run", "hi")
    assert result.exit_code == 1
    assert "patch.yaml:1:4: [0].id: no entry has the id 'time-contxt'; did you mean time-context?" in result.stderr
    result = dsh_time("--enable", "time-contxt", "run", "hi")
    assert result.exit_code == 1
    assert "--enable time-contxt: there is no plugin 'time-contxt'; did you mean time-context?" in result.stderr
    assert not dsh_time.home.exists()


def test_a_bug_is_one_line_and_the_traceback_comes_on_request(
    dsh_time: CommandLine, install: Callable[..., None]
) -> None:
    install("dsh-buggy", COMMANDS.format(body="raise LookupError('\\x1b[2J')"))
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-buggy}]\n")
    result = dsh_time("greet")
    assert result.exit_code == 70
    assert result.stderr == (
        "Error: a bug in dsh-time or a plugin: LookupError: \\x1b[2J. To see where, set DSH_TIME_DEBUG=1 and do it"
        " again.\n"
    )
    assert "Traceback" in dsh_time("greet", env={"DSH_TIME_DEBUG": "1"}).stderr


def test_an_option_that_stands_behind_the_command_is_told_its_place(dsh_time: CommandLine) -> None:
    result = dsh_time("call", "last", "read", "--enable", "x")
    assert result.exit_code == 2
    assert result.stderr == ("Error: No such option '--enable'. It stands before the command: `dsh-time --enable …`.\n")
    assert "It stands before" not in dsh_time("call", "last", "read", "--frobnicate").stderr


def test_a_logged_traceback_keeps_its_lines_and_each_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    end = log_to_stderr(2)
    try:
        raise LookupError("one\nwarning: two\x1b[2J")
    except LookupError as error:
        logging.getLogger("plugin").debug("it\nfailed", exc_info=error)
    finally:
        end()
    [first, second, *_, last_but_one, last] = capsys.readouterr().err.splitlines()
    assert (first, second) == ("debug: it failed", "  Traceback (most recent call last):")
    assert (last_but_one, last) == ("  LookupError: one", "  warning: two\\x1b[2J")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([SCRIPT, "config"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")


@pytest.mark.process
def test_streams_that_are_closed_are_not_missed(tmp_path: Path) -> None:
    command = f"{SCRIPT} --home {tmp_path}/home run hello"
    assert subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], check=False).returncode == 0


def test_what_the_system_refuses_is_one_line_that_names_the_file(
    dsh_time: CommandLine, install: Callable[..., None]
) -> None:
    install("dsh-greeting", COMMANDS.format(body="open('nowhere')"))
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-greeting}]\n")
    result = dsh_time("greet")
    assert (result.exit_code, result.stderr) == (1, "Error: nowhere: No such file or directory\n")


def test_a_command_that_gives_up_is_exit_code_130(dsh_time: CommandLine, install: Callable[..., None]) -> None:
    install("dsh-greeting", COMMANDS.format(body="raise KeyboardInterrupt"))
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-greeting}]\n")
    assert dsh_time("greet").exit_code == 130


@pytest.mark.process
def test_output_that_nobody_reads_ends_the_turn_quietly(start: Start, dsh_time: CommandLine) -> None:
    process = start("run", "--disable", "time-reminder", "hello")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    [session] = dsh_time.sessions.iterdir()
    assert '"kind":"aborted","reason":"output closed"' in (session / LOG_NAME).read_text()


@pytest.mark.process
def test_a_terminal_that_has_only_ascii_gets_escapes(start: Start) -> None:
    process = start("run", "call größe", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.isascii()
    assert b"I cannot read the arguments" in out


def test_colours_are_left_out_where_nobody_wants_them(dsh_time: CommandLine) -> None:
    assert "\x1b[" in dsh_time("nonsense", color=True).stderr
    assert "\x1b[" not in dsh_time("run", "--session", "x", "hi", env={"NO_COLOR": "1"}, color=True).stderr


# Plugins

COMMANDS = """
import click
@frozen(eq=False)
class Sample:
    @hookimpl
    def register_commands(self, group):
        @group.command()
        def greet():
            "Say hello."
            {body}
        @group.command()
        @click.argument("number", type=int)
        def count(number):
            return number
"""


def test_a_plugin_that_a_file_enables_has_its_commands_and_their_help(
    dsh_time: CommandLine, install: Callable[..., None]
) -> None:
    install("dsh-greeting", COMMANDS.format(body="click.echo('hello')"))
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-greeting}]\n")
    assert dsh_time("greet").stdout == "hello\n"
    assert "Say hello." in dsh_time("--help").stdout
    assert dsh_time("count", "5").exit_code == 0  # what a command returns is no exit code
    assert "No such command" in dsh_time("--no-plugins", "greet").stderr
    assert "No such command" in dsh_time("--no-plugins=greeting", "greet").stderr


def test_a_config_file_before_the_help_counts(dsh_time: CommandLine, install: Callable[..., None]) -> None:
    install("dsh-greeting", COMMANDS.format(body="click.echo('hello')"))
    Path("mine.yaml").write_text("plugins: [{name: dsh-greeting}]\n")
    assert "Say hello." in dsh_time("--config", "mine.yaml", "--help").stdout


@pytest.mark.parametrize("text", ["plugins: 5", "plugins: [{name: dsh-broken}]"])
def test_help_comes_with_one_warning_when_plugins_cannot_give_commands(
    dsh_time: CommandLine, install: Callable[..., None], text: str
) -> None:
    hook = "@hookimpl\n    def register_commands(self, group): raise OSError('gone')"
    install("dsh-broken", f"@frozen(eq=False)\nclass Sample:\n    {hook}\n")
    Path("dsh-time.yaml").write_text(text)
    result = dsh_time("--help")
    assert result.exit_code == 0
    assert "run " in result.stdout
    assert result.stderr.count("\n") == 1


def test_a_plugin_that_cannot_be_loaded_is_named_where_its_command_is_missing(
    dsh_time: CommandLine, install: Callable[..., None]
) -> None:
    install("dsh-broken", "raise SystemExit(0)")
    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-broken}]\n")
    done = dsh_time("fly")
    assert done.exit_code == 2
    assert (
        "Commands of plugin dsh-broken are missing: dsh_broken:Sample cannot be imported: SystemExit: 0" in done.stderr
    )


def test_a_plugin_cannot_take_the_name_of_a_command(dsh_time: CommandLine) -> None:
    @frozen(eq=False)
    class Thief:
        @hookimpl
        def register_commands(self, group: click.Group) -> None:
            group.add_command(click.Command("config", callback=lambda: click.echo("stolen")))

    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-thief}]\n")
    line = dsh_time.having(given_sources={"dsh-thief": source_of("dsh-thief", Thief)})
    assert "stolen" not in line("config").stdout
    result = line("--help")
    assert result.exit_code == 0
    assert "which there is already" in result.stderr


def test_what_no_plugins_says_is_told_in_its_own_words(dsh_time: CommandLine, install: Callable[..., None]) -> None:
    install("dsh-one")
    assert "--no-plugins=uno: there is no plugin 'uno'" in dsh_time("--no-plugins=uno", "run", "hi").stderr
    shown = dsh_time("--no-plugins", "--enable", "one", "config").stdout
    assert re.search(r"name: dsh-one .*\n    disabled: true +# --no-plugins\n", shown)


@pytest.mark.parametrize(
    ("options", "enabled"),
    [
        ([], ["dsh-one", "dsh-two"]),
        (["--no-plugins"], []),
        (["--no-plugins=one"], ["dsh-two"]),
        (["--no-plugins", "--enable", "one"], []),
        (["--disable", "two"], ["dsh-one"]),
    ],
)
def test_no_plugins_is_stronger_than_everything_else(
    dsh_time: CommandLine, options: list[str], enabled: list[str]
) -> None:
    @frozen(eq=False)
    class Empty:
        pass

    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-one}, {name: dsh-two}]\n")
    line = dsh_time.having(given_sources={name: source_of(name, Empty) for name in ("dsh-one", "dsh-two")})
    statuses = json.loads(line(*options, "plugins", "--json").stdout)
    assert [status["name"] for status in statuses if status["state"] == "enabled"] == enabled


# Logging


def test_warnings_are_shown_as_one_safe_line_and_more_with_v(dsh_time: CommandLine) -> None:
    @frozen(eq=False)
    class Chatty:
        @hookimpl
        def register_commands(self, group: click.Group) -> None:
            @group.command()
            def log() -> None:
                logging.getLogger("chatty").warning("two\nlines\x1b")
                logging.getLogger("chatty").info("detail")

    Path("dsh-time.yaml").write_text("plugins: [{name: dsh-chatty}]\n")
    line = dsh_time.having(given_sources={"dsh-chatty": source_of("dsh-chatty", Chatty)})
    assert line("log").stderr == "warning: two lines\\x1b\n"
    assert line("-v", "log").stderr == "warning: two lines\\x1b\ninfo: detail\n"
