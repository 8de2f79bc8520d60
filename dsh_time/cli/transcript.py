"""A session's log as people read it: one event in, lines out. Nothing is printed here, and one turn is remembered.

Whatever was logged stands indented, or behind words of ours on the same line. So no text can pass for another speaker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

from attrs import define, field, frozen

from dsh_hookspecs import (
    AssistantMessage,
    ContextMessage,
    Event,
    InboxSpliced,
    PluginError,
    PromptSection,
    ReasoningBlock,
    RequestHeader,
    RequestHeaderDelta,
    SessionSpawned,
    SteeringMessage,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolSchema,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from dsh_hookspecs.timefmt import InstantOutOfRange, instant_at
from dsh_time.errors import BadPayload, LogError, UnknownEventType
from dsh_time.fold_set import decode_event
from dsh_time.folds import Inbox
from dsh_time.log import Record, SessionHeader, read_side_file
from dsh_time.text import safe_line, safe_text

from .turn_figures import TurnFigures

_SHOWN_LINES: Final = 8
_SHOWN_CHARACTERS: Final = 800
#: Of logged text, and of our own words about it: less, so that text cannot pass for them.
_INDENT: Final = "    "
_ASIDE: Final = "  "

Style = Literal["", "rule", "user", "assistant", "tool", "aside", "warning", "error"]


@frozen
class Line:
    """One line, safe for a terminal. `style` says what it is, for colours."""

    text: str
    style: Style = ""


@define
class Transcript:
    """Turns the records of the log in `directory`, given in order, into lines. `full`: nothing is collapsed."""

    directory: Path
    full: bool = False
    _turn: int = 0
    _open: bool = False
    _figures: TurnFigures = field(factory=TurnFigures)
    _inbox: Inbox = field(factory=Inbox)
    #: Names of this turn's calls by id: a result has only the id.
    _calls: dict[str, str] = field(factory=dict)
    #: The date that was shown last.
    _date: str = ""

    def heading(self, header: SessionHeader) -> Iterator[Line]:
        """What the log's first line says."""
        yield Line(f"session {header.id} · created {stamp(header.created_at)}", "rule")
        if header.parent_session is not None:
            yield Line(f"child of {header.parent_session}", "aside")
        if header.forked_from is not None:
            yield Line(f"copy of {header.forked_from}, which gave its first {header.seed_length} events", "aside")

    def lines(self, record: Record) -> Iterator[Line]:
        """The lines of the next record; none for one that tells people nothing."""
        try:
            event = decode_event(record, self.directory)
        except UnknownEventType as error:
            yield Line(f"event {error.seq} has the unknown type {safe_line(error.type, 80)}; --raw shows it", "error")
        except BadPayload as error:
            reason = safe_line(error.reason, 200)
            yield Line(
                f"event {error.seq} ({error.type}) has data of the wrong shape ({reason}); --raw shows it", "error"
            )
        else:
            if event is not None:
                yield from self._event(event)

    def end(self) -> Iterator[Line]:
        """What is left open where the log ends."""
        if self._open:
            yield Line(f"── turn {self._turn} is open: it still runs, or its process ended in the middle", "warning")
        for entry in (*self._inbox.next_turn, *self._inbox.next_step):
            yield Line(f"waiting ({entry.delivery}): {safe_line(entry.message.text, 100)}", "warning")

    def _event(self, event: Event) -> Iterator[Line]:
        if isinstance(event.data, TurnStart):
            self._figures = TurnFigures()
        self._figures.take(event)
        match event.data:
            case TurnStart(turn=turn):
                yield from self._turn_start(event, turn)
            case TurnEnd(reason=reason):
                yield self._turn_end(reason)
            case UserMessage() | SteeringMessage() | ContextMessage() as message:
                yield from self._message(event, message)
            case AssistantMessage() as answer:
                yield from self._answer(event, answer)
            case ToolCall() as call:
                self._calls[call.id] = call.name
                by = ", by the user" if call.issuer == "user" else ""
                arguments = safe_line(call.arguments, None if self.full else 200)
                yield self._said(event, f"call {safe_line(call.name, 80)}{by}: {arguments}", "tool")
            case ToolResult() as result:
                yield from self._result(event, result)
            case RequestHeader() | RequestHeaderDelta() as change:
                yield from self._header(event, change)
            case SessionSpawned(id=child):
                yield self._said(event, f"child session {safe_line(child, 80)}", "aside")
            case PluginError() as error:
                what = safe_line(f"{error.plugin} failed in {error.hook}: {error.error}: {error.message}", 500)
                yield self._said(event, f"plugin {what}", "error")
            case InboxSpliced():
                self._inbox = self._inbox.apply(event)

    def _turn_start(self, event: Event, turn: int) -> Iterator[Line]:
        self._turn, self._open, self._calls = turn, True, {}
        self._date = stamp(event.time)[:10]
        yield Line("")
        yield Line(f"── turn {turn} · {stamp(event.time)}", "rule")

    def _turn_end(self, reason: TurnEndReason) -> Line:
        self._open = False
        style: Style = "aside" if reason.kind == "completed" else "warning"
        return Line(f"── turn {self._turn} {_ending(reason)} · {self._figures}", style)

    def _message(self, event: Event, message: UserMessage | SteeringMessage | ContextMessage) -> Iterator[Line]:
        kind = str(message.source.get("kind", "?"))
        if kind != "user" or isinstance(message, ContextMessage):
            summary = message.source.get("summary") or message.source.get("form") or message.text
            yield self._said(event, f"{safe_line(kind, 80)} · {safe_line(str(summary), 160)}", "aside")
            if self.full:
                yield from text_lines(message.text, "aside")
        else:
            yield self._said(event, "user, steering" if isinstance(message, SteeringMessage) else "user", "user")
            yield from text_lines(message.text)

    def _answer(self, event: Event, answer: AssistantMessage) -> Iterator[Line]:
        yield self._said(event, "assistant, broken off" if answer.interrupted else "assistant", "assistant")
        for block in answer.message.content:
            if isinstance(block, TextBlock):
                yield from text_lines(block.text)
            elif isinstance(block, ReasoningBlock):
                count = len(block.text)
                yield Line(f"{_ASIDE}(reasoning, {count} characters)", "aside")
                if self.full:
                    yield from text_lines(block.text, "aside")
            elif isinstance(block, ToolCallBlock):
                self._calls[block.id] = block.name

    def _result(self, event: Event, data: ToolResult) -> Iterator[Line]:
        result = data.result
        style: Style = "error" if result.is_error else "tool"
        name = safe_line(self._calls.get(result.id, result.id), 80)
        yield self._said(event, f"{'error' if result.is_error else 'result'} of {name}", style)
        text = result.text
        if self.full and data.output is not None:
            try:
                text = read_side_file(self.directory, data.output.file).decode("utf-8", "replace")
            except LogError as error:
                yield Line(f"{_ASIDE}({safe_line(str(error))})", "error")
        yield from text_lines(text) if self.full else _beginning(text)

    def _header(self, event: Event, change: RequestHeader | RequestHeaderDelta) -> Iterator[Line]:
        if isinstance(change, RequestHeader):
            header = change.header
            sections, tools = header.system, header.tools
            names = [f"{plugin.name} {plugin.version}" for plugin in header.loadout]
            model = " ".join(str(header.config[key]) for key in ("provider", "model") if key in header.config)
            parts = [model, _listed("sections", [s.name for s in sections]), _listed("tools", [t.name for t in tools])]
            parts.append(_listed("plugins", names))
        else:
            sections = change.system.changed if change.system else ()
            tools = change.tools.changed if change.tools else ()
            gone = (*(change.system.removed if change.system else ()), *(change.tools.removed if change.tools else ()))
            parts = [_listed("changed", [*(s.name for s in sections), *(t.name for t in tools)])]
            parts += [_listed("gone", gone), "settings changed" if change.config is not None else ""]
            if change.loadout is not None:
                parts.append(_listed("plugins", [f"{plugin.name} {plugin.version}" for plugin in change.loadout]))
        yield self._said(event, f"request · {safe_line('; '.join(filter(None, parts)))}", "aside")
        if self.full:
            yield from header_lines(sections, tools)

    def _said(self, event: Event, what: str, style: Style) -> Line:
        """A line that says who did something, and when; with the date when it is another than before."""
        moment = stamp(event.time)
        if moment[:10] == self._date:
            moment = moment[11:19]
        else:
            self._date = moment[:10]
        replaced = event.replaces
        where = f" (in place of events {replaced.start} to {replaced.end})" if replaced is not None else ""
        return Line(f"{moment} {what}{where}", style)


