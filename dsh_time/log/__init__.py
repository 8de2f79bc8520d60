"""The session log: bytes and events on disk. It knows no agent, no plugin and no type of event.

`docs/log-format.md` states the format and what the log promises.
"""

from .copy import Salvaged, fork, salvage
from .directory import LOG_NAME, session_directory
from .format import (
    DEPTH_LIMIT,
    FORMAT_VERSION,
    LINE_LIMIT,
    SESSION_ID,
    Draft,
    Record,
    SessionHeader,
    clean_text,
)
from .io import FILES, FileIo
from .lock import lock_holder
from .peek import last_record, newest_records
from .repair import Repair
from .report import Report, verify
from .scanner import Position, Verdict, read_header, scan
from .side import read_side_file
from .tail import Tail
from .writer import HARD_LIMIT, SOFT_LIMIT, Log

__all__ = [
    "DEPTH_LIMIT",
    "FILES",
    "FORMAT_VERSION",
    "HARD_LIMIT",
    "LINE_LIMIT",
    "LOG_NAME",
    "SESSION_ID",
    "SOFT_LIMIT",
    "Draft",
    "FileIo",
    "Log",
    "Position",
    "Record",
    "Repair",
    "Report",
    "Salvaged",
    "SessionHeader",
    "Tail",
    "Verdict",
    "clean_text",
    "fork",
    "last_record",
    "lock_holder",
    "newest_records",
    "read_header",
    "read_side_file",
    "salvage",
    "scan",
    "session_directory",
    "verify",
]
