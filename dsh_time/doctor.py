"""Look a session over: its log, its calls, its files. Mends what can lose nothing, and only when asked."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from attrs import define, evolve, field, frozen

from dsh_hookspecs import AssistantMessage, Event, Payload, ToolCall, ToolCallBlock, ToolResult

from .errors import LogError, SessionLocked, SessionNotFound
from .fold_set import FoldSet, decode_event
from .folds import Turns
from .log import FILES, LOG_NAME, FileIo, Log, Record, Report, scan, verify

Level = Literal["note", "warning", "damage"]


@frozen
class Finding:
    """Something that is not as it should be.

    `kind` is a word for programs, `text` says what and where, `next_step` what to do (empty: nothing). `note`: worth
    knowing; `warning`: to be put right; `damage`: something that was promised to be safe is not what was written.
    """

    level: Level
    kind: str
    text: str
    next_step: str = ""
    #: It was put right just now.
    fixed: bool = False


@frozen
class Checkup:
    """What was found in one session. `events`: how many could be verified."""

    session: str
    events: int
    findings: tuple[Finding, ...]

    @property
    def damaged(self) -> bool:
        """Whether any finding is damage."""
        return any(finding.level == "damage" for finding in self.findings)


def examine(directory: Path, *, fix: bool = False, io: FileIo = FILES, force: bool = False) -> Checkup:
    """Check a session's directory. Every refusal of the log becomes a finding; nothing is raised for one.

    With `fix`, private files are made private again, and, unless anything is damaged, a torn tail is kept beside the
    log and cut off, and temporary files of a crash go. `force` does that on a network file system too.
    """
    findings: list[Finding] = []
    events = 0
    try:
        report = verify(directory, io=io)
        events = report.records
        findings += _of_report(report)
        findings += _of_events(directory, io)
        findings += _of_files(directory, io)
    except SessionNotFound:
        text = f"{directory}: there is no log in it; its making was cut short, or something took the log away"
        findings.append(Finding("warning", "no-log", text, "remove the directory if nothing in it is wanted"))
    except LogError as error:
        findings.append(Finding("damage", "unreadable", str(error)))
    found = Checkup(directory.name, events, tuple(findings))
    return _mended(found, directory, io, force) if fix else found


# -- the log


def _of_report(report: Report) -> Iterator[Finding]:
    if report.state != "ok":
        level: Level = "warning" if report.state in ("pending", "torn") else "damage"
        text = f"{report.path}, byte {report.offset}, line {report.line}: {report.reason}"
        yield Finding(level, f"log-{report.state}", text, report.next_step)
    for name in report.damaged_side_files:
        text = f"{report.path.with_name(name)}: the side file is not what was stored; the log is not affected"
        yield Finding("damage", "side-file", text)


#: What text that looks like a key begins with, or is. What follows is checked for both letters and digits.
_KEYS: Final = re.compile(
    rb"(?<![A-Za-z0-9_-])(?:sk-|gh[opsru]_|github_pat_|AKIA|AIza|xox[abprs]-|glpat-|hf_)[A-Za-z0-9_-]{16,}"
    rb"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
)


@define
class _Calls:
    """Follows calls and results through a log, and what its texts hold."""

    directory: Path
    files: set[str]
    findings: list[Finding] = field(factory=list)
    #: Calls without a result so far, by id; True: the model asked for it.
    waiting: dict[str, bool] = field(factory=dict)
    #: Calls that have a result, by id; True: one that stands in for a real one.
    answered: dict[str, bool] = field(factory=dict)

    def take(self, record: Record) -> Event | None:
        """Look at one line. Raises UnknownEventType and BadPayload."""
        for match in _KEYS.finditer(record.data):
            if match[0].startswith(b"-") or (re.search(rb"[0-9]", match[0]) and re.search(rb"[A-Za-z]", match[0][6:])):
                text = f"event {record.seq} ({record.type}) holds text that looks like a key: {match[0][:6].decode()}…"
                self._warn("key", text, "if it is one, make it worthless where it was issued; the log keeps it")
        event = decode_event(record, self.directory)
        if event is not None:
            self._pair(event.seq, event.data)
        return event

    def _pair(self, seq: int, data: Payload) -> None:
        match data:
            case AssistantMessage(message=message, interrupted=False):
                self.waiting |= {block.id: True for block in message.content if isinstance(block, ToolCallBlock)}
            case ToolCall(id=call, issuer=issuer):
                if issuer == "user":
                    self.waiting[call] = False
                elif call not in self.waiting:
                    self._warn("orphan-call", f"event {seq}: no answer of the model asks for the call {call}")
            case ToolResult() as result:
                self._answer(seq, result)

    def _answer(self, seq: int, result: ToolResult) -> None:
        call = result.result.id
        if result.output is not None and result.output.file not in self.files:
            self._warn("side-file", f"event {seq} names the side file {result.output.file}, which is not there")
        if self.waiting.pop(call, None) is None and not self.answered.get(call):
            reason = "has a result already" if call in self.answered else "is in no answer before it"
            self._warn("orphan-result", f"event {seq} is a result of the call {call}, which {reason}; models ignore it")
        self.answered[call] = result.stands_in

    def _warn(self, kind: str, text: str, next_step: str = "") -> None:
        self.findings.append(Finding("warning", kind, f"{self.directory / LOG_NAME}: {text}", next_step))


def _of_events(directory: Path, io: FileIo) -> list[Finding]:
    calls = _Calls(directory, set(io.names(directory)))
    states = FoldSet(directory)

    def on_record(record: Record) -> None:
        event = calls.take(record)
        if event is not None:
            states.apply(event)

    try:
        verdict = scan(directory, on_record, io=io)
    except LogError as error:
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(error).__name__).lower()
        return [*calls.findings, Finding("damage", kind, str(error))] if kind not in _REPORTED else calls.findings
    if verdict.state == "damaged":
        return calls.findings  # what follows is not known
    turns = states.state(Turns)
    if turns.open:
        text = f"turn {turns.turn} is open: a process is in it, or a crash left it"
        calls.findings.append(Finding("note", "open-turn", f"{directory}: {text}", "resuming the session closes it"))
    else:
        for call, by_model in calls.waiting.items():
            if by_model:
                calls._warn("call-without-result", f"the call {call} has no result; models are told that it is missing")
    return calls.findings


#: What `verify` has said already.
_REPORTED: Final = ("damaged-log", "unsupported-version")


# -- the files


_KNOWN: Final = re.compile(r"log\.jsonl|lock|[0-9a-f]{64}\.side|log\.jsonl\.cut-[0-9]+-[0-9a-f]{16}")


def _of_files(directory: Path, io: FileIo) -> Iterator[Finding]:
    for path in (directory, *sorted(directory / name for name in io.names(directory))):
        status = io.stat_path(path)
        wanted = 0o700 if path == directory else 0o600
        mode = stat.S_IMODE(status.st_mode)
        if path != directory and not stat.S_ISREG(status.st_mode):
            yield Finding("warning", "stray-file", f"{path}: is not a plain file", "move it elsewhere")
            continue
        if mode & 0o077:
            text = f"{path}: others may use it (mode {mode:04o} instead of {wanted:04o})"
            yield Finding("warning", "permissions", text, f"chmod {wanted:o} {path}, or `dsh-time doctor --fix`")
        if status.st_uid != os.geteuid():
            yield Finding("warning", "owner", f"{path}: belongs to user {status.st_uid}", "give it back to yourself")
        if path.name.endswith(".tmp"):
            text = f"{path}: a temporary file, left by a crash or just being written"
            yield Finding("note", "temporary-file", text, "the next resume removes it, or `dsh-time doctor --fix`")
        elif ".cut-" in path.name:
            text = f"{path}: {status.st_size} bytes that a repair cut off the log"
            yield Finding("note", "cut-off", text, "remove it when nothing in it is wanted")
        elif path != directory and not _KNOWN.fullmatch(path.name):
            yield Finding("note", "stray-file", f"{path}: is none of a session's files")


# -- putting right


#: What opening the session for writing puts right.
_MENDED: Final = ("log-pending", "log-torn", "temporary-file")


def _mended(found: Checkup, directory: Path, io: FileIo, force: bool) -> Checkup:
    findings = list(found.findings)
    try:
        _make_private(directory, io)
        findings = [evolve(one, fixed=True, next_step="") if one.kind == "permissions" else one for one in findings]
    except OSError as error:
        findings.append(Finding("warning", "not-fixed", f"{directory}: {error.strerror}"))
    if found.damaged or not any(finding.kind in _MENDED for finding in findings):
        return evolve(found, findings=tuple(findings))
    try:
        with Log.open(directory, lambda _: None, io=io, force=force) as log:
            done = str(log.repaired or "")
    except SessionLocked as error:
        findings.append(Finding("note", "in-use", str(error)))
    except LogError as error:
        findings.append(Finding("warning", "not-fixed", str(error)))
    else:
        for at, one in enumerate(findings):
            if one.kind in _MENDED:
                findings[at] = evolve(one, fixed=True, next_step=done if one.kind.startswith("log-") else "")
    return evolve(found, findings=tuple(findings))


def _make_private(directory: Path, io: FileIo) -> None:
    """Take everybody else's rights away. Raises OSError."""
    for path in (directory, *(directory / name for name in io.names(directory))):
        mode = io.stat_path(path).st_mode
        if mode & 0o077 and (path == directory or stat.S_ISREG(mode)):
            descriptor = io.open(path, os.O_RDONLY)
            try:
                os.fchmod(descriptor, stat.S_IMODE(mode) & 0o700)
            finally:
                io.close(descriptor)
