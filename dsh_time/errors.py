"""Every error the host raises on purpose. Each one names the thing, says what to do next, and lost no data.

::

    DshTimeError
    ├── SettingsError                 what a person set is wrong; has `problems`, all of them
    │   ├── StructureError            data does not fit a class (a plugin's config, a provider's settings)
    │   ├── DeploymentError           the deployment's files, patches, --enable or --disable
    │   └── StarterFileError          `init` could not write its file
    ├── PluginLoadError               enabled plugins cannot be loaded; has `problems`, all of them
    ├── UnknownProvider               no plugin offers that model provider
    ├── ModelNotReady                 the model's provider cannot make it: its key is missing, for one
    ├── AgentBusy                     a turn runs, so a tool cannot be called by hand
    ├── NoSuchRequest                 the log holds no model request of that step
    ├── NoSession                     there is no session to continue
    ├── AmbiguousSessionId            the beginning of more than one session's id
    └── LogError                      a session's directory or log; has `path`
        ├── InvalidSessionId          a name that is no session id (also inside a header)
        ├── UnsafePath                a symbolic link, or not the kind of file it has to be
        ├── SessionNotFound           no log there
        ├── SessionExists             a session of that id is there already
        ├── SessionLocked             another process writes it; has pid, host, started
        ├── NetworkFileSystem         locks and syncs cannot be trusted there
        ├── LogUnreadable             the system refused a read; has the OSError's text
        ├── UnsupportedVersion        written in a format this program does not know
        ├── DamagedLog                bytes that are not what was written; has offset, line, reason
        │   └── ConvertedLog          line ends were turned into CRLF; readable, not writable
        ├── UnknownEventType          an event this program does not know and must not skip; has type, seq
        ├── BadPayload                a known event whose data has another shape; has type, seq, reason
        ├── EventNotFound             a log ends before the event that was asked for; has seq
        ├── NothingToSalvage          a log without one verified event
        ├── SideFileError             a side file that is missing or is not what its name says
        └── AppendRefused             an append that did not happen; the log is as it was
            ├── InvalidDraft          the event itself cannot be logged
            ├── LogFull               the hard size limit is reached
            ├── WriteFailed           the system refused a write; taken back, the log stays usable
            ├── LogClosed             the handle was closed
            ├── WrongProcess          a forked child used its parent's handle
            └── LogPoisoned           a sync, close or roll-back failed: this handle writes no more
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from dsh_time.plugin_loading import PluginProblem
    from dsh_time.problems import Problem


class DshTimeError(Exception):
    """The root: whatever dsh-time raises on purpose can be caught with it."""


@attrs.define
class SettingsError(DshTimeError):
    """What a person wrote is wrong. `problems` holds every one, with path and place; the message lists twenty."""

    problems: "tuple[Problem, ...]"
    title: ClassVar[str]

    def __str__(self) -> str:
        return _listed(self.title, self.problems)


@attrs.define
class StructureError(SettingsError):
    """Plain data does not fit a class."""

    title = "invalid settings"


@attrs.define
class DeploymentError(SettingsError):
    """The deployment cannot be used. The problems name file, line and column where they are known."""

    title = "the deployment cannot be used"


@attrs.define
class StarterFileError(SettingsError):
    """The file that `init` writes could not be written. A file that stands there already is left as it is."""

    title = "no starter file was written"


@attrs.define
class PluginLoadError(DshTimeError):
    """Enabled plugins cannot be loaded. `problems` holds all that is wrong, each with plugin, distribution and hook."""

    problems: "tuple[PluginProblem, ...]"

    def __str__(self) -> str:
        return _listed("plugins cannot be loaded", self.problems)


@attrs.define
class UnknownProvider(DshTimeError):
    """The deployment names a model provider that nobody offers. `advice` says what to do."""

    name: object
    known: Sequence[str]
    advice: str

    def __str__(self) -> str:
        return (
            f"model.provider: there is no model provider {self.name!r}. Known: {', '.join(self.known)}. {self.advice}"
        )


@attrs.define
class ModelNotReady(DshTimeError):
    """The provider cannot make the model with these settings, here and now. `reason` says what to change."""

    provider: str
    reason: str

    def __str__(self) -> str:
        return f"The model provider {self.provider} is not ready: {self.reason}"


@attrs.define
class AgentBusy(DshTimeError):
    """A turn runs in this session."""

    session: str

    def __str__(self) -> str:
        return f"Session {self.session} is in the middle of a turn; call the tool when it has ended."


@attrs.define
class NoSuchRequest(DshTimeError):
    """In that step the model was not asked."""

    session: str
    turn: int
    step: int
    newest: tuple[int, int]  #: turn and step of the newest step there is
    rejected_by: str  #: the plugin that ended the turn before the model was asked, or empty

    def __str__(self) -> str:
        if self.rejected_by:
            why = f"plugin {self.rejected_by} rejected it before the model was asked"
        elif self.newest[0] == 0:
            why = "no model has been asked yet"
        else:
            why = f"the newest step is turn {self.newest[0]}, step {self.newest[1]}"
        return f"Session {self.session} has no request of turn {self.turn}, step {self.step}: {why}."


@attrs.define
class NoSession(DshTimeError):
    """There is nothing to continue."""

    root: Path

    def __str__(self) -> str:
        return f"{self.root}: there is no session yet. `dsh-time run PROMPT` makes one."


@attrs.define
class AmbiguousSessionId(DshTimeError):
    """More than one session's id begins so."""

    name: str
    found: Sequence[str]

    def __str__(self) -> str:
        listed = ", ".join([*self.found[:5], *(["…"] if len(self.found) > 5 else [])])
        return f"{self.name!r} begins the ids of {len(self.found)} sessions; write more of it: {listed}."


