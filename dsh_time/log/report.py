"""Say what state a log is in, without changing anything."""

from pathlib import Path
from typing import Literal

import attrs

from ..errors import ConvertedLog, DamagedLog, SideFileError, UnsupportedVersion
from .directory import LOG_NAME, list_names
from .io import FILES, FileIo
from .scanner import scan
from .side import SIDE_NAME, read_side_file


@attrs.frozen
class Report:
    """What `verify` found.

    `state`: `ok`; `pending`, a last line that may still be being written; `torn`, a tail that was never promised to be
    safe; `damaged`; `converted`, readable but with CRLF line ends; `unsupported`, of another format version.
    """

    path: Path
    state: Literal["ok", "pending", "torn", "damaged", "converted", "unsupported"]
    records: int  #: events that verified
    offset: int  #: of the first byte that did not, or the file's size
    line: int  #: its line, counted from 1 (the header)
    reason: str  #: empty when ok
    next_step: str  #: what to do about it; empty when ok
    damaged_side_files: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every byte is what was written."""
        return self.state == "ok" and not self.damaged_side_files


def verify(directory: Path, *, io: FileIo = FILES) -> Report:
    """Check every line of a session's log and every side file.

    Raises:
        InvalidSessionId, SessionNotFound, UnsafePath, LogUnreadable: there is nothing that could be checked.
    """
    path = directory / LOG_NAME
    salvage = f"dsh-time salvage {directory.name}"
    try:
        verdict = scan(directory, lambda _: None, io=io)
    except DamagedLog as error:
        return Report(path, "damaged", 0, error.offset, error.line, error.reason, salvage, _side_files(io, directory))
    except UnsupportedVersion as error:
        return Report(path, "unsupported", 0, 0, 1, str(error), "use the dsh-time that wrote it")
    state: Literal["ok", "pending", "torn", "damaged", "converted", "unsupported"] = verdict.state
    reason = verdict.reason
    next_step = {
        "ok": "",
        "pending": "nothing, if the session is being written; else the next resume saves these bytes and cuts them off",
        "torn": "the next resume saves these bytes and cuts them off",
    }.get(state, salvage)
    refusal = verdict.error()
    if isinstance(refusal, ConvertedLog):
        state, next_step = "converted", salvage
        reason = "; ".join(filter(None, [refusal.reason, reason]))
    end = verdict.end
    return Report(path, state, end.next_seq, end.offset, end.line, reason, next_step, _side_files(io, directory))


def _side_files(io: FileIo, directory: Path) -> tuple[str, ...]:
    damaged = []
    for name in filter(SIDE_NAME.fullmatch, list_names(io, directory)):
        try:
            read_side_file(directory, name, io=io)
        except SideFileError:
            damaged.append(name)
    return tuple(sorted(damaged))
