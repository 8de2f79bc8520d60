"""How a session is named on the command line."""

from __future__ import annotations

from dsh_time.errors import AmbiguousSessionId, SessionNotFound
from dsh_time.store import Store


def find_session(store: Store, word: str) -> str:
    """Return the id that `word` means: an id, the beginning of just one, or `-` or `last` for the newest session.

    Raises AmbiguousSessionId, InvalidSessionId, NoSession, SessionNotFound.
    """
    ids = store.ids()
    if word in ids:
        return word
    if word in ("-", "last"):
        return store.newest()
    directory = store.directory(word)
    found = [session_id for session_id in ids if session_id.startswith(word)]
    if not found:
        raise SessionNotFound(directory)
    if len(found) > 1:
        raise AmbiguousSessionId(word, found)
    return found[0]