@attrs.define
class LogError(DshTimeError):
    """Something about one session on disk."""

    path: Path

    @property
    def session(self) -> str:
        """The session's id: the name of the directory (`path` is that directory or a file in it)."""
        return self.path.parent.name if self.path.suffix else self.path.name


@attrs.define
class InvalidSessionId(LogError):
    """A session id has 1 to 64 letters, digits, `_` and `-`, and begins with a letter or digit."""

    name: str

    def __str__(self) -> str:
        return (
            f"{self.name!r} is no session id. An id has 1 to 64 letters, digits, '_' and '-', and begins with a"
            " letter or digit; `dsh-time sessions` lists the ids there are."
        )


@attrs.define
class UnsafePath(LogError):
    """Something on the way to the log is a symbolic link or of the wrong kind."""

    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. Sessions are plain directories with plain files; move it back."


@attrs.define
class SessionNotFound(LogError):
    """There is no log in that directory."""

    def __str__(self) -> str:
        return f"{self.path}: there is no such session. `dsh-time sessions` lists the ids there are."


@attrs.define
class SessionExists(LogError):
    """A log is there already; it was left alone."""

    def __str__(self) -> str:
        return f"{self.path}: this session exists already. Choose another id, or resume it."


@attrs.define
class SessionLocked(LogError):
    """Another process has the session open for writing. The three facts are its own words, None when unreadable."""

    pid: int | None
    host: str | None
    started: int | None  #: epoch ms

    def __str__(self) -> str:
        who = f"process {self.pid} on {self.host}" if self.pid is not None else "another process"
        since = "" if self.started is None else f" since {_utc(self.started)}"
        return (
            f"Session {self.path.name} is being written by {who}{since}. Open it read-only, or continue in a copy:"
            f" `dsh-time fork {self.path.name}`."
        )


@attrs.define
class NetworkFileSystem(LogError):
    """The directory is on a network file system: writing there was refused."""

    kind: str  #: the file system's name in the mount table, such as `nfs4`

    def __str__(self) -> str:
        return (
            f"{self.path} is on a network file system ({self.kind}), where locks and syncs cannot be trusted. Keep"
            " sessions on a local disk (`sessions: {root: …}`), or force it and risk the log."
        )


@attrs.define
class LogUnreadable(LogError):
    """The system refused to let us read. Never taken for an empty session."""

    reason: str

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.reason}. Check its permissions and the disk, then try again."


@attrs.define
class UnsupportedVersion(LogError):
    """The header names a format version that this program does not read."""

    found: int
    supported: int

    def __str__(self) -> str:
        if self.found > self.supported:
            direction = "newer than this program reads; update dsh-time"
        else:
            direction = "older than this program reads; open it with the dsh-time that wrote it"
        return f"{self.path}: log format {self.found} is {direction} (this one reads {self.supported})."


