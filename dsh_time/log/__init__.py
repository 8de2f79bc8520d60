"""The session log: bytes and events on disk. It knows no agent, no plugin and no type of event.

`docs/log-format.md` states the format and what the log promises.
"""

from .format import (
    DEPTH_LIMIT,
    FORMAT_VERSION,
    LINE_LIMIT,
    SESSION_ID,
    Draft,
    Header,
    Record,
    Replace,
    clean_text,
)
from .io import FILES, FileIo

__all__ = [
    "DEPTH_LIMIT",
    "FILES",
    "FORMAT_VERSION",
    "LINE_LIMIT",
    "SESSION_ID",
    "Draft",
    "FileIo",
    "Header",
    "Record",
    "Replace",
    "clean_text",
]
