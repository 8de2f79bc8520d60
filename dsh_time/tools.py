"""Runs tool calls: finds the tool, checks the arguments, runs the body within its time, and caps what it says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping

import msgspec
from attrs import evolve, frozen

from dsh_hookspecs import (
    TOOL_OUTCOME_UNKNOWN,
    ToolContext,
    ToolError,
    ToolFailure,
    ToolOutput,
)

from .errors import text_of
from .loadout import OwnedTool
from .threads import in_thread


@frozen
class Outcome:
    """What a call came to. `failure` is None exactly when the output is no error."""

    output: ToolOutput
    failure: ToolFailure | None = None
    #: Whether a tool's body was asked; hooks see only those.
    ran: bool = False


@frozen
class PreparedCall:
    """A call whose arguments were checked: it can run."""

    tool: OwnedTool
    arguments: msgspec.Struct


def failed(text: str, name: str, code: str) -> Outcome:
    """Return an outcome of a call that did not run."""
    return Outcome(ToolOutput(text, is_error=True), ToolFailure(name=name, code=code))


def prepare(tools: Mapping[str, OwnedTool], name: str, arguments: str, argument_bytes: int) -> PreparedCall | Outcome:
    """Find the tool and check the arguments: JSON of at most `argument_bytes` bytes; empty text means none."""
    if (tool := tools.get(name)) is None:
        known = ", ".join(tools) or "none"
        return failed(f"There is no tool {name!r}. Tools: {known}.", "UnknownTool", "UNKNOWN_TOOL")
    size = len(arguments.encode("utf-8", "replace"))
    if size > argument_bytes:
        text = f"The arguments of {name} have {size} bytes, at most {argument_bytes} are taken. Send less."
        return failed(text, "ArgumentsTooLarge", "INVALID_ARGUMENTS")
    try:
        checked = msgspec.json.decode(arguments.strip() or "{}", type=tool.tool.arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return failed(f"Wrong arguments for {name}: {error}", type(error).__name__, "INVALID_ARGUMENTS")
    except Exception as error:  # a Struct's own checks, in __post_init__
        return failed(f"Wrong arguments for {name}: {text_of(error)}", type(error).__name__, "INVALID_ARGUMENTS")
    return PreparedCall(tool, checked)


async def run(call: PreparedCall, context: ToolContext, timeout_s: float) -> Outcome:
    """Run a tool's body. Never raises an Exception: every failure is an outcome the model can read.

    A body that does not end in time goes on in its thread, or is cancelled when it is async; either way nobody knows
    what it did, and the outcome says so.
    """
    tool = call.tool.tool
    limit = timeout_s if tool.timeout_s is None else tool.timeout_s
    body = asyncio.ensure_future(_body(call, context))
    try:
        done, _ = await asyncio.wait({body}, timeout=limit)
    except BaseException:
        body.cancel()
        raise
    if not done:
        body.cancel()
        body.add_done_callback(_retrieve)
        text = (
            f"{TOOL_OUTCOME_UNKNOWN}: {tool.name} did not end within {limit:g} s. It may still be running, "
            "and what it did is unknown. Check before calling it again."
        )
        return Outcome(ToolOutput(text, is_error=True), ToolFailure("ToolTimeout", TOOL_OUTCOME_UNKNOWN), ran=True)
    try:
        answer = body.result()
    except asyncio.CancelledError:
        return _raised(tool.name, "CancelledError", "the tool cancelled itself")
    except ToolError as error:
        return Outcome(ToolOutput(text_of(error), is_error=True), ToolFailure("ToolError", "TOOL_ERROR"), ran=True)
    except Exception as error:
        return _raised(tool.name, type(error).__name__, text_of(error))
    if isinstance(answer, str):
        answer = ToolOutput(answer)
    if not isinstance(answer, ToolOutput) or not isinstance(answer.text, str):
        return _raised(tool.name, "TypeError", f"the tool returned {type(answer).__name__}, not str or ToolOutput")
    wake: object = answer.wake
    if not isinstance(wake, tuple) or not all(isinstance(session, str) for session in wake):
        return _raised(tool.name, "TypeError", "the tool returned a ToolOutput whose wake is no tuple of session ids")
    failure = ToolFailure("ToolError", "TOOL_ERROR") if answer.is_error else None
    text = str.__str__(answer.text)  # a subclass of str may do anything, for example when it is encoded
    return Outcome(evolve(answer, text=text, is_error=failure is not None), failure, ran=True)


def _raised(tool: str, error: str, message: str) -> Outcome:
    text = f"{tool} failed with {error}: {message}" if message else f"{tool} failed with {error}."
    return Outcome(ToolOutput(text, is_error=True), ToolFailure(error, "TOOL_EXCEPTION"), ran=True)


async def _body(call: PreparedCall, context: ToolContext) -> object:
    run_tool = call.tool.tool.run
    if inspect.iscoroutinefunction(run_tool):
        return await run_tool(call.arguments, context)
    answer = await in_thread(lambda: run_tool(call.arguments, context))
    return await answer if inspect.isawaitable(answer) else answer


def _retrieve(task: asyncio.Future[object]) -> None:
    """Take the exception of a body nobody waits for, so that asyncio does not warn of it."""
    if not task.cancelled():
        task.exception()


def cut(text: str, limit: int) -> str:
    """Return the first `limit` bytes of UTF-8 of `text`, cut between characters."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