@attrs.define
class DamagedLog(LogError):
    """Bytes in the part that was promised to be safe are not what was written. Nothing was changed."""

    offset: int  #: of the first byte that is not verified
    line: int  #: its line, counted from 1 (the header)
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: damaged at byte {self.offset}, line {self.line}: {self.reason}. Nothing was changed. Make"
            f" a new session from the part before it: `dsh-time salvage {self.session}`."
        )


@attrs.define
class ConvertedLog(DamagedLog):
    """Something turned the line ends into CRLF. It reads well, but appending would mix the two."""

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reason} (byte {self.offset}, line {self.line}), so it can be read but not continued."
            f" Make a new session of it: `dsh-time salvage {self.session}`."
        )


@attrs.define
class UnknownEventType(LogError):
    """An event of a type this program does not know, and that is not marked as safe to skip."""

    type: str
    seq: int

    def __str__(self) -> str:
        return (
            f"{self.path}: event {self.seq} is of the unknown type {self.type!r} and may not be skipped. A newer"
            f" dsh-time may know it; the lines before it can be continued: `dsh-time salvage {self.session}`."
        )


@attrs.define
class BadPayload(LogError):
    """An event of a known type whose data has another shape."""

    type: str
    seq: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: event {self.seq} ({self.type}) has data of the wrong shape: {self.reason}. The lines"
            f" before it can be continued: `dsh-time salvage {self.session}`."
        )


@attrs.define
class EventNotFound(LogError):
    """The verified part of a log ends before that event."""

    seq: int

    def __str__(self) -> str:
        return f"{self.path}: has no event {self.seq} that could be verified; see `dsh-time verify {self.session}`."


@attrs.define
class NothingToSalvage(LogError):
    """Not one event could be verified."""

    reason: str

    def __str__(self) -> str:
        return f"{self.path}: there is nothing to salvage ({self.reason}). The file was left as it is."


@attrs.define
class SideFileError(LogError):
    """A side file is missing, or its content does not have the hash in its name."""

    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. The log itself is not affected."


@attrs.define
class AppendRefused(LogError):
    """The root of what an append or a sync can raise."""


@attrs.define
class InvalidDraft(AppendRefused):
    """This event cannot be logged: its line would be too long, too deep, out of range or no JSON."""

    type: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: an event of type {self.type!r} cannot be logged: {self.reason}. Nothing was written."


@attrs.define
class LogFull(AppendRefused):
    """The log would grow over the hard limit."""

    size: int
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.size} bytes, and the limit is {self.limit}. Nothing was written; start a new session."
        )


@attrs.define
class WriteFailed(AppendRefused):
    """The system refused a write. What had been written of it was taken back; the log is readable and usable."""

    errno: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: could not be written ({self.reason}). Nothing was lost and nothing was added; make room"
            " or fix the permissions, then try again."
        )


@attrs.define
class LogClosed(AppendRefused):
    """The handle was closed before."""

    def __str__(self) -> str:
        return f"{self.path}: this handle is closed; open the session again."


@attrs.define
class WrongProcess(AppendRefused):
    """The handle belongs to another process: a forked child may not write."""

    pid: int  #: of the process that opened it

    def __str__(self) -> str:
        return f"{self.path}: opened by process {self.pid}; a forked child may not write. Fork the session instead."


@attrs.define
class LogPoisoned(AppendRefused):
    """The system failed where it cannot be known what is on the disk, so this handle writes no more."""

    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.reason}. What reached the disk is not known, so nothing more is written here. Check"
            f" the disk, then continue in a copy: `dsh-time fork {self.session}`."
        )


def _listed(title: str, problems: Sequence[object]) -> str:
    lines = [str(problem) for problem in problems[:20]]
    if len(problems) > len(lines):
        lines.append(f"and {len(problems) - len(lines)} more")
    return "\n  ".join([f"{title}:", *lines])


def _utc(epoch_ms: int) -> str:
    from datetime import UTC, datetime  # only for this message

    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"


def text_of(error: BaseException) -> str:
    """Return the error's text, also where `str(error)` itself fails."""
    try:
        return str(error)
    except Exception as unreadable:  # a stranger's exception class may do anything
        return f"(its text cannot be read: {type(unreadable).__name__})"