def stamp(epoch_ms: int) -> str:
    """An instant in the system's zone: `2026-07-14 16:30:00+08:00`; milliseconds for one that no calendar holds."""
    try:
        return instant_at(epoch_ms).astimezone().isoformat(" ", "seconds")
    except (InstantOutOfRange, OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"


def text_lines(text: str, style: Style = "") -> Iterator[Line]:
    """A logged text, indented; a line end at its very end makes no line."""
    for line in text.removesuffix("\n").split("\n"):
        yield Line(f"{_INDENT}{safe_text(line)}".rstrip(), style)


def header_lines(sections: Iterable[PromptSection], tools: Iterable[ToolSchema]) -> Iterator[Line]:
    """The system prompt's sections and the tools."""
    for section in sections:
        yield Line(f"{_ASIDE}[{safe_line(section.name)}]", "aside")
        yield from text_lines(section.text, "aside")
    for tool in tools:
        yield Line(f"{_ASIDE}tool {safe_line(tool.name)}: {safe_line(tool.description)}", "aside")


def _beginning(text: str) -> Iterator[Line]:
    """The first lines of a text, and how much more there is."""
    shown = "\n".join(text[:_SHOWN_CHARACTERS].split("\n")[:_SHOWN_LINES])
    yield from text_lines(shown)
    if len(shown) < len(text):
        yield Line(f"{_ASIDE}… {len(text) - len(shown)} more characters (--full)", "aside")


def _listed(title: str, names: Iterable[str]) -> str:
    joined = ", ".join(names)
    return f"{title}: {joined}" if joined else ""


def _ending(reason: TurnEndReason) -> str:
    """`completed`, or what else it was, with all that is known of it."""
    known = (reason.plugin, reason.reason, reason.type, reason.message)
    return safe_line(": ".join((reason.kind, *filter(None, known))), 500)
