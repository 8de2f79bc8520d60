"""The directory that holds all sessions: one directory per session, named by its id."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Final

from attrs import frozen

from dsh_hookspecs.timefmt import instant_at

from .errors import LogError, LogUnreadable, NoSession, SessionNotFound
from .log import SESSION_ID, last_record, read_header, session_directory

_logger: Final = logging.getLogger(__name__)


def default_root() -> Path:
    """Return where sessions live when nobody says otherwise: the platform's folder for a user's data."""
    from platformdirs import user_data_path

    return user_data_path("dsh-time", appauthor=False) / "sessions"


def new_session_id(now_ms: int) -> str:
    """Return an id for a session made at `now_ms` (epoch ms). It says when that was (UTC), and sorts by it."""
    return f"{instant_at(now_ms):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


@frozen
class Store:
    """The sessions below `root`, live or at rest. Reading never writes."""

    root: Path

    def directory(self, session_id: str) -> Path:
        """Return the session's directory, which need not exist. Raises InvalidSessionId."""
        return session_directory(self.root, session_id)

    def ids(self) -> list[str]:
        """Return the ids of all sessions, sound or damaged, sorted. Empty when there is no root yet.

        Raises LogUnreadable when the root cannot be listed.
        """
        try:
            entries = list(self.root.iterdir())
            return sorted(entry.name for entry in entries if SESSION_ID.fullmatch(entry.name) and entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LogUnreadable(self.root, error.strerror or str(error)) from error

    def newest(self) -> str:
        """Return the top-level session whose last event has the greatest time (then `createdAt`, then id).

        Sessions whose header cannot be read are passed over with a warning. Raises NoSession.
        """
        found: list[tuple[int, int, str]] = []
        for session_id in self.ids():
            directory = self.directory(session_id)
            try:
                header = read_header(directory)
                if header.parent_session is not None:
                    continue
                last = last_record(directory)
            except SessionNotFound:  # its making was cut short: there is no log
                continue
            except LogError as error:
                _logger.warning("Session %s was passed over: %s", session_id, error)
                continue
            found.append((header.created_at if last is None else last.time, header.created_at, session_id))
        if not found:
            raise NoSession(self.root)
        return max(found)[2]
